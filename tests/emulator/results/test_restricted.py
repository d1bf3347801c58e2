"""Times to a target with runs that never reached it: horizons, ratios up to them, and what ratios are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.results.restricted import Contrast, Timed, contrast, horizon, ratio, ratio_of_rates, restricted, split

some = settings(max_examples=25, deadline=None, derandomize=True)
LEAST_P = 1 / 10_001
END = 100.0


def timed(*times: float | None, end: float = END) -> dict[int, Timed]:
    return {seed: Timed(time, end if time is None else max(end, time)) for seed, time in enumerate(times, 1)}


def compared(one: dict[int, Timed], base: dict[int, Timed], tau: float | None = None) -> Contrast:
    found = contrast(one, base, horizon([*one.values(), *base.values()], tau))
    assert found is not None
    return found


def bounds(found: Contrast) -> tuple[float, float, float]:
    return found.low, found.ratio, found.high


def some_runs(seed: int, n: int = 10, end: float = END) -> dict[int, Timed]:
    times = 80 * np.exp(0.3 * np.random.default_rng(seed).normal(size=n))
    return timed(*(float(time) if time <= end else None for time in times), end=end)


def test_the_horizon_is_the_first_end_without_the_target():
    assert horizon([Timed(10, 20), Timed(None, 60), Timed(None, 50), Timed(70, 80)]) == 50
    assert horizon([Timed(10, 20), Timed(None, 60)], 40) == 40
    assert horizon([Timed(10, 20), Timed(None, 60)], 90) == 60
    assert horizon([Timed(10, 20), Timed(30, 30)]) == horizon([]) == math.inf
    assert horizon([Timed(10, 20)], 15) == 15


def test_times_are_cut_at_the_horizon():
    runs = [Timed(10, 20), Timed(None, 60), Timed(50, 60), Timed(55, 55)]
    assert restricted(runs, 50).tolist() == [10, 50, 50, 50]
    assert restricted(runs, 60).tolist() == [10, 60, 50, 55]
    assert restricted(runs[:1], math.inf).tolist() == [10]
    with pytest.raises(ValueError, match="ended before the horizon of 61 s"):
        restricted(runs, 61)


def test_below_5_shared_seeds_there_is_no_ratio():
    one, base = timed(1, 2, 3, 4, 5), timed(2, 3, 4, 5, 6)
    assert contrast(one, base, 100) is not None
    assert contrast(one, {seed: time for seed, time in base.items() if seed > 1}, 100) is None
    assert contrast(one, {seed + 1: time for seed, time in base.items()}, 100) is None


def test_a_time_of_0_has_no_ratio():
    assert contrast(timed(0, 1, 1, 1, 1), timed(1, 1, 1, 1, 1), math.inf) is None
    assert contrast(some_runs(1), some_runs(2), 0.0) is None


def test_seeds_that_only_one_has_do_not_count():
    one, base = some_runs(1), some_runs(2)
    more = {**base, 11: Timed(1, 100), 12: Timed(99, 100)}
    assert compared(one, more) == compared(one, base)


def test_it_says_who_got_there_within_the_horizon():
    found = compared(timed(10, 20, 30, 90, None), timed(10, 20, 30, 40, 50), tau=45)
    assert (found.seeds, found.tau, found.counts) == (5, 45, ("3 of 5", "4 of 5"))
    assert found.ratio == pytest.approx((10 + 20 + 30 + 45 + 45) / (10 + 20 + 30 + 40 + 45), rel=1e-14)


@some
@given(st.integers(0, 1000), st.sampled_from([60.0, 80.0, 100.0, 1000.0]))
def test_swapping_the_two_inverts_everything(seed, end):
    one, base = some_runs(seed, end=end), some_runs(seed + 5000, end=end)
    there, back = compared(one, base), compared(base, one)
    assert bounds(back) == pytest.approx((1 / there.high, 1 / there.ratio, 1 / there.low), rel=1e-12)
    assert (back.p, back.counts, back.decided) == (there.p, there.counts[::-1], there.decided)


@some
@given(st.integers(0, 1000), st.floats(1e-3, 1e6))
def test_the_unit_of_time_changes_nothing(seed, unit):
    def scaled(runs: dict[int, Timed]) -> dict[int, Timed]:
        return {seed: Timed(run.time and run.time * unit, run.end * unit) for seed, run in runs.items()}

    one, base = some_runs(seed), some_runs(seed + 5000)
    plain, other = compared(one, base), compared(scaled(one), scaled(base))
    assert bounds(other) == pytest.approx(bounds(plain), rel=1e-12)
    assert (other.p, other.counts, other.tau) == (plain.p, plain.counts, plain.tau * unit)


@some
@given(st.integers(0, 1000), st.permutations(range(1, 11)))
def test_the_order_in_which_seeds_stand_does_not_matter(seed, order):
    """Nor what numbers they are, if these rise; those of multiples of 64 stand in a set in the order of coming."""
    one, base = some_runs(seed), some_runs(seed + 5000)
    mixed = [{64 * seed: runs[seed] for seed in order} for runs in (one, base)]
    assert compared(*mixed) == compared(one, base)
    amounts = [{seed: restricted([run], END)[0] for seed, run in runs.items()} for runs in (one, base, *mixed)]
    assert ratio(*amounts[:2]) == ratio(*amounts[2:])


@some
@given(st.integers(0, 1000), st.sampled_from([5, 10]), st.sampled_from([50.0, 65.0, 80.0, 100.0]))
def test_interval_and_p_agree_and_stay_in_bounds(seed, n, end):
    one, base = some_runs(seed, n, end), some_runs(seed + 5000, n, end)
    found = compared(one, base)
    x, y = (restricted([*runs.values()], found.tau) for runs in (one, base))
    assert x.min() / found.tau <= found.low <= found.ratio <= found.high <= found.tau / y.min()
    assert found.decided == (found.p < 0.05)


@pytest.mark.parametrize("times", [(50,) * 10, (None,) * 10, (*range(20, 30),), (None, None, *range(20, 28))])
def test_the_same_times_of_both(times):
    found = compared(timed(*times), timed(*times))
    assert (*bounds(found), found.p, found.decided) == (1, 1, 1, 1, False)


def test_all_cut_off_in_one_and_none_in_the_other():
    none, all_same, all_unlike = timed(*[None] * 10), timed(*[50] * 10), timed(*range(40, 90, 5))
    assert bounds(compared(none, all_same)) == (2, 2, 2)
    assert compared(none, all_same).p == pytest.approx(LEAST_P)
    found = compared(none, all_unlike)
    assert found.decided
    assert found.ratio == pytest.approx(100 / 62.5)
    assert 1 < found.low < found.ratio < found.high < 100 / 40
    assert found.counts == ("0 of 10", "10 of 10")


@some
@given(st.integers(0, 1000), st.integers(0, 1000), st.sampled_from([60.0, 80.0, 100.0, 1000.0]))
def test_the_true_ratio_keeps_to_the_bound(seed, other, end):
    """Runs that were cut off would have taken any longer; the others take as long as they did."""
    one, base = some_runs(seed, end=end), some_runs(other, end=end)
    found = compared(one, base)
    rng = np.random.default_rng(seed)
    means = []
    for runs in (one, base):
        cut = [each.time is None or each.time > found.tau for each in runs.values()]
        longer = found.tau * (1 + rng.exponential(size=10))
        means.append(np.mean([longer[n] if cut[n] else each.time for n, each in enumerate(runs.values())]))
    true = means[0] / means[1]
    cut_off = (found.reached < found.seeds, found.base_reached < found.seeds)
    assert found.bound == {(1, 0): "low", (0, 1): "high", (1, 1): "neither", (0, 0): None}[cut_off]
    if found.bound == "low":
        assert true > found.ratio
    if found.bound == "high":
        assert true < found.ratio
    if found.bound is None:
        assert true == pytest.approx(found.ratio)


def test_exactly_proportional_times():
    found = compared(timed(*range(60, 90, 3)), timed(*range(20, 30)))
    assert bounds(found) == pytest.approx((3, 3, 3), rel=1e-14)
    assert found.decided


def several(*times: float) -> tuple[float | None, ...]:
    return (*times, *[None] * (10 - len(times)))


@pytest.mark.parametrize("reached", [(50,), (30, 60), (50, 1), *((time, time) for time in (5, 50, 95))])
def test_one_or_two_seeds_of_ten_decide_nothing(reached: Sequence[float]):
    """All other runs of both algorithms were cut off: in 11 % of the resamples there is no difference at all."""
    found = compared(timed(*several(*reached)), timed(*several()))
    assert not found.decided
    assert found.p > 0.1
    assert found.low < found.ratio < found.high == 1


def test_amounts_are_compared_for_seeds_that_both_have():
    one, base = dict(enumerate([10.0, 12, 14, 11, 13, 12])), dict(enumerate([5.0, 6, 7, 5, 6, 6, 9]))
    found = ratio(one, base)
    assert found is not None
    assert found.ratio == pytest.approx(72 / 35, rel=1e-14)
    assert found.decided
    assert ratio(one, {seed: amount for seed, amount in base.items() if seed not in (2, 3)}) is None
    assert ratio(one, dict.fromkeys(base, 0.0)) is None


def drawn(seed: int, n: int = 10) -> list[dict[int, float]]:
    """Seconds and rounds of two algorithms, n seeds each."""
    rng = np.random.default_rng(seed)
    rounds = np.ceil(20 * np.exp(0.4 * rng.normal(size=(2, n))))
    times = rounds * [[3.0], [7.0]] * np.exp(0.1 * rng.normal(size=(2, n)))
    return [dict(enumerate(map(float, row))) for row in (*times, *rounds)]


@some
@given(st.integers(0, 10**6), st.sampled_from([6, 10, 20]))
def test_a_ratio_of_times_is_rounds_times_seconds_per_round(seed, n):
    one, base, one_rounds, base_rounds = drawn(seed, n)
    found = split((one, base), (one_rounds, base_rounds))
    assert found is not None
    assert found.time.ratio == pytest.approx(found.rounds.ratio * found.pace.ratio, rel=1e-12)
    paces = [sum(times.values()) / sum(rounds.values()) for times, rounds in ((one, one_rounds), (base, base_rounds))]
    assert found.pace.ratio == pytest.approx(paces[0] / paces[1], rel=1e-12)
    assert (found.time, found.rounds) == (ratio(one, base), ratio(one_rounds, base_rounds))
    assert found.pace == ratio_of_rates(one, one_rounds, base, base_rounds)
    assert found.pace.high < 1


def test_the_same_pace_is_certain_though_rounds_are_not():
    _, _, one_rounds, base_rounds = drawn(1)
    one, base = ({seed: s * n for seed, n in rounds.items()} for s, rounds in ((0.3, one_rounds), (0.6, base_rounds)))
    found = split((one, base), (one_rounds, base_rounds))
    assert found is not None
    assert (found.pace.low, found.pace.high) == pytest.approx((0.5, 0.5), rel=1e-14)
    assert found.rounds.low < found.rounds.ratio
    assert found.time.ratio == pytest.approx(found.rounds.ratio / 2, rel=1e-12)


def test_a_split_needs_the_same_seeds():
    one, base, one_rounds, base_rounds = drawn(1)
    with pytest.raises(ValueError, match="same seeds"):
        split((one, base), (one_rounds, {seed: base_rounds[seed] for seed in range(9)}))
    four = [{seed: amounts[seed] for seed in range(4)} for amounts in (one, base, one_rounds, base_rounds)]
    assert split((four[0], four[1]), (four[2], four[3])) is None
