"""Laws of slow start as a cap (docs/design/network.md §1), and of what else bounds a rate."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from network.links.ramp import Ramp, Scaled
from network.links.rate import Constant, Rate
from network.links.trace import Floats, Trace
from tests.all_of import all_of

few = settings(max_examples=40, deadline=None)
SEGMENT = 1500  # bytes


@dataclass
class Steps:
    """A rate of given steps of one length from time 0 on, the last for ever; it counts what it is asked."""

    rates: list[float]
    length: float
    asked: Counter[str] = field(default_factory=Counter, compare=False)

    @property
    def peak(self) -> float:
        return max(self.rates)

    def _step(self, t: float) -> int:
        return min(
            max(0, next((i for i in range(len(self.rates)) if t < (i + 1) * self.length), len(self.rates))),
            len(self.rates) - 1,
        )

    def at(self, t: float) -> float:
        self.asked["at"] += 1
        return self.rates[self._step(t)]

    def change(self, t: float) -> float:
        self.asked["change"] += 1
        now = self._step(t)
        later = (i for i in range(now + 1, len(self.rates)) if self.rates[i] != self.rates[now])
        return next((i * self.length for i in later), math.inf)

    def carried(self, begin: float, end: float) -> float:
        edges = [begin, *(i * self.length for i in range(1, len(self.rates)) if begin < i * self.length < end), end]
        return sum(self.rates[self._step(a)] * (b - a) for a, b in pairwise(edges))

    def finish(self, begin: float, nbytes: float) -> float:
        self.asked["finish"] += 1
        t = begin
        for i in range(self._step(begin), len(self.rates) - 1):
            until = (i + 1) * self.length
            if nbytes <= self.rates[i] * (until - t):
                break
            nbytes -= self.rates[i] * (until - t)
            t = until
        rate = self.rates[self._step(t)]
        return t + nbytes / rate if rate else (t if nbytes == 0 else math.inf)

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        self.asked["ahead"] += 1
        times = []
        while len(times) < count and (t := self.change(t)) < math.inf:
            times.append(t)
        return np.array(times), np.array([self.at(time) for time in times])

    def under(self, ceiling: float) -> Steps:
        return Steps([min(rate, ceiling) for rate in self.rates], self.length)


def closed_sum(rate: float, rtt: float, initial: int, growth: float, nbytes: float) -> float:
    """t_slowstart of docs/design/network.md §1, literally."""
    waited, window, left = 0.0, float(initial * SEGMENT), float(nbytes - initial * SEGMENT)
    while window / rate < rtt and left > 0:
        waited += rtt - window / rate
        window *= growth
        left -= window
    return waited


steps = st.builds(
    Steps,
    st.lists(st.sampled_from([0.0, 1e4, 2e5, 1e6, 3e6]), min_size=1, max_size=12).map(lambda rates: [*rates, 5e5]),
    st.sampled_from([0.03, 0.1, 0.7]),
)
ramps = st.builds(
    Ramp,
    st.one_of(steps, steps, st.sampled_from([2e4, 8e5]).map(Constant)),
    begin=st.floats(0, 2, allow_subnormal=False),
    rtt=st.floats(0.005, 0.5),
    window=st.integers(1, 64).map(lambda n: n * SEGMENT),
    growth=st.sampled_from([1.5, 2.0, 3.0]),
    nbytes=st.one_of(st.just(math.inf), st.floats(1, 1e7)),
)


def brute(rate: Rate, begin: float, end: float) -> float:
    """The integral from nothing but `at`, between all the instants at which a change is reported."""
    total, t = 0.0, begin
    while t < end:
        until = min(rate.change(t), end)
        total += rate.at(t) * (until - t)
        t = until
    return total


@few
@given(
    rate=st.floats(1e3, 1e8),
    rtt=st.floats(1e-3, 1.0),
    initial=st.integers(1, 40),
    growth=st.sampled_from([1.25, 1.5, 2.0]),
    nbytes=st.integers(1, 50_000_000),
    begin=st.floats(0, 1e3),
)
def test_alone_on_a_constant_link_it_is_the_closed_sum(
    rate: float, rtt: float, initial: int, growth: float, nbytes: int, begin: float
) -> None:
    ramp = Ramp(Constant(rate), begin, rtt, initial * SEGMENT, growth, nbytes)

    waited = closed_sum(rate, rtt, initial, growth, nbytes)

    assert ramp.finish(begin, nbytes) - begin == pytest.approx(waited + nbytes / rate, rel=1e-9, abs=1e-9)


def test_100_kb_at_8_mbit_and_50_ms_wait_for_two_windows() -> None:
    """By hand: windows of 15 and 30 kB take 15 and 30 ms of a round trip of 50 ms, the one of 60 kB fills the link."""
    ramp = Ramp(Constant(1e6), 0.0, 0.05, 15_000, nbytes=100_000)

    assert ramp.caps == [300_000, 600_000]
    assert ramp.finish(0.0, 100_000) == pytest.approx(0.1 + 0.035 + 0.02, rel=1e-12)


def test_a_flow_of_one_window_is_one_burst() -> None:
    assert Ramp(Constant(1e6), 2.0, 0.5, 15_000, nbytes=15_000).finish(2.0, 15_000) == pytest.approx(2.015, rel=1e-12)


def test_the_last_window_is_a_burst_after_whole_round_trips() -> None:
    """By hand: 15 kB in the first round trip, 15 of 30 kB in the second, which need 1 ms at 15 MB/s."""
    assert Ramp(Constant(15e6), 0.0, 0.1, 15_000, nbytes=30_000).finish(0.0, 30_000) == pytest.approx(0.101, rel=1e-12)


def test_on_a_share_below_its_cap_it_costs_nothing() -> None:
    """A cap and no delay: where the link gives less than the first window, nobody notices slow start."""
    slow = Constant(29_999.0)
    ramp = Ramp(slow, 1.0, 0.5, 15_000)

    assert ramp.caps == []
    assert ramp.finish(1.0, 1e6) == slow.finish(1.0, 1e6)


def test_while_the_link_is_slow_it_catches_up_with_the_cap() -> None:
    """By hand: an outage of 1 s hides the whole ramp, so that afterwards the link alone counts."""
    link = Steps([0.0, 1e6], 1.0)

    assert Ramp(link, 0.0, 0.1, 15_000).finish(0.0, 2e6) == pytest.approx(3.0, rel=1e-12)


@few
@given(ramps, st.floats(0, 5))
def test_it_never_exceeds_the_link_nor_the_window(ramp: Ramp, t: float) -> None:
    number = math.floor((t - ramp.begin) / ramp.rtt + 1e-9)
    if t < ramp.begin:
        assert ramp.at(t) == 0.0
        return
    assert ramp.at(t) <= ramp.link.at(t)
    if t < ramp.end:
        assert ramp.at(t) <= ramp.window * ramp.growth**number / ramp.rtt * (1 + 1e-9)
    else:
        assert ramp.at(t) == ramp.link.at(t)


@few
@given(ramps, st.floats(0, 5))
def test_what_changes_is_the_rate_and_never_earlier(ramp: Ramp, t: float) -> None:
    then = ramp.change(t)
    assert then > t
    if then < math.inf:
        assert ramp.at(then) != ramp.at(t)
    for part in range(1, 20):
        before = t + part / 20 * (min(then, t + 10) - t)
        if before < then:
            assert ramp.at(before) == ramp.at(t)


@few
@given(ramps, st.floats(0, 5), st.floats(0, 5))
def test_what_it_carries_is_the_integral(ramp: Ramp, begin: float, length: float) -> None:
    assert ramp.carried(begin, begin + length) == pytest.approx(brute(ramp, begin, begin + length), rel=1e-9, abs=1e-3)


@few
@given(ramps, st.floats(0, 5), st.floats(1, 1e7))
def test_it_finishes_when_so_much_has_been_carried(ramp: Ramp, begin: float, nbytes: float) -> None:
    end = ramp.finish(begin, nbytes)

    assert ramp.carried(begin, end) == pytest.approx(nbytes, rel=1e-9, abs=1e-3)
    assert ramp.carried(begin, end - 1e-6) < nbytes


@few
@given(ramps, st.floats(0, 5))
def test_no_bytes_take_no_time(ramp: Ramp, begin: float) -> None:
    assert ramp.finish(begin, 0.0) == begin


@few
@given(ramps, st.floats(1, 1e7))
def test_slow_start_makes_nobody_faster_and_costs_at_most_its_round_trips(ramp: Ramp, nbytes: float) -> None:
    end = ramp.finish(ramp.begin, nbytes)

    assert end >= ramp.link.finish(ramp.begin, nbytes) - 1e-9
    assert end <= ramp.link.finish(ramp.end, nbytes) + 1e-9


def test_after_the_ramp_no_sample_of_the_link_is_asked_for() -> None:
    link = Steps([1e6, 2e6] * 500, 0.1)
    ramp = Ramp(link, 0.0, 0.1, 15_000)
    link.asked.clear()

    assert ramp.finish(0.0, 100e6) > 60
    assert link.asked["finish"] == 1
    assert link.asked["at"] + link.asked["change"] <= 30, "only the four round trips of the ramp are walked"


def test_a_bound_that_is_not_known_still_ends_the_ramp() -> None:
    ramp = Ramp(Constant(math.inf), 0.0, 0.1, 15_000, nbytes=1e9)

    assert len(ramp.caps) == math.floor(math.log2(1e9 / 15_000 + 1))
    assert ramp.finish(0.0, 1e9) == pytest.approx(len(ramp.caps) * 0.1, rel=1e-12)


def test_a_link_that_stands_still_for_ever_carries_nothing() -> None:
    assert Ramp(Steps([1e6, 0.0], 0.1), 0.0, 0.1, 15_000).finish(0.0, 1e6) == math.inf


@pytest.mark.parametrize("rtt", [0.0, -1.0, math.inf, math.nan])
def test_a_ramp_needs_a_round_trip(rtt: float) -> None:
    with pytest.raises(ValueError, match=f"^rtt is {rtt} s"):
        Ramp(Constant(1.0), 0.0, rtt, 15_000)


@pytest.mark.parametrize("window", [0.0, -1.0, math.inf, math.nan])
def test_a_ramp_needs_a_window(window: float) -> None:
    with pytest.raises(ValueError, match=f"^window is {window} bytes"):
        Ramp(Constant(1.0), 0.0, 1.0, window)


@pytest.mark.parametrize("growth", [1.0, 0.5, 5.0, math.nan])
def test_a_ramp_grows(growth: float) -> None:
    with pytest.raises(ValueError, match=f"^growth is {growth}"):
        Ramp(Constant(1.0), 0.0, 1.0, 1.0, growth)


# --- what comes, ceilings and factors -------------------------------------------------------------------------


def comes(rate: Rate, t: float, count: int) -> None:
    """`ahead` says what `at` does: at each of its instants, and between them; fewer than asked for are all."""
    times, values = rate.ahead(t, count)

    assert len(times) <= count
    assert sorted({t, *times.tolist()}) == [t, *times.tolist()]
    assert values.tolist() == [rate.at(time) for time in times.tolist()]
    edges = [t, *times.tolist(), *([times[-1] + 10 if len(times) else t + 10] if len(times) < count else [])]
    for since, until in pairwise(edges):
        between = [since + part / 8 * (until - since) for part in range(8)]
        assert all_of(rate.at(time) == rate.at(since) for time in between if time < until)  # neighbours round to it


@few
@given(ramps, st.floats(0, 5), st.integers(1, 12), st.sampled_from([0.5, 0.97]))
@example(Ramp(Steps([0.0] * 7 + [5e5], 0.7), 1.9, 0.5, 1500, 1.5), 0.0, 8, 0.5)  # two instants that are 1e-15 s apart
def test_what_comes_is_known_in_and_after_the_ramp(ramp: Ramp, t: float, count: int, factor: float) -> None:
    comes(ramp, t, count)
    comes(Scaled(ramp, factor), t, count)


def test_after_the_ramp_the_link_is_asked_once_for_all_that_comes() -> None:
    link = Steps([1e6, 2e6] * 500, 0.1)
    ramp = Ramp(link, 0.0, 0.1, 15_000)
    link.asked.clear()

    ramp.ahead(ramp.end, 64)

    assert link.asked["ahead"] == 1
    assert link.asked["at"] + link.asked["change"] == 2 * 64, "as the link itself would"


@few
@given(ramps, st.floats(1e3, 4e6), st.floats(0, 5), st.floats(0, 5), st.sampled_from([0.5, 2.0]))
def test_under_a_ceiling_it_is_the_smaller_of_two(
    ramp: Ramp, ceiling: float, begin: float, length: float, factor: float
) -> None:
    for rate in (ramp, Scaled(ramp, factor)):
        low = rate.under(ceiling)
        assert low.peak == pytest.approx(min(rate.peak, ceiling))
        for part in range(8):
            t = begin + part / 8 * length
            assert low.at(t) == pytest.approx(min(rate.at(t), ceiling), rel=1e-12)
        assert low.carried(begin, begin + length) == pytest.approx(
            brute(low, begin, begin + length), rel=1e-9, abs=1e-3
        )


def test_a_ceiling_that_binds_nowhere_leaves_the_rate_as_it_is() -> None:
    trace = Trace(np.array([0.0, 1.0, 2.0]), np.array([2e6, 6e6]), "down", "capacity")
    for rate in (Constant(6e6), trace, Scaled(Constant(12e6), 0.5), Ramp(trace, 0.0, 0.1, 15_000)):
        assert rate.under(6e6) is rate
        assert rate.under(5e6) is not rate
    assert Constant(3.0).under(2.0) == Constant(2.0)


@few
@given(steps, st.sampled_from([0.5, 0.97, 2.0]), st.floats(0, 5), st.floats(0, 5))
def test_a_scaled_rate_is_so_many_times_the_rate(link: Steps, factor: float, begin: float, length: float) -> None:
    many = Steps([rate * factor for rate in link.rates], link.length)
    scaled = Scaled(link, factor)

    assert (scaled.peak, scaled.at(begin), scaled.change(begin)) == (many.peak, many.at(begin), many.change(begin))
    assert scaled.carried(begin, begin + length) == pytest.approx(many.carried(begin, begin + length), rel=1e-9)
    assert scaled.finish(begin, 1e5) == pytest.approx(many.finish(begin, 1e5), rel=1e-9)
