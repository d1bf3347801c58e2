"""What a table of results may claim: medians and spreads over seeds, also of seeds that never got there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.targets import Target
from emulator.results.summary import round_bytes, spread, summarise, to_target
from emulator.wording.tables import to_targets

few = settings(max_examples=25, deadline=None, derandomize=True)
NEVER = None
TARGET = Target("accuracy", 0.8)


def row(round: int, time: float, accuracy: float, down: int = 100, up: int = 50, **more: Any) -> dict[str, Any]:
    kinds = {"down": {"weights": down - 10, "frame": 10}, "up": {"weights": up - 10, "frame": 10}}
    metrics = {"accuracy": accuracy, "initial": None, "personalised": None}
    fates = {"asked": 3, "counted": 2, "late": 1, "lost": 0, "refused": 0}
    return {"round": round, "time_s": time, "bytes": kinds, "leverage": {}, **metrics, **fates, **more}


def run(*accuracies: float, pace: float = 2.0) -> list[dict[str, Any]]:
    return [row(i, pace * (i + 1), accuracy) for i, accuracy in enumerate(accuracies)]


# --- spread -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "median", "low", "high"),
    [
        ([7.0], 7.0, 7.0, 7.0),
        ([4.0, 1.0], 2.5, 1.0, 4.0),
        ([3.0, 9.0, 1.0], 3.0, 1.0, 9.0),
        ([4.0, 1.0, 3.0, 2.0], 2.5, 1.0, 4.0),  # below 5 the extremes
        ([1.0, 2.0, 3.0, 4.0, 100.0], 3.0, 2.0, 4.0),  # from 5 the quartiles
        ([NEVER], NEVER, NEVER, NEVER),
        ([1.0, NEVER], NEVER, 1.0, NEVER),
        ([1.0, 2.0, NEVER], 2.0, 1.0, NEVER),
        ([1.0, 2.0, 3.0, NEVER], 2.5, 1.0, NEVER),
        ([1.0, 2.0, NEVER, NEVER], NEVER, 1.0, NEVER),  # halfway to infinity
        ([1.0, 2.0, 3.0, 4.0, NEVER], 3.0, 2.0, 4.0),
        ([1.0, 2.0, 3.0, NEVER, NEVER], 3.0, 2.0, NEVER),
        ([1.0, 2.0, NEVER, NEVER, NEVER], NEVER, 2.0, NEVER),
        ([NEVER] * 5, NEVER, NEVER, NEVER),
    ],
)
def test_median_low_and_high(
    values: list[float | None], median: float | None, low: float | None, high: float | None
) -> None:
    assert spread(values) == {"median": median, "low": low, "high": high}
    assert spread(values[::-1]) == spread(values)


@few
@given(st.lists(st.floats(0, 1e9), min_size=5, max_size=20))
def test_from_five_seeds_on_they_are_the_quantiles_of_numpy(values: list[float]) -> None:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    assert spread(values) == pytest.approx({"median": median, "low": low, "high": high}, rel=1e-12)


@few
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=4))
def test_below_five_seeds_they_are_median_and_extremes(values: list[float]) -> None:
    expected = {"median": float(np.median(values)), "low": min(values), "high": max(values)}
    assert spread(values) == pytest.approx(expected, rel=1e-12)


@few
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.data())
def test_a_seed_that_never_arrives_makes_nothing_look_better(values: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    worse: list[float | None] = [*values]
    worse[at] = NEVER
    before, after = spread(values), spread(worse)
    for key in ("median", "low", "high"):
        was, now = before[key], after[key]
        assert was is not None
        assert now is NEVER or now >= was - 1e-9 * was


# --- to a target ------------------------------------------------------------------------------------------------


def test_time_rounds_and_bytes_until_the_target() -> None:
    rows = [row(0, 3.5, 0.1), row(1, 8.0, 0.85, down=200, up=80), row(2, 11.0, 0.9)]
    assert to_target(rows, TARGET) == {"time_s": 8.0, "rounds": 2, "bytes": 150 + 280}
    assert to_target(rows, Target("accuracy", 0.99)) is None


def test_with_hold_all_three_are_of_the_first_round_that_held() -> None:
    rows = run(0.9, 0.1, 0.8, 0.9)
    assert to_target(rows, Target("accuracy", 0.8, hold=2)) == {"time_s": 6.0, "rounds": 3, "bytes": 450}


def test_bytes_of_cut_transfers_are_bytes() -> None:
    assert round_bytes({"bytes": {"down": {"weights": 5, "cut": 3}, "up": {"cut": 2, "frame": 1}}}) == 11


# --- the whole --------------------------------------------------------------------------------------------------


def two_labels() -> dict[str, Any]:
    runs = {
        "fedavg": {1: run(0.1, 0.8), 2: run(0.1, 0.2, 0.3, 0.9), 3: run(0.9)},
        "fedcl": {1: run(0.8, pace=6.0), 2: run(0.1, 0.9, pace=6.0), 3: run(0.5, 0.6)},
    }
    return summarise(runs, [TARGET], {"fedavg": 0.0, "fedcl": 0.0})


def test_the_first_label_is_the_baseline_and_its_ratio_is_one() -> None:
    summary = two_labels()
    assert summary["baseline"] == "fedavg"
    assert summary["labels"]["fedavg"]["targets"]["accuracy 0.8"]["ratio_to_baseline"] == {
        "time_s": 1.0,
        "rounds": 1.0,
        "bytes": 1.0,
    }


def test_ratios_are_of_the_medians() -> None:
    """fedavg: 2, 4, 8 s; 1, 2, 4 rounds.  fedcl: 6, 12 s, never; 1, 2 rounds, never."""
    entry = two_labels()["labels"]["fedcl"]["targets"]["accuracy 0.8"]
    assert entry["time_s"] == {"median": 12.0, "low": 6.0, "high": NEVER}
    assert entry["ratio_to_baseline"] == {"time_s": 12.0 / 4.0, "rounds": 1.0, "bytes": 1.0}


def test_k_of_n_seeds_reached_it() -> None:
    labels = two_labels()["labels"]
    reached = {name: label["targets"]["accuracy 0.8"] for name, label in labels.items()}
    assert {name: (entry["reached"], entry["of"]) for name, entry in reached.items()} == {
        "fedavg": (3, 3),
        "fedcl": (2, 3),
    }
    assert reached["fedcl"]["seeds"] == {
        "1": {"time_s": 6.0, "rounds": 1, "bytes": 150},
        "2": {"time_s": 12.0, "rounds": 2, "bytes": 300},
        "3": NEVER,
    }


def test_a_baseline_that_never_arrives_gives_no_ratio() -> None:
    summary = summarise({"a": {1: run(0.1)}, "b": {1: run(0.9)}}, [TARGET], {"a": 0.0, "b": 0.0})
    ratios = [summary["labels"][name]["targets"]["accuracy 0.8"]["ratio_to_baseline"] for name in "ab"]
    assert ratios == [dict.fromkeys(("time_s", "rounds", "bytes"))] * 2


def test_seeds_without_a_single_round_leave_a_summary() -> None:
    """Ctrl-C may come that soon."""
    label = summarise({"a": {1: [], 2: []}}, [TARGET], {"a": 0.0})["labels"]["a"]
    entry = label["targets"]["accuracy 0.8"]
    assert (entry["reached"], entry["of"], entry["time_s"]["median"]) == (0, 2, NEVER)
    assert label["rounds"] == {"1": 0, "2": 0}


def test_finals_are_over_the_last_rounds() -> None:
    label = two_labels()["labels"]["fedavg"]
    assert label["final"]["accuracy"] == {"median": 0.9, "low": 0.8, "high": 0.9}
    assert label["time_s"] == {"median": 4.0, "low": 2.0, "high": 8.0}
    assert label["bytes"] == {"median": 300.0, "low": 150.0, "high": 600.0}
    assert set(label["final"]) == {"accuracy"}  # the others were not evaluated


def test_a_summary_is_json_without_infinities() -> None:
    assert json.loads(json.dumps(two_labels(), allow_nan=False)) == two_labels()


# --- energy -----------------------------------------------------------------------------------------------------


def drawing(*joules: dict[str, float | None]) -> list[dict[str, Any]]:
    return [row(i, 2.0 * (i + 1), 0.5 + 0.2 * i, joules=each) for i, each in enumerate(joules)]


def test_joules_to_a_target_are_those_of_all_rounds_until_then() -> None:
    rows = drawing({"a": 1.0, "b": 2.0}, {"a": 4.0, "c": 8.0}, {"a": 16.0, "b": 32.0})
    assert to_target(rows, Target("accuracy", 0.7)) == {"time_s": 4.0, "rounds": 2, "bytes": 300, "joules": 15.0}
    said = summarise({"x": {1: rows, 2: rows[:1]}}, [Target("accuracy", 0.7)], {"x": 0.0})["labels"]["x"]
    assert said["targets"]["accuracy 0.7"]["joules"] == {"median": None, "low": 15.0, "high": None}
    assert said["joules"] == {"median": 33.0, "low": 3.0, "high": 63.0}
    assert said["joules_of_devices"] == {"a": (21.0 + 1.0) / 2, "b": (34.0 + 2.0) / 2, "c": 8.0 / 2}


def test_where_one_device_s_power_is_not_known_no_sum_is() -> None:
    rows = drawing({"a": 1.0, "b": None}, {"a": 4.0})
    said = summarise({"x": {1: rows}}, [Target("accuracy", 0.7)], {"x": 0.0})["labels"]["x"]
    assert (said["targets"]["accuracy 0.7"]["joules"], said["joules"]) == (None, None)
    assert said["joules_of_devices"] == {"a": 5.0, "b": None}


def test_the_table_has_a_column_of_energy_where_it_is_asked_for_and_known() -> None:
    rows = drawing({"a": 1000.0}, {"a": 4000.0})
    known = summarise({"x": {1: rows}}, [Target("accuracy", 0.7)], {"x": 0.0})
    assert to_targets(known).headings[-1] != "kJ"
    shown = to_targets(known, energy=True)
    assert (shown.headings[-1], shown.rows[0][-1]) == ("kJ", "5.00")
    unknown = summarise({"x": {1: run(0.5, 0.7)}}, [Target("accuracy", 0.7)], {"x": 0.0})
    assert to_targets(unknown, energy=True) == to_targets(unknown)
