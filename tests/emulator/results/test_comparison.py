"""Who is shown to be fastest, by hand: no claim without enough seeds, Holm's correction with them, horizons always."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emulator.record.targets import Target
from emulator.results.comparison import Ranking, observed, rankings
from emulator.results.resampling import seeds_needed
from tests.emulator.results.played import Rows, never, row, runs_of, until

TARGET = Target("accuracy", 0.85)


def ranked(**labels: Sequence[Rows]) -> Ranking:
    (found,) = rankings(observed(runs_of(**labels)), [TARGET])
    return found


def test_all_are_compared_with_the_least_mean() -> None:
    """Means 40 and 80; every seed takes exactly twice as long, so the interval has no width."""
    times = [20.0, 30.0, 40.0, 50.0, 60.0, 40.0]
    found = ranked(fedavg=[until(2 * time) for time in times], fedcl=[*map(until, times)])
    (other,) = found.others
    assert (found.best.label, found.best.mean, found.fastest) == ("fedcl", 40.0, "fedcl")
    assert other.contrast
    assert (other.label, other.ratio, other.contrast.low, other.contrast.high) == pytest.approx(("fedavg", 2, 2, 2))
    assert found.slower == [other]


def test_nobody_is_fastest_where_one_interval_holds_1() -> None:
    """b and c take 10.1 s and 30 s over a's 10 s; only c's difference shows."""
    few = [9, 9, 9.5, 11, 12, 10, 10.3]
    found = ranked(a=[*map(until, [10] * 7)], b=[*map(until, few)], c=[until(30)] * 7)
    assert [each.label for each in found.others] == ["b", "c"]
    assert ([each.label for each in found.slower], found.fastest, found.tested) == (["c"], None, True)


def test_equal_runs_are_not_distinguishable() -> None:
    found = ranked(a=[until(10)] * 5, b=[until(10)] * 5)
    assert (found.others[0].ratio, found.others[0].adjusted, found.fastest) == (1.0, 1.0, None)


def test_one_difference_among_many_comparisons_must_be_large_to_count() -> None:
    """p of the only one that differs lies between 0.05 / 20 and 0.05: alone it is significant, among 20 it is not."""
    first, other = [10.0, 11, 12, 13, 14, 15], [10.2, 12.0, 11.9, 14.5, 15.0, 16.5]
    alone = ranked(a=[*map(until, first)], b=[*map(until, other)]).others[-1]
    same = {f"c{number}": [*map(until, first)] for number in range(19)}
    among = ranked(a=[*map(until, first)], b=[*map(until, other)], **same).others[-1]
    assert (alone.label, alone.significant, among.label, among.significant) == ("b", True, "b", False)
    assert alone.contrast == among.contrast


def test_below_five_seeds_there_are_ratios_and_nothing_is_significant() -> None:
    found = ranked(slow=[until(40), until(44)], quick=[until(12), until(10)], other=[until(11), until(15)])
    assert [(each.label, each.ratio, each.apart) for each in found.others] == [
        ("other", 13 / 11, False),
        ("slow", 42 / 11, True),
    ]
    assert (found.best.mean, found.tested, found.slower, found.fastest) == (11.0, False, [], None)
    assert [each.label for each in found.behind] == ["slow"]


@pytest.mark.parametrize(("others", "seeds"), [(1, 6), (2, 7), (3, 7), (4, 8), (600, 8)])
def test_how_many_seeds_so_many_comparisons_need(others: int, seeds: int) -> None:
    """The least p of n seeds is 2 / 2^n below eight, and Holm's method multiplies the smallest by their number: 1/32,
    2/64 and 3/64 are below 0.05, and 2/32 and 4/64 are not."""

    def played(number: int) -> Ranking:
        return ranked(a=[until(10)] * number, **{f"b{each}": [until(30)] * number for each in range(min(others, 9))})

    assert seeds_needed(others) == seeds
    if others < 9:
        few, enough = played(seeds - 1), played(seeds)
        assert (few.needed, few.tested, few.fastest, len(few.slower)) == (seeds, False, None, 0)
        assert (enough.tested, enough.fastest, len(enough.slower)) == (True, "a", others)


def test_where_seeds_can_decide_only_significant_differences_put_an_algorithm_behind() -> None:
    few = [30.0, 12.0, 9.0, 9.0, 9.5, 11.0, 10.0]
    found = ranked(a=[until(10)] * 7, b=[*map(until, few)], c=[until(30)] * 7)
    assert [each.label for each in found.behind] == ["c"]
    assert [each.label for each in ranked(a=[until(10)] * 5, b=[until(11)] * 5).behind] == ["b"]


def test_a_seed_that_did_not_get_there_may_have_taken_any_longer() -> None:
    """b's missing seed was played for 11 s only, so it may have been faster than a's 12 s."""

    def apart(a: Sequence[Rows], b: Sequence[Rows]) -> bool:
        return ranked(a=a, b=b).others[0].apart

    assert not apart([until(10), until(12)], [until(30), never(11)])
    assert apart([until(10), until(12)], [until(30), never(13)])
    assert not apart([until(10), never(12)], [until(30), until(31)])


def test_times_count_up_to_the_horizon() -> None:
    """One seed of a is known up to 50 s, so b's 100 s count as 50 s: mean 42 s beside 50 s, not 100 s."""
    found = ranked(a=[*[until(40)] * 4, never(50)], b=[until(100)] * 5)
    (b,) = found.others
    assert (found.best.label, found.best.mean, found.best.reached, found.best.tau) == ("a", 42.0, 4, 50.0)
    assert (b.mine.mean, b.mine.reached, b.mine.later, b.ratio) == (50.0, 0, 5, pytest.approx(50 / 42))


def test_of_targets_the_hardest_that_was_reached_comes_first() -> None:
    targets = (Target("accuracy", 0.9), Target("accuracy", 0.99), Target("accuracy", 0.1), TARGET)
    seen = observed(runs_of(a=[until(10)]))
    assert [each.target.value for each in rankings(seen, targets)] == [0.9, 0.85, 0.1]
    held = (Target("accuracy", 0.1), Target("accuracy", 0.1, hold=2))  # harder: for longer
    assert [each.target.hold for each in rankings(seen, held)] == [2, 1]


def test_where_lower_is_better_the_lowest_target_is_the_hardest() -> None:
    """Each round's loss is 1, so 0.9 is never reached."""
    targets = [Target("loss", value, lower=True) for value in (1.5, 0.9, 1.0, 2.0)]
    seen = observed({"a": {1: [{**each, "loss": 1.0} for each in until(10)]}})
    assert [each.target.value for each in rankings(seen, targets)] == [1.0, 1.5, 2.0]


def test_a_difference_may_show_at_an_easier_target_only() -> None:
    """Halfway `b` takes twice as long, at the end both take the same."""
    targets, ends = (Target("accuracy", 0.5), Target("accuracy", 0.9)), [40.0, 42.0, 44.0, 46.0, 48.0, 44.0]

    def run(half: float, end: float) -> Rows:
        return [row(0, half, 0.5, half), row(1, end, 0.9, end - half)]

    a, b = [run(end / 4, end) for end in ends], [run(end / 2, end) for end in ends]
    hard, easy = rankings(observed(runs_of(a=a, b=b)), targets)
    assert (hard.fastest, easy.fastest, easy.others[0].ratio) == (None, "a", pytest.approx(2))
