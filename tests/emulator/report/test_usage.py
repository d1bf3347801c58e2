"""The use of the devices' seconds and joules, and the reasons of refusals, in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest

from emulator.record.events import Unsound, events_of
from emulator.report import fates
from emulator.results import caveats
from emulator.results.summary import summarise
from emulator.wording import tables
from emulator.wording.terminal import table
from scenarios.load import build
from scenarios.schema.scenario import Scenario

SECONDS = {"useful": 30.0, "wasted": 6.0, "idle": 4.0}


def row(round: int = 0, **more: Any) -> dict[str, Any]:
    kinds = {"down": {"weights": 1_000_000}, "up": {"weights": 500_000}}
    metrics = {"accuracy": 0.5, "initial": None, "personalised": None}
    asked = {"asked": 3, "counted": 3, "late": 0, "lost": 0, "refused": 0, "wasted_bytes": 0}
    return {"round": round, "time_s": 2.0 * (round + 1), "bytes": kinds, "leverage": {}, **metrics, **asked, **more}


def summary(runs: Mapping[str, Mapping[int, list[dict[str, Any]]]]) -> dict[str, Any]:
    return summarise(runs, [], dict.fromkeys(runs, 0.0))


def silent(label: str, seed: int) -> Iterator[Mapping[str, Any]]:
    raise AssertionError(f"the events of {label}, seed {seed} are read for nothing")


# --- seconds ----------------------------------------------------------------------------------------------------


def test_useful_wasted_and_idle_seconds_are_those_of_whole_runs_mean_over_seeds() -> None:
    """Seed 1: two rounds of 30 + 6 + 4 s; seed 2: one.  Mean 45, 9 and 6 s of 60: 15 % and 10 %."""
    runs = {"fedavg": {1: [row(0, seconds=SECONDS), row(1, seconds=SECONDS)], 2: [row(0, seconds=SECONDS)]}}
    assert summary(runs)["labels"]["fedavg"]["device_seconds"] == {"useful": 45.0, "wasted": 9.0, "idle": 6.0}
    figure = fates.usage(runs)
    assert figure is not None
    assert list(figure.headings) == ["algorithm", "useful, s", "wasted, s", "idle, s", "wasted, %", "idle, %"]
    assert figure.rows == [("fedavg", "45.0", "9.00", "6.00", "15.0", "10.0")]
    for word in ("Useful:", "Wasted:", "Idle:"):  # for a reader who has never met them
        assert word in figure.caption


def test_a_record_that_does_not_tell_seconds_shows_none() -> None:
    assert fates.usage({"old": {1: [row()]}, "begun": {1: []}}) is None
    assert summary({"old": {1: [row()]}})["labels"]["old"]["device_seconds"] is None
    both = fates.usage({"old": {1: [row()]}, "new": {1: [row(seconds=SECONDS)]}})
    assert both is not None
    assert [line[0] for line in both.rows] == ["new"]


# --- refusals ---------------------------------------------------------------------------------------------------


def refused(device: str, kind: str, why: str) -> dict[str, Any]:
    return {"t": 1.0, "event": "refused", "round": 0, "device": device, "kind": kind, "why": why}


def test_refusals_are_counted_by_their_kind_whatever_they_say() -> None:
    said = [
        refused("a-2", "values", "'weights' 'fc' holds a value that is not finite"),
        refused("a-1", "device", "x needs 812.5 MB for 12 examples, it has 800 MB"),
        {"t": 1.0, "event": "close", "round": 0, "reason": "all", "counted": []},
        refused("b", "device", "y needs 1.2e+03 MB for 7 examples, it has 900 MB"),
    ]
    runs = {"x": {1: [row(refused=3)], 2: [row()]}}
    figure = fates.devices(runs, lambda _, seed: events_of(said) if seed == 1 else silent("x", seed))
    assert figure is not None
    assert "memory cannot hold the job" in figure.caption
    assert figure.caption.endswith(
        "Refused, each with the first: 2 for too little memory (a-1: x needs 812.5 MB for 12 examples, it has 800 MB); "
        "1 for values that are not finite (a-2: 'weights' 'fc' holds a value that is not finite)."
    )


def test_each_kind_of_refusal_has_its_words() -> None:
    assert {*fates.REASONS} == {*get_args(Unsound)}


def test_a_refusal_of_an_older_version_is_told_in_one_line() -> None:
    old = {"t": 1.0, "event": "refused", "round": 0, "device": "a", "why": "a refuses: x needs 812.5 MB"}
    with pytest.raises(ValueError, match="is not as `fedlapse run` writes it: 'kind'"):
        list(fates.refusals({"x": {1: [row(refused=1)]}}, lambda _label, _seed: events_of([old])))


def test_without_a_refusal_no_events_are_read() -> None:
    assert list(fates.refusals({"x": {1: [row()]}}, silent)) == []
    figure = fates.devices({"x": {1: [{**row(), "late": 1}]}}, silent)
    assert figure is not None
    assert figure.caption.endswith("is not sound).")


# --- joules -----------------------------------------------------------------------------------------------------


def test_joules_stand_at_the_end_also_where_there_are_no_targets() -> None:
    runs = {"known": {1: [row(joules={"a": 1500.0, "b": 500.0})]}, "unknown": {1: [row(joules={"a": None})]}}
    shown = tables.at_the_end(summary(runs))
    assert shown.headings[-1] == "kJ"
    assert [line[-1] for line in shown.rows] == ["2.00", "–"]
    assert tables.at_the_end(summary({"unknown": runs["unknown"]})).headings[-1] == "accuracy"


def test_the_twenty_devices_that_drew_most_are_listed_by_their_most() -> None:
    """25 devices: d-24 drew least under one algorithm and most under the other."""
    one = {f"d-{number}": 100.0 - number for number in range(25)}
    runs = {"one": {1: [row(joules=one)]}, "two": {1: [row(joules={"d-24": 500.0, "e": None})]}}
    shown = tables.of_devices(summary(runs))
    assert list(shown.headings) == ["device", "one, J", "two, J"]
    assert shown.rows[:2] == [("d-24", "76.0", "500"), ("d-0", "100", "–")]
    assert [line[0] for line in shown.rows[1:]] == [f"d-{number}" for number in range(19)]
    assert "The 20 of 26 with the most energy are shown." in shown.caption  # e is known to have been there
    assert tables.of_devices(summary({"two": {1: [row(joules={"e": None})]}})).rows == []


def test_a_device_without_watts_is_listed_and_named() -> None:
    """One group has no watts: its devices stand last, the fleet has no joules, and a line says what to add where."""
    found = summary({"x": {1: [row(joules={"host-0": None, "host-1": None, "phone-0": 5.0})]}})
    shown = tables.of_devices(found)
    assert shown.rows == [("phone-0", "5.00"), ("host-0", "–"), ("host-1", "–")]
    assert tables.at_the_end(found).headings[-1] == "accuracy"
    [line] = tables.unmetered({**found, "unmetered": ["host"]})
    assert line.startswith(
        "the energy of the fleet is unknown, because the power draw of host is unknown; add power_idle_w, "
    )


def test_where_all_watts_are_known_nothing_is_said_of_them() -> None:
    assert tables.unmetered(summary({"x": {1: [row(joules={"a": 1.0})]}, "old": {1: [row()]}})) == []


def test_of_many_groups_without_watts_five_are_named() -> None:
    [line] = caveats.unmetered(f"g{number}" for number in range(7) for _ in range(3))
    assert "the power draw of g0, g1, g2, g3, g4, 2 more is unknown; add" in line


# --- the terminal -----------------------------------------------------------------------------------------------


def scenario(*labels: str, seeds: int) -> Scenario:
    link = {"up_mbit_s": 1, "down_mbit_s": 1}
    return build(
        {
            "name": "small",
            "seeds": list(range(1, seeds + 1)),
            "fleet": [{"profile": "pi-4", "count": 3, "link": link}],
            "algorithms": [{"fedavg": {}, "name": label} for label in labels],
        }
    )


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def at(width: int, accuracies: list[float]) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        seeds = {
            seed: [row(accuracy=value, initial=value, personalised=value, joules={"a": 1e6 * value})]
            for seed, value in enumerate(accuracies, 1)
        }
        lines = table(scenario("fedavg", seeds=len(accuracies)), summary({"fedavg": seeds})).splitlines()
        assert max(map(len, lines)) <= width
        return lines

    return at


def test_the_terminal_has_a_column_of_joules_where_a_hundred_columns_hold_it(printed: Any) -> None:
    title, heading, _rule, line = printed(100, [0.25])
    assert title.startswith("small")
    assert heading.split()[-1] == "kJ"
    assert line.split()[-1] == "250"


def test_a_narrow_terminal_has_its_ranges_below_the_means_and_joules_if_they_fit_then(printed: Any) -> None:
    accuracies = [0.25, 0.75]
    wide, narrow, narrowest = (printed(width, accuracies) for width in (140, 100, 80))
    assert wide[-1].split("  ")[-1].strip() == "500 [250, 750]"
    assert narrow[-2].split()[-1] == "500"
    assert narrow[-1].split("  ")[-1].strip() == "[250, 750]"
    assert narrowest[1].split()[-1] == "personalised"
    assert narrowest[-1].split("  ")[-1].strip() == "[0.250, 0.750]"
