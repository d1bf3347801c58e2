"""The laws of asynchronous rounds: no run breaks them, and planted faults are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import audit
from emulator.record.call import AGAIN
from emulator.record.lines import encode
from scenarios.load import build, dump
from tests.all_of import all_of
from tests.conftest import SMALL, Played
from tests.emulator.conversation.test_versions import played

Line = Mapping[str, Any]
LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 5}
ROUNDS = {"max": 4, "mode": "async", "buffer": 2, "in_flight": 4, "max_staleness": 3}
FLEET = [
    {"name": "fast", "profile": "pi-4", "count": 3, "link": LINK},
    {"name": "slow", "profile": "pi-4", "count": 3, "link": {**LINK, "up_mbit_s": 0.3}},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        ("fedavg", {"timeout_s": 1.0}),
        (
            {"fedbuff": {"staleness": "hinge", "b": 1.0}, "name": "fedbuff"},
            {"when_off": "pause", "transfers": "resume"},
        ),
        ("fedasync", {"buffer": 1}),
    ],
)
def test_runs_with_absences_and_lost_replies_are_clean(tmp_path: Path, algorithm: Any, rounds: Any) -> None:
    off = [[t + at for t in range(0, 200, 7)] for at in (3.0, 5.0)]
    fleet = [
        {**group, "presence": {"off": [[t, t + 1.5] for t in starts]}} for group, starts in zip(FLEET, off, strict=True)
    ]
    run = played(tmp_path, algorithm, fleet=fleet, rounds={**ROUNDS, **rounds, "max": 5})
    assert run.outcome.failure is None
    assert run.of("off")
    stopped = [line for line in run.events if line.get("why") == "closed" and line["t"] < run.rounds[-1]["time_s"]]
    assert bool(stopped) == ("timeout_s" in rounds)
    assert sum(row["lost"] for row in run.rounds) or "when_off" in rounds
    assert any(age != "0" for row in run.rounds for age in row["staleness"])
    assert all_of(row["asked"] == row["counted"] + row["late"] + row["lost"] + row["refused"] for row in run.rounds)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played(tmp_path_factory.mktemp("sound"), "fedbuff", fleet=FLEET, rounds=ROUNDS)


def faults(run: Played, out: Path, events: Sequence[Line], rows: Sequence[Line]) -> list[str]:
    folder = out / run.folder.name
    shutil.copytree(run.folder.parent, out, dirs_exist_ok=True)
    (folder / "seal.json").unlink()
    (folder / "events.jsonl").write_bytes(b"".join(map(encode, events)))
    (folder / "rounds.jsonl").write_bytes(b"".join(map(encode, rows)))
    return audit(folder).faults


def found(run: Played, out: Path, change: Callable[[list[Any], list[Any]], None]) -> list[str]:
    events, rows = (json.loads(json.dumps(lines)) for lines in (run.events, run.rounds))
    change(events, rows)
    return faults(run, out, events, rows)


def closes(events: Sequence[Any]) -> list[Any]:
    return [line for line in events if line["event"] == "close"]


@pytest.mark.slow
def test_a_sound_record_has_no_fault(sound: Played, tmp_path: Path) -> None:
    assert found(sound, tmp_path, lambda events, rows: None) == []
    assert any(isinstance(each, list) for line in closes(sound.events) for each in line["counted"])


@pytest.mark.slow
def test_a_stale_reply_that_counts_twice_is_found(sound: Played, tmp_path: Path) -> None:
    def twice(events: list[Any], rows: list[Any]) -> None:
        of = closes(events)
        stale = next(line for line in of if any(isinstance(each, list) for each in line["counted"]))
        reply = next(each for each in stale["counted"] if isinstance(each, list))
        of[of.index(stale) + 1]["counted"][-1] = reply

    said = found(sound, tmp_path, twice)
    assert any("I1" in fault and "aggregated before" in fault for fault in said)


@pytest.mark.slow
def test_a_reply_that_counts_in_another_version_is_found(sound: Played, tmp_path: Path) -> None:
    """Here two of one version change places, and rows and events agree on it."""

    def swapped(events: list[Any], rows: list[Any]) -> None:
        said = closes(events)[0]["counted"]
        said.reverse()
        rows[0]["critical"] |= {"device": said[-1]}

    said = found(sound, tmp_path, swapped)
    assert len(said) == 1
    assert "I3" in said[0]
    assert "is due" in said[0]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["weights", "staleness", "stale"])
def test_a_wrong_weight_or_staleness_is_found(sound: Played, tmp_path: Path, key: str) -> None:
    def changed(events: list[Any], rows: list[Any]) -> None:
        row = next(row for row in rows if set(row["staleness"]) - {"0"})
        row[key] = row[key] + 1 if key == "stale" else {age: 2 * value for age, value in row[key].items()}

    said = found(sound, tmp_path, changed)
    assert len(said) == 1
    assert key in said[0]


@pytest.mark.slow
def test_more_devices_at_work_than_places_are_found(sound: Played, tmp_path: Path) -> None:
    """M + 1 at work, as the scenario names one place fewer."""
    said = faults(sound, tmp_path, sound.events, sound.rounds)
    assert said == []
    path = tmp_path / "scenario.yaml"
    path.write_text(path.read_text().replace("in_flight: 4", "in_flight: 3"))
    said = audit(tmp_path / sound.folder.name).faults
    assert any("4 devices are at work; the scenario says 3 at most" in fault for fault in said)


@pytest.mark.slow
def test_a_device_that_is_asked_while_it_is_offline_is_found(sound: Played, tmp_path: Path) -> None:
    assert faults(sound, tmp_path, sound.events, sound.rounds) == []
    away = [{**group, "presence": {"off": [[0.0, 1000.0]]}} for group in FLEET]
    (tmp_path / "scenario.yaml").write_text(dump(build({**SMALL, "fleet": away, "rounds": ROUNDS, "seeds": [1]})))
    assert any("which is offline" in fault for fault in audit(tmp_path / sound.folder.name).faults)


@pytest.mark.slow
def test_a_busy_device_that_is_asked_is_found(sound: Played, tmp_path: Path) -> None:
    def busy(events: list[Any], rows: list[Any]) -> None:
        first, second = [line for line in events if line["event"] == "ask" and line["round"] < AGAIN][:2]
        second["asked"].append(next(name for name in first["asked"] if name.startswith("slow")))

    said = found(sound, tmp_path, busy)
    assert any("I7" in fault and "which is at work" in fault for fault in said)


@pytest.mark.slow
def test_a_request_that_acknowledges_what_did_not_count_is_found(sound: Played, tmp_path: Path) -> None:
    def wrong(events: list[Any], rows: list[Any]) -> None:
        next(line for line in events if line["event"] == "down.start" and line["reply_to"] is not None)["reply_to"] = 77

    assert any("I4" in fault and "acknowledges round 77" in fault for fault in found(sound, tmp_path, wrong))
