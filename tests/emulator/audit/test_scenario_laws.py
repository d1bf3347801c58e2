"""The audit on a record and the scenario beside it: what was declared, and the same with one thing otherwise."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from emulator.audit import expected
from emulator.audit.audit import Audit, audit
from tests.all_of import all_of
from tests.emulator.audit.straggling import HOST, LINK, SCENARIO, WORK, B, Body, declare, events, rows, write
from tests.emulator.audit.test_audit import CHANGES, changed, numbers

Lines = list[Body]
RECORD = (events(), rows())
Judge = Callable[..., Audit]


@pytest.fixture
def verdict(tmp_path: Path) -> Judge:
    def judge(lines: Lines | None = None, told: Lines | None = None, work: Lines = WORK, **changes: Any) -> Audit:
        declare(tmp_path, **changes)
        return audit(write(tmp_path, events() if lines is None else lines, rows() if told is None else told, work))

    return judge


def rules(**changes: Any) -> Body:
    return {"rounds": SCENARIO["rounds"] | changes}


def group(number: int, **changes: Any) -> Body:
    fleet = copy.deepcopy(SCENARIO["fleet"])
    fleet[number] |= changes
    return {"fleet": fleet}


def board(name: str, **changes: Any) -> Body:
    return {"profiles": {**SCENARIO["profiles"], name: {**SCENARIO["profiles"][name], **changes}}}


def test_a_record_that_is_what_the_scenario_says_has_no_fault(verdict: Judge) -> None:
    assert verdict() == Audit([])


def test_it_may_end_after_any_line(verdict: Judge) -> None:
    for length in range(0, len(events()), 4):
        assert verdict(events()[:length], [], WORK[:1]) == Audit([])


def drawing(watts: list[float]) -> Lines:
    """Rows whose joules are made of these watts all through."""
    told = rows()
    for row, seconds in zip(told, ([4.0, 2.0, 1.5], None, None, [0.0, 2.0, 1.5]), strict=True):
        if seconds:
            row["watts"][B] = watts
            row["joules"][B] = sum(a * b for a, b in zip(watts, seconds, strict=True))
    return told


@pytest.mark.parametrize("watts", [[2.0, 8.0, 4.0], [0.0, 0.0, 0.0], [1.0, 2.0, 4.0]])
def test_watts_that_are_wrong_throughout_are_found(verdict: Judge, watts: list[float]) -> None:
    faults = verdict(told=drawing(watts)).faults
    assert [fault[:16] for fault in faults] == ["scenario: row 0:", "scenario: row 3:"]
    assert all_of("[1.0, 4.0, 2.0]" in fault for fault in faults)


def test_watts_of_a_device_whose_profile_has_none_are_found(verdict: Judge) -> None:
    told = rows()
    told[1] |= {"watts": {"a-0": [1.0, 1.0, 1.0]}, "joules": {"a-0": 3.5}}
    assert names(verdict(told=[*told[:1], *told[1:]]))  # of I6 too: it was null before
    told[0]["watts"]["a-0"] = told[2]["watts"]["a-0"] = [1.0, 1.0, 1.0]
    told[0]["joules"]["a-0"] = told[2]["joules"]["a-0"] = 3.5
    assert len(names(verdict(told=told))) == 3


def names(found: Audit) -> list[str]:
    return [fault for fault in found.faults if fault.startswith(("scenario: ", "I6: ", "I7: "))]


OTHERWISE: dict[str, Body] = {
    "another machine": board("plain", speed_gflop_s=2e-6),
    "a machine that is slow by its memory": board("plain", overhead_ms=1),
    "other watts": board("metered", power_radio_w=3),
    "jitter": group(1, jitter=0.1),
    "heat": board("metered", sustained=0.5, heating_s=10) | group(1, throttling=True),
    "a device that was never away": group(1, presence={}),
    "one that was away sooner": group(1, presence={"off": [[0.5, 3.75], [5.5, 6.0]]}),
    "one that was away once more": group(1, presence={"off": [[0.5, 4.0], [5.5, 6.0], [6.5, 6.75]]}),
    "one that was away when it was asked": group(1, presence={"off": [[0.5, 4.0], [5.5, 6.0], [10.0, 10.6]]}),
    "a slower link": group(0, link={**LINK, "up_mbit_s": 0.0004}),
    "a slower link of the server": {"server": {"link": {**SCENARIO["server"]["link"], "up_mbit_s": 0.0004}}},
    "a longer way": group(0, link={**LINK, "latency_ms": 1}),
    "a radio that sleeps": board("metered", wakeup_s=0.25) | group(1, wakeup=True),
    "headers": group(0, link={**LINK, "model": "tcp"}),
    "another name": group(0, name="c"),
    "work that is lost": rules(when_off="lose"),
    "work that begins again": rules(when_off="restart"),
    "transfers that begin again": rules(transfers="restart"),
    "stragglers that stop": rules(stragglers="stop"),
    "a deadline": rules(deadline_s=3),
    "more replies": rules(fraction=1.0, min_replies=2),
}


@pytest.mark.parametrize("changes", OTHERWISE.values(), ids=OTHERWISE)
def test_a_record_of_another_scenario_is_found(verdict: Judge, changes: Body) -> None:
    found = verdict(**changes)
    assert found.unjudged is None
    assert names(found)


@pytest.mark.parametrize("policy", [{"when_off": "lose"}, {"transfers": "lose"}, {"stragglers": "stop"}])
def test_the_fault_says_what_the_scenario_says(verdict: Judge, policy: Body) -> None:
    [(key, value)] = policy.items()
    assert any("scenario says" in fault and value in fault for fault in verdict(**rules(**{key: value})).faults)


@pytest.mark.parametrize("gone", [5.5, 5.5 + 4e-16 * 5.5])
def test_who_never_comes_back_loses_all_by_any_policy(verdict: Judge, gone: float) -> None:
    """Also where a sum of floats has put the line just before the absence."""
    lines = [body for body in events() if body["t"] <= 5.5]
    lost = next(body for body in lines if body["event"] == "compute.cut")
    del lost["then"]
    assert verdict(lines, [], **group(1, presence={"off": [[0.5, 4.0], [gone, float("inf")]]})).faults == []
    assert names(verdict(lines, []))


def test_work_that_was_not_asked_for_is_found(verdict: Judge) -> None:
    """Half the FLOPs in half the seconds, in all lines and rows."""
    work = copy.deepcopy(WORK)
    work[0]["pieces"][0][1] = 4000.0
    assert any("phases are" in fault for fault in verdict(work=work).faults)


def test_a_straggler_that_is_asked_though_it_never_came_back_is_found(verdict: Judge) -> None:
    """The record alone would show stragglers that stop."""
    lines = [body for body in events() if not (body["round"] == 0 and body.get("device") == B and body["t"] > 3.5)]
    assert any(fault.startswith("I7: ") and "is not done" in fault for fault in verdict(lines, []).faults)


def test_over_sockets_things_may_be_late_and_never_early(verdict: Judge) -> None:
    host = HOST | {"world": "sockets"}
    for off, sound in (([[0.4, 3.9], [5.4, 5.9]], True), ([[0.5, 4.1], [5.5, 6.0]], False)):
        assert (verdict(host=host, **group(1, presence={"off": off})).faults == []) is sound
        assert verdict(**group(1, presence={"off": off})).faults


# --- a scenario that cannot be resolved

UNJUDGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (lambda out: (out / "scenario.yaml").unlink(), "there is no scenario.yaml next to the run"),
    "no scenario": (lambda out: (out / "scenario.yaml").write_text("[1"), "not YAML"),
    "another form": (lambda out: (out / "scenario.yaml").write_text("fleet: 3"), "not as `fedlapse compare` writes it"),
    "a replay": (lambda out: (out / "replay.json").write_text("{}"), "a replay"),
    "another version": (
        lambda out: (out / "host.json").write_text(json.dumps({"versions": {"fedlapse": "0.0"}})),
        "played with fedlapse 0.0",
    ),
    "a broken host": (lambda out: (out / "host.json").write_text("[]"), "host.json is not"),
}


@pytest.mark.parametrize(("spoil", "why"), UNJUDGED.values(), ids=UNJUDGED)
def test_where_there_is_no_telling_it_says_so(
    verdict: Judge, tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    verdict()
    spoil(tmp_path)
    found = audit(tmp_path / "fedavg-s1")
    assert found.faults == []
    assert why in str(found.unjudged)


def test_the_command_says_on_stderr_what_was_not_judged(fedlapse: Callable[..., Any], tmp_path: Path) -> None:
    write(tmp_path, *RECORD)
    done = fedlapse("audit", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 of 2 folders obey the laws")
    unsealed = [f"fedlapse: {folder}: no seal: interrupted" for folder in (tmp_path, tmp_path / "fedavg-s1")]
    assert done.stderr.splitlines() == [
        "fedlapse: 1 of 1 run not judged by all laws of the scenario: there is no scenario.yaml next to the run",
        *unsealed,
    ]
    declare(tmp_path)
    assert fedlapse("audit", tmp_path).stderr.splitlines() == unsealed


MISSING: dict[str, Body] = {
    "a log of presence": group(1, presence={"trace": "nowhere"}),
    "a recorded link": group(0, link={"trace": {"down": ["nowhere.csv"], "symmetric": True}, "latency_ms": 0}),
    "a profile": group(0, profile="nothing"),
}


@pytest.mark.parametrize("changes", MISSING.values(), ids=MISSING)
def test_a_file_that_is_missing_is_named(verdict: Judge, changes: Body) -> None:
    found = verdict(**changes)
    assert found.faults == []
    assert "no" in str(found.unjudged)


def test_a_plugin_is_neither_needed_nor_run(verdict: Judge) -> None:
    own = {"algorithms": [{"key": "nowhere.mine:Mine", "options": {}, "name": "mine"}], "model": "nowhere:net"}
    assert verdict(**own) == Audit([])


# --- one number otherwise

PLACES = [(file, place) for file in (0, 1) for place in range(len(RECORD[file]))]


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Lines, Lines], list[str]]:
    """The faults of records of one scenario, which is read once."""
    declare(tmp_path)
    known = expected.declared(write(tmp_path, *RECORD))
    monkeypatch.setattr(expected, "declared", lambda _: known)
    return lambda lines, told: audit(write(tmp_path, lines, told)).faults


@pytest.mark.parametrize(("file", "place"), PLACES[:-1])  # the last row may not have been written yet
def test_no_line_can_be_left_out(quick: Callable[..., list[str]], file: int, place: int) -> None:
    record = copy.deepcopy(RECORD)
    del record[file][place]
    assert quick(*record)


@pytest.mark.parametrize(("file", "place"), PLACES)
def test_no_number_can_be_changed(quick: Callable[..., list[str]], file: int, place: int) -> None:
    for path, change in product(numbers(RECORD[file][place]), CHANGES):
        record = copy.deepcopy(RECORD)
        changed(record[file][place], path, change)
        assert quick(*record), f"{RECORD[file][place]} {path}: {change}"
