"""Ratios of means with their intervals: laws, and seeds that say nearly or exactly the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.results.resampling import Interval, as_bound, interval

some = settings(max_examples=25, deadline=None, derandomize=True)
LEAST_P = 1 / 10_001


def of(*columns, powers=(1, -1)) -> Interval:
    found = interval(columns, powers)
    assert found is not None
    return found


def drawn(seed: int, columns: int = 2, n: int = 10, spread: float = 0.3) -> np.ndarray:
    return np.exp(spread * np.random.default_rng(seed).normal(size=(columns, n)))


def close(a: Interval, b: Interval) -> bool:
    return (a.ratio, a.low, a.high, a.p) == pytest.approx((b.ratio, b.low, b.high, b.p), rel=1e-12)


@some
@given(st.integers(0, 10**6), st.sampled_from([5, 10, 23]))
def test_swapping_the_two_inverts_ratio_and_interval(seed, n):
    one, base = drawn(seed, n=n)
    there, back = of(one, base), of(base, one)
    assert close(back, Interval(1 / there.ratio, 1 / there.high, 1 / there.low, there.p))


@some
@given(st.integers(0, 10**6), st.floats(1e-6, 1e9))
def test_the_unit_changes_nothing(seed, unit):
    one, base = drawn(seed)
    assert close(of(one * unit, base * unit), of(one, base))


@some
@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_a_factor_multiplies_ratio_and_interval(seed, factor):
    one, base = drawn(seed)
    plain, times = of(one, base), of(one * factor, base)
    assert (times.ratio, times.low, times.high) == pytest.approx(
        (plain.ratio * factor, plain.low * factor, plain.high * factor), rel=1e-12
    )


@some
@given(st.integers(0, 10**6), st.floats(0.7, 1.4), st.sampled_from([0.01, 0.3, 1.0]))
def test_interval_and_p_never_disagree(seed, factor, spread):
    one, base = drawn(seed, spread=spread)
    found = of(one * factor, base)
    assert 0 < found.low <= found.ratio <= found.high < math.inf
    assert found.decided == (found.p < 0.05)


@some
@given(st.integers(0, 10**6), st.integers(2, 10), st.floats(0.2, 5), st.sampled_from([0.0, 1e-9, 0.01, 0.3]))
def test_below_eight_seeds_no_p_is_smaller_than_that_of_an_exact_test(seed, n, factor, spread):
    """Two of the 2^n ways to swap the two within seeds are the most extreme; so 5 seeds never leave 1 out."""
    one, base = drawn(seed, n=n, spread=spread)
    found = of(one * factor, base)
    assert found.p >= (2 / 2**n if n < 8 else LEAST_P)
    assert found.low <= found.ratio <= found.high
    assert found.decided == (found.p < 0.05)
    assert n > 5 or not found.decided


@pytest.mark.parametrize(("n", "p"), [(2, 1 / 2), (5, 1 / 16), (6, 1 / 32), (7, 1 / 64), (8, LEAST_P)])
def test_seeds_that_all_say_the_same_have_the_least_p(n, p):
    one, base = drawn(3, n=n, spread=0.01)
    for found in (of(9 * one, base), of(9 * base, base), of(base, 9 * base)):
        assert found.p == pytest.approx(p)
        assert found.decided == (n > 5)


def test_an_interval_that_must_hold_1_stays_symmetric():
    one, base = drawn(3, n=5, spread=0.01)
    up, down = of(9 * one, base), of(base, 9 * one)
    assert (up.low, up.high) == (1.0, pytest.approx(up.ratio**2))
    assert (down.low, down.high) == (pytest.approx(down.ratio**2), 1.0)


def test_the_mean_of_one_algorithm_is_not_compared_with_1():
    """14 s with 5 seeds: its interval need not hold 1 s."""
    found = of([13.0, 14.0, 15.0, 13.5, 14.5], powers=(1,))
    assert 12 < found.low < found.ratio < found.high < 16


@pytest.mark.parametrize("seed", range(5))
def test_p_is_5_percent_where_the_interval_ends(seed):
    one, base = drawn(seed)
    low = of(one, base).low
    inside, outside = (of(one / low * (1 + off), base) for off in (-1e-8, 1e-8))
    assert not inside.decided
    assert outside.decided
    assert 0.0495 < outside.p < 0.05 < inside.p < 0.0505


def test_the_ratio_is_that_of_the_means_and_the_interval_about_that_of_student():
    one, base = drawn(5, n=200, spread=0.1)
    found, shares = of(one, base), one / one.mean() - base / base.mean()
    error = shares.std(ddof=1) / math.sqrt(200)
    assert found.ratio == pytest.approx(one.mean() / base.mean(), rel=1e-14)
    assert math.log(found.high / found.ratio) == pytest.approx(1.97 * error, rel=0.03)
    assert found.low * found.high == pytest.approx(found.ratio**2)


def test_powers_may_be_any_numbers():
    x, y = drawn(7)
    assert of(x, y, powers=(2, -1)).ratio == pytest.approx(x.mean() ** 2 / y.mean(), rel=1e-14)
    assert close(of(x, x, y, powers=(0.5, 0.5, -1)), of(x, y))


def test_the_same_of_both_is_certainly_1():
    (x,) = drawn(1, columns=1)
    assert of(x, x) == of(np.full(10, 0.1), np.full(10, 0.1)) == Interval(1.0, 1.0, 1.0, 1.0)
    assert of(0.3 * x, x, 0.3 * x[::-1], x[::-1], powers=(1, -1, -1, 1)) == Interval(1.0, 1.0, 1.0, 1.0)


def test_exactly_proportional_numbers_are_certain_too():
    (x,) = drawn(1, columns=1)
    found = of(0.7 * x, x)
    assert found.low == found.ratio == found.high == pytest.approx(0.7, rel=1e-14)
    assert found.p == pytest.approx(LEAST_P)


@pytest.mark.parametrize("jitter", [0.0, 1e-9, 1e-4])
def test_one_seed_that_differs_among_seeds_that_hardly_do(jitter):
    """Six rounds to three in nine seeds, five to three in one: a third of all resamples do not see that one."""
    noise = 1 + jitter * np.random.default_rng(0).normal(size=(2, 10))
    found = of(noise[0] * [*[60.0] * 9, 50.0], noise[1] * 30)
    assert found.decided
    assert found.p == pytest.approx(LEAST_P)
    assert 1.8 < found.low < found.ratio < found.high < 2.2


def test_a_zero_has_no_ratio_and_nonsense_is_refused():
    x, y = drawn(2)
    assert interval([x, np.zeros(10)], (1, -1)) is None
    assert interval([x, [0.0, *y[1:]]], (1, -1)) is None
    for columns in ([x, -y], [x, y * math.nan], [x, y * math.inf], [[], []], [[1.0], [2.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match="finite"):
            interval(columns, (1, -1))
    with pytest.raises(ValueError, match="as many powers"):
        interval([x, y], (1, -1, 1))


@pytest.mark.parametrize(
    ("cut", "shown", "times"),
    [
        ((False, False), "1.20 [1.10, 1.31]", "1.20x [1.10, 1.31]"),
        ((True, False), "≥ 1.20 [1.10, ∞]", "≥ 1.20x [1.10, ∞]"),
        ((False, True), "≤ 1.20 [0, 1.31]", "≤ 1.20x [0, 1.31]"),
        ((True, True), "1.20 [1.10, 1.31] (both cut off)", "1.20x [1.10, 1.31] (both cut off)"),
    ],
)
def test_a_ratio_of_runs_that_were_cut_off_is_written_as_a_bound(cut, shown, times):
    found = Interval(1.2, 1.1, 1.31, 0.001, bound=as_bound(*cut))
    assert (str(found), found.text("x")) == (shown, times)


def test_an_interval_that_leaves_1_out_does_not_seem_to_end_there():
    assert str(Interval(1.2, 1.1, 1.31, 0.001)) == "1.20 [1.10, 1.31]"
    assert str(Interval(1.01, 1.001, 1.02, 0.04)) == "1.01 [1.001, 1.02]"
    assert str(Interval(1.08611, 1.00026, 1.17881, 0.04)) == "1.0861 [1.0003, 1.1788]"
    assert str(Interval(1 - 3e-7, 1 - 4e-7, 1 - 2e-7, 0.04)) == "0.9999997 [0.9999996, 0.9999998]"
    assert str(Interval(12.34, 0.9, 99.0, 0.2)) == "12.3 [0.90, 99.0]"
