"""The claims of a table of results: means and spreads over seeds, also with seeds that never reached the target."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.targets import Target
from emulator.results.standings import with_means
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
    ("values", "mean", "low", "high"),
    [
        ([7.0], 7.0, 7.0, 7.0),
        ([4.0, 1.0], 2.5, 1.0, 4.0),
        ([3.0, 9.0, 1.0], 13 / 3, 1.0, 9.0),
        ([4.0, 1.0, 3.0, 2.0], 2.5, 1.0, 4.0),  # below 5 the extremes
        ([1.0, 2.0, 3.0, 4.0, 100.0], 22.0, 2.0, 4.0),  # from 5 the quartiles
        ([NEVER], NEVER, NEVER, NEVER),
        ([1.0, NEVER], NEVER, 1.0, NEVER),
        ([1.0, 2.0, NEVER], NEVER, 1.0, NEVER),
        ([1.0, 2.0, 3.0, 4.0, NEVER], NEVER, 2.0, 4.0),
        ([1.0, 2.0, 3.0, NEVER, NEVER], NEVER, 2.0, NEVER),
        ([NEVER] * 5, NEVER, NEVER, NEVER),
    ],
)
def test_mean_low_and_high(
    values: list[float | None], mean: float | None, low: float | None, high: float | None
) -> None:
    assert spread(values) == {"mean": mean, "low": low, "high": high}
    assert spread(values[::-1]) == spread(values)


@few
@given(st.lists(st.floats(0, 1e9), min_size=5, max_size=20))
def test_from_five_seeds_on_low_and_high_are_the_quartiles_of_numpy(values: list[float]) -> None:
    low, high = np.quantile(values, [0.25, 0.75])
    assert spread(values) == pytest.approx({"mean": np.mean(values), "low": low, "high": high}, rel=1e-12)


@few
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.data())
def test_a_seed_that_never_arrives_makes_nothing_look_better(values: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    worse: list[float | None] = [*values]
    worse[at] = NEVER
    before, after = spread(values), spread(worse)
    for key in ("mean", "low", "high"):
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


def summed(runs: dict[str, dict[int, Any]], target: Target) -> dict[str, Any]:
    return with_means(summarise(runs, [target], dict.fromkeys(runs, 0.0)), runs, [target])


def two_labels() -> dict[str, Any]:
    runs = {
        "fedavg": {1: run(0.1, 0.8), 2: run(0.1, 0.2, 0.3, 0.9), 3: run(0.9)},
        "fedcl": {1: run(0.8, pace=6.0), 2: run(0.1, 0.9, pace=6.0), 3: run(0.5, 0.6)},
    }
    return summed(runs, TARGET)


def test_the_first_label_is_the_baseline_and_its_ratio_is_one() -> None:
    summary = two_labels()
    assert summary["baseline"] == "fedavg"
    assert summary["labels"]["fedavg"]["targets"]["accuracy 0.8"]["ratio_to_baseline"] == {
        "time_s": 1.0,
        "rounds": 1.0,
        "bytes": 1.0,
    }


def test_ratios_are_of_means_up_to_the_horizon() -> None:
    """The horizon is 4 s, when fedcl's third run of 2 rounds ended.

    fedavg: 2, 4 and 8 s in 1, 2 and 4 rounds; up to 4 s these are 2, 4, 4 s and 1, 2, 2 rounds of 150 bytes.  fedcl: 6
    and 12 s in rounds of 6 s, and 4 s in two rounds; up to 4 s these are 4, 4, 4 s and 2/3, 2/3, 2 rounds.
    """
    labels = two_labels()["labels"]
    base, entry = (labels[name]["targets"]["accuracy 0.8"] for name in ("fedavg", "fedcl"))
    assert base["time_s"] == {"mean": pytest.approx(10 / 3), "low": 2.0, "high": 8.0}
    assert entry["time_s"] == {"mean": 4.0, "low": 6.0, "high": NEVER}
    rounds = (2 / 3 + 2 / 3 + 2) / 5
    assert entry["ratio_to_baseline"] == pytest.approx({"time_s": 1.2, "rounds": rounds, "bytes": rounds})


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


def test_where_nobody_arrives_there_is_no_ratio() -> None:
    summary = summed({"a": {1: run(0.1)}, "b": {1: run(0.1)}}, TARGET)
    ratios = [summary["labels"][name]["targets"]["accuracy 0.8"]["ratio_to_baseline"] for name in "ab"]
    assert ratios == [dict.fromkeys(("time_s", "rounds", "bytes"))] * 2


def test_seeds_without_a_single_round_leave_a_summary() -> None:
    """Ctrl-C may come that soon."""
    label = summarise({"a": {1: [], 2: []}}, [TARGET], {"a": 0.0})["labels"]["a"]
    entry = label["targets"]["accuracy 0.8"]
    assert (entry["reached"], entry["of"], entry["time_s"]["mean"]) == (0, 2, NEVER)
    assert label["rounds"] == {"1": 0, "2": 0}


def test_finals_are_over_the_last_rounds() -> None:
    label = two_labels()["labels"]["fedavg"]
    assert label["final"]["accuracy"] == {"mean": pytest.approx(2.6 / 3), "low": 0.8, "high": 0.9}
    assert label["time_s"] == {"mean": pytest.approx(14 / 3), "low": 2.0, "high": 8.0}
    assert label["bytes"] == {"mean": 350.0, "low": 150.0, "high": 600.0}
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
    assert said["targets"]["accuracy 0.7"]["joules"] == {"mean": None, "low": 15.0, "high": None}
    assert said["joules"] == {"mean": 33.0, "low": 3.0, "high": 63.0}
    assert said["joules_of_devices"] == {"a": (21.0 + 1.0) / 2, "b": (34.0 + 2.0) / 2, "c": 8.0 / 2}


def test_where_one_device_s_power_is_not_known_no_sum_is() -> None:
    rows = drawing({"a": 1.0, "b": None}, {"a": 4.0})
    said = summarise({"x": {1: rows}}, [Target("accuracy", 0.7)], {"x": 0.0})["labels"]["x"]
    assert (said["targets"]["accuracy 0.7"]["joules"], said["joules"]) == (None, None)
    assert said["joules_of_devices"] == {"a": 5.0, "b": None}


def test_the_table_has_a_column_of_energy_where_it_is_known_and_not_left_out() -> None:
    rows = drawing({"a": 1000.0}, {"a": 4000.0})
    known = summed({"x": {1: rows}}, Target("accuracy", 0.7))
    assert to_targets(known, without=["joules"]).headings[-1] != "kJ"
    shown = to_targets(known)
    assert (shown.headings[-1], shown.rows[0][-1]) == ("kJ", "5.00")
    unknown = summed({"x": {1: run(0.5, 0.7)}}, Target("accuracy", 0.7))
    assert to_targets(unknown) == to_targets(unknown, without=["joules"])
