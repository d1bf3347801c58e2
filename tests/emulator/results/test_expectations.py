"""A scenario's expectations, compared with rows that were counted by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from emulator.results.expectations import Judgement, judge


@dataclass(frozen=True)
class Expect:
    label: str = "fedavg"
    metric: str = "accuracy"
    reach: float | None = None
    hold: int = 1
    time_s: float | None = None
    rounds: float | None = None
    mb: float | None = None
    final: float | None = None


def run(*accuracies: float | None, pace: float = 10.0) -> list[dict[str, Any]]:
    """A megabyte a round."""
    sent = {"down": {"weights": 600_000}, "up": {"weights": 399_990, "frame": 10}}
    return [
        {"round": i, "time_s": pace * (i + 1), "accuracy": accuracy, "validation": None, "bytes": sent}
        for i, accuracy in enumerate(accuracies)
    ]


TWO = {1: run(0.5, 0.9), 2: run(0.5, 0.6, 0.7, 0.95)}  # 0.9 after 20 and 40 s: 30 in the median


def judged(seeds: Mapping[int, Any] = TWO, **expected: Any) -> list[tuple[bool, str]]:
    return [(each.ok, each.text) for each in judge([Expect(**expected)], {"fedavg": seeds})]


def test_the_median_over_seeds_is_held_against_each_bound() -> None:
    assert judged(reach=0.9, time_s=60, rounds=3, mb=2.9) == [
        (True, "fedavg: accuracy 0.9 within 60 s: 30 s (median, 2 of 2 seeds)"),
        (True, "fedavg: accuracy 0.9 within 3 rounds: 3 rounds (median, 2 of 2 seeds)"),
        (False, "fedavg: accuracy 0.9 within 2.9 MB: 3 MB (median, 2 of 2 seeds)"),
    ]


@pytest.mark.parametrize(("bound", "ok"), [(30.0, True), (29.999999, False)])
def test_a_bound_that_is_just_met_is_met(bound: float, ok: bool) -> None:
    assert judged(reach=0.9, time_s=bound)[0][0] is ok


@pytest.mark.parametrize(
    ("time", "bound", "said"),
    [(44.2044, 44.2042, "44.2044"), (44.2042, 44.2042, "44.2042"), (44.2044, 44.3, "44.2"), (131.4, 131.2, "131.4")],
)
def test_what_is_printed_lies_on_the_side_of_the_bound_where_the_value_lies(
    time: float, bound: float, said: str
) -> None:
    assert f": {said} s (" in judged({1: run(0.9, pace=time)}, reach=0.9, time_s=bound)[0][1]


def test_a_miss_by_a_hair_can_be_read() -> None:
    seeds = {1: run(0.9, pace=30.0000001)}
    assert judged(seeds, reach=0.9, time_s=30) == [
        (False, "fedavg: accuracy 0.9 within 30 s: 30.0000001 s (median, 1 of 1 seed)")
    ]


def test_a_seed_that_never_gets_there_is_infinite() -> None:
    three = {**TWO, 3: run(0.1, 0.2)}
    assert judged(three, reach=0.9, time_s=40)[0] == (
        True,
        "fedavg: accuracy 0.9 within 40 s: 40 s (median, 2 of 3 seeds)",
    )
    assert judged({1: run(0.9), 2: run(0.1)}, reach=0.9, time_s=1e6)[0] == (
        False,
        "fedavg: accuracy 0.9 within 1000000 s: not reached by the median seed (1 of 2 seeds; 10 s were run)",
    )
    assert judged({1: run(0.1), 2: run(0.1, 0.1)}, reach=0.9, time_s=60)[0] == (
        False,
        "fedavg: accuracy 0.9 within 60 s: not reached (0 of 2 seeds; 10 s to 20 s were run)",
    )


def test_reach_alone_asks_for_every_seed() -> None:
    assert judged(reach=0.9) == [(True, "fedavg: accuracy 0.9 reached: yes (2 of 2 seeds)")]
    three = {**TWO, 3: run(0.1, 0.2)}
    assert judged(three, reach=0.9) == [
        (False, "fedavg: accuracy 0.9 reached: no (2 of 3 seeds; 20 s to 40 s were run)")
    ]


def test_hold_is_part_of_the_target() -> None:
    seeds = {1: run(0.9, 0.1, 0.9, 0.9)}
    assert judged(seeds, reach=0.9, rounds=1)[0][0]
    assert judged(seeds, reach=0.9, hold=2, rounds=1) == [
        (False, "fedavg: accuracy 0.9 held 2 within 1 rounds: 3 rounds (median, 1 of 1 seed)")
    ]


def test_the_end_is_the_last_value_that_was_measured() -> None:
    seeds = {1: run(0.99, 0.5), 2: run(0.6, None), 3: run(0.7)}
    assert judged(seeds, final=0.6) == [(True, "fedavg: accuracy at least 0.6 at the end: 0.6 (median of 3 seeds)")]
    assert judged(seeds, final=0.61) == [(False, "fedavg: accuracy at least 0.61 at the end: 0.6 (median of 3 seeds)")]


def test_a_seed_without_a_value_counts_as_the_worst() -> None:
    assert judged({1: run(0.9), 2: run(0.8), 3: []}, final=0.8)[0][0]
    assert not judged({1: run(0.9), 2: []}, final=0.1)[0][0]
    assert judged({1: run(0.9)}, metric="validation", final=0.1) == [
        (False, "fedavg: validation at least 0.1 at the end: not measured (median of 1 seed)")
    ]


def test_several_expectations_are_judged_in_their_order() -> None:
    runs = {"fedavg": TWO, "fedcl": {1: run(0.95)}}
    found = judge([Expect("fedcl", reach=0.9, final=0.9), Expect("fedavg", final=0.99)], runs)
    assert [str(each)[:10] for each in found] == ["✓ fedcl: a", "✓ fedcl: a", "✗ fedavg: "]


def test_a_label_that_was_not_run_meets_nothing() -> None:
    assert judge([Expect("other", reach=0.1)], {"fedavg": TWO}) == [Judgement(False, "other: was not run")]


def test_seeds_without_a_single_round_are_judged() -> None:
    assert judged({1: [], 2: []}, reach=0.9) == [
        (False, "fedavg: accuracy 0.9 reached: no (0 of 2 seeds; 0 s were run)")
    ]
