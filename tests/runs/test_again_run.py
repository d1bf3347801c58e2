"""A run that is played again over its own record: it grows to that of an unbroken run, or stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import audit
from emulator.compute.executors import Inline
from emulator.lab.build import lab_of
from emulator.play.conduct import Conduct
from emulator.play.run import run_virtual
from emulator.play.stage import Outcome
from emulator.record.record import Earlier
from emulator.record.repeated import Otherwise
from emulator.record.run import Run
from emulator.worlds import virtual
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.runs.nets import DENSE

FILES = ("events.jsonl", "rounds.jsonl", "work.jsonl", "run.json", "final.safetensors", "seal.json")
SLOW = {"up_mbit_s": 0.05, "down_mbit_s": 8, "latency_ms": 0}
STRAGGLING = {  # the slow device is asked again and again, and is at work when the round closes
    "rounds": {"max": 5, "fraction": 0.3, "ask": 4, "stragglers": "finish"},
    "fleet": [
        {"profile": "phone-mid", "count": 5, "link": {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 0}},
        {"profile": "pi-4", "count": 2, "link": SLOW},
    ],
}
Again = Callable[..., Outcome]


def player(folder: Path, changes: dict[str, Any] = {}) -> Again:  # noqa: B006
    """Plays a run there, to its end or until it has played some rounds."""
    scenario = build(merged(SMALL, {"model": DENSE, "rounds": {"max": 5}, "seeds": [1], **changes}))
    lab = lab_of(scenario)

    def play(
        rounds: int | None = None, earlier: Earlier = "compared", going_on: Callable[[], bool] = lambda: True
    ) -> Outcome:
        if rounds is not None:
            left = iter([True] * rounds)
            going_on = partial(next, left, False)
        work = run_virtual(lab, Run("fedavg", 1), Conduct.of(scenario), Inline(lab), folder, going_on, earlier=earlier)
        return asyncio.run(work)

    return play


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}


@pytest.fixture(scope="module", params=["stop", "finish"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("whole") / "fedavg-s1"
    changes = STRAGGLING if request.param == "finish" else {}
    player(folder, changes)()
    return changes, content(folder)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 3, 4])
def test_one_that_was_told_to_stop_grows_to_the_unbroken_one(tmp_path, whole, rounds):
    changes, expected = whole
    folder = tmp_path / "fedavg-s1"
    play = player(folder, changes)
    assert play(rounds).interrupted
    stopped = content(folder)
    assert (audit(folder).faults, "seal.json" in stopped) == ([], False)
    assert play(rounds).interrupted  # and again, in the same round
    assert content(folder) == stopped
    play()
    assert content(folder) == expected


@pytest.mark.slow
def test_one_that_is_told_to_stop_before_it_is_where_it_was_stays_as_it_is(tmp_path, whole):
    changes, expected = whole
    folder = tmp_path / "fedavg-s1"
    play = player(folder, changes)
    play(4)
    before = content(folder)
    assert play(2).interrupted
    assert content(folder) == before
    play()
    assert content(folder) == expected


@pytest.mark.slow
def test_one_that_is_broken_off_at_once_before_it_is_where_it_was_stays_as_it_is(tmp_path, monkeypatch, whole):
    """Whatever its devices do then, their last lines are no part of the run."""
    changes, _ = whole
    folder = tmp_path / "fedavg-s1"
    player(folder, changes)(4)
    before = content(folder)
    monkeypatch.setattr(virtual, "BREATH", 1)
    asked = iter([False, False, True])

    def broken_off() -> bool:
        if next(asked):
            task = asyncio.current_task()
            assert task
            task.cancel()
        return True

    with pytest.raises(asyncio.CancelledError):
        player(folder, changes)(going_on=broken_off)
    assert content(folder) == before


@pytest.mark.slow
def test_one_that_was_killed_anywhere_grows_to_the_unbroken_one(tmp_path, whole):
    """Its events are on the disk before the row that sums them up; the last line may be torn."""
    changes, expected = whole
    folder = tmp_path / "fedavg-s1"
    play = player(folder, changes)
    folder.mkdir()
    events, rows = (expected[name] for name in FILES[:2])
    for share in (0.0, 0.3, 0.99):
        (folder / "events.jsonl").write_bytes(events[: int(len(events) * max(share, 0.01))])
        (folder / "rounds.jsonl").write_bytes(rows[: int(len(rows) * share * 0.5)])
        (folder / "work.jsonl").write_bytes(expected["work.jsonl"][:-1])
        play()
        assert content(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["events.jsonl", "rounds.jsonl", "work.jsonl", "run.json"])
@pytest.mark.parametrize("how", ["other", "longer"])
def test_one_that_comes_out_otherwise_stays_as_it_is_unless_it_is_to_be_cut(tmp_path, name, how):
    folder = tmp_path / "fedavg-s1"
    play = player(folder)
    play()
    expected = content(folder)
    (folder / "seal.json").unlink()
    text = expected[name]
    last = text.splitlines(keepends=True)[-1]
    changed = {"other": text.replace(b"pi-4-0", b"pi-4-9").replace(b'"fedavg"', b'"fedavq"'), "longer": text + last}
    if name == "rounds.jsonl":
        changed["other"] = text.replace(b'"round":2', b'"round":7')
    (folder / name).write_bytes(changed[how])
    assert changed[how] != text
    before = content(folder)
    with pytest.raises(Otherwise, match=name):
        play()
    assert content(folder) == before
    play(earlier="cut")
    assert content(folder) == expected


@pytest.mark.slow
def test_what_a_run_without_a_line_says_of_itself_is_no_record_yet(tmp_path):
    folder = tmp_path / "fedavg-s1"
    play = player(folder)
    play()
    expected = content(folder)
    (folder / "seal.json").unlink()
    (folder / "run.json").write_bytes(expected["run.json"].replace(b'"fedavg"', b'"fedavq"'))
    for name in FILES[:3]:
        (folder / name).write_bytes(b"")
    play()
    assert content(folder) == expected
