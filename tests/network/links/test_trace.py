"""Laws of a replayed trace, each against a definition that integrates step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from network.links.rate import Constant, Rate
from network.links.trace import Trace


def trace_of(widths, rates, direction="down", kind="capacity", **more) -> Trace:
    return Trace(np.concatenate([[0.0], np.cumsum(widths)]), np.array(rates, dtype=float), direction, kind, **more)


def naive_carried(trace: Trace, begin: float, end: float) -> float:
    """Bytes, piece by piece through the file's own samples, from one instant to the other."""
    carried, base = 0.0, math.floor((begin + trace.offset) / trace.period) * trace.period - trace.offset
    while base < end:
        for left, right, rate in zip(trace.edges[:-1], trace.edges[1:], trace.rates, strict=True):
            carried += rate * max(0.0, min(end, base + right) - max(begin, base + left))
        base += trace.period
    return carried


def noise(trace: Trace, t: float, nbytes: float) -> float:
    """The largest effect of rounding: 1e-9 of the bytes, an instant that a float cannot hold, the digits of a period's
    sum."""
    total = trace.mean * trace.period
    return 1e-9 * nbytes + 16 * math.ulp(abs(t) + trace.period) * trace.peak + 16 * math.ulp(total)


WIDTHS = st.one_of(st.floats(1e-3, 100.0), st.sampled_from([0.25, 1.0, 5.0]))


@st.composite
def traces(draw, least: float = 1.0, some_bytes: bool = True) -> Trace:
    n = draw(st.integers(1, 8))
    rate = st.one_of(st.just(0.0), st.floats(least, 1e9), st.sampled_from([1e6, 2e6]))
    rates = draw(st.lists(rate, min_size=n, max_size=n))
    assume(any(rates) or not some_bytes)
    trace = trace_of(draw(st.lists(WIDTHS, min_size=n, max_size=n)), rates)
    return trace.starting(draw(st.floats(0.0, 300.0)))


INSTANTS = st.one_of(st.floats(0.0, 500.0), st.floats(1e6, 1e6 + 500.0))
BYTES = st.floats(1.0, 1e10)


def test_a_trace_is_a_rate() -> None:
    rate: Rate = trace_of([1, 1], [1e6, 2e6])
    assert rate.peak == 2e6


def test_a_hand_computed_replay() -> None:
    trace = trace_of([2, 1, 1], [100, 0, 300])  # 500 bytes in 4 s
    assert [trace.at(t) for t in (0, 1.9, 2, 3, 3.5, 4, 6.5, 7)] == [100, 100, 0, 300, 300, 100, 0, 300]
    assert [trace.change(t) for t in (0, 1.9, 2, 3, 3.5, 4)] == [2, 2, 3, 4, 4, 6]
    assert (trace.carried(0, 4), trace.carried(1, 3.5), trace.carried(0, 4000)) == (500, 250, 500_000)
    assert [trace.finish(0, n) for n in (100, 200, 201, 500, 501, 1000)] == [1, 2, 3 + 1 / 300, 4, 4.01, 8]
    assert (trace.period, trace.mean, trace.peak) == (4, 125, 300)


def test_bytes_that_fill_a_rate_exactly_are_done_before_the_outage() -> None:
    assert trace_of([2, 8], [100, 0]).finish(0, 200) == 2


def test_bytes_that_fill_a_period_that_ends_in_an_outage_are_done_before_it() -> None:
    assert trace_of([2, 8], [100, 0]).finish(0, 400) == 12


def test_a_trace_of_one_rate_is_a_constant() -> None:
    trace, constant = trace_of([1, 2], [5e5, 5e5]), Constant(5e5)
    assert trace.change(0.5) == constant.change(0.5) == math.inf
    for begin, nbytes in ((0, 1), (0.7, 1e6), (17, 1e9)):
        assert trace.finish(begin, nbytes) == pytest.approx(constant.finish(begin, nbytes), rel=1e-12)


def test_a_megabyte_at_eight_megabits_a_second_takes_a_second() -> None:
    assert trace_of([0.25] * 4, [1e6] * 4).finish(0, 1e6) == 1.0


def test_a_trace_that_carries_nothing_never_finishes() -> None:
    trace = trace_of([1, 2], [0, 0])
    assert trace.finish(0, 1) == math.inf
    assert trace.finish(7, 0) == 7
    assert (trace.carried(0, 1e9), trace.carried(0, math.inf), trace.peak) == (0, 0, 0)


def test_a_piece_too_short_for_the_clock_is_no_free_ride() -> None:
    trace = Trace(np.array([0, 1e-281, 5]), np.array([500_000.0, 0.0]), "down", "capacity")
    assert trace.finish(5, 1e6) > 1e280


def test_without_end_it_carries_without_end() -> None:
    assert trace_of([1, 1], [0, 1]).carried(3, math.inf) == math.inf
    assert trace_of([1, 1], [0, 1]).finish(3, math.inf) == math.inf


def test_equal_neighbours_are_no_change_not_even_across_the_seam() -> None:
    trace = trace_of([1, 1, 1, 1], [7, 7, 9, 7])
    assert [trace.change(t) for t in (0, 1, 2, 3, 4, 5)] == [2, 2, 3, 6, 6, 6]


def test_a_sample_cut_in_two_changes_nothing() -> None:
    whole, cut = trace_of([2, 3], [10, 20]), trace_of([0.5, 1.5, 1, 1, 1], [10, 10, 20, 20, 20])
    for t in np.linspace(0, 23, 47).tolist():
        assert (whole.at(t), whole.change(t), whole.carried(1, t)) == (cut.at(t), cut.change(t), cut.carried(1, t))
        assert whole.finish(t, 123) == cut.finish(t, 123)


def test_a_replay_from_an_offset_is_the_file_later() -> None:
    trace = trace_of([1, 2, 3], [100, 200, 0])
    later = trace.starting(1.5)
    assert (later.at(0), later.at(1.5), later.change(0)) == (200, 0, 1.5)
    assert later.carried(0, 3) == trace.carried(1.5, 4.5)
    assert later.finish(0, 400) == trace.finish(1.5, 400) - 1.5
    assert trace.starting(7.5).offset == 1.5  # a period later is the same place
    assert trace.offset == 0


def test_loops_are_the_times_it_started_over() -> None:
    trace = trace_of([4], [1])
    assert [trace.loops(0, t) for t in (0, 3.9, 4, 11, 12)] == [0, 0, 1, 2, 3]
    assert trace.starting(3).loops(0, 1) == 1


def test_under_a_ceiling_no_rate_is_above_it() -> None:
    trace = trace_of([1, 1, 1], [50, 200, 300]).starting(0.5).under(100)
    assert trace.rates.tolist() == [50, 100, 100]
    assert (trace.peak, trace.at(0), trace.change(0), trace.change(0.5)) == (100, 50, 0.5, 2.5)
    assert trace.finish(0, 125) == 1.5
    assert trace.under(100) is trace


def test_scaled_by_two_it_takes_twice_the_bytes() -> None:
    trace = trace_of([1, 1, 1], [50, 200, 300])
    assert trace.scaled(2).finish(0, 700) == trace.finish(0, 350)
    assert trace.scaled(2).rates.tolist() == [100, 400, 600]


def test_latency_and_loss_are_those_of_the_sample() -> None:
    trace = trace_of([1, 2], [5, 5], latency=np.array([0.01, 0.02]), loss=np.array([0.0, 0.1])).starting(0.5)
    assert [trace.latency_at(t) for t in (0, 0.5, 2.4, 2.5)] == [0.01, 0.02, 0.02, 0.01]
    assert [trace.loss_at(t) for t in (0, 0.5)] == [0, 0.1]
    assert trace_of([1], [1]).latency_at(0) is None


def test_its_arrays_are_its_own_and_cannot_be_written() -> None:
    rates = np.array([1.0, 2.0])
    trace = trace_of([1, 1], rates)
    rates[0] = 9
    assert trace.at(0) == 1
    with pytest.raises(ValueError, match="read-only"):
        trace.rates[0] = 5


@pytest.mark.parametrize(
    ("edges", "rates", "why"),
    [
        ([0], [], "has 1 edges for 0 rates"),
        ([0, 1, 1], [1, 2], "edges rise from 0"),
        ([1, 2], [1], "edges rise from 0"),
        ([0, math.nan], [1], "edges rise from 0"),
        ([0, math.inf], [1], "lasts inf s"),
        ([0, 1e-9], [1], "lasts 1e-09 s"),
        ([0, 1], [-1], "a rate of trace is not one of 1 numbers"),
        ([0, 1], [math.nan], "a rate of trace"),
        ([0, 1], [math.inf], "a rate of trace"),
        ([0, 10], [1e308], "carries inf bytes"),
    ],
)
def test_what_is_no_trace_is_refused(edges, rates, why) -> None:
    with pytest.raises(ValueError, match=why), np.errstate(over="ignore"):
        Trace(np.array(edges, dtype=float), np.array(rates, dtype=float), "down", "capacity")


def test_direction_kind_ceiling_factor_and_offset_are_checked() -> None:
    trace = trace_of([1], [1])
    with pytest.raises(ValueError, match="direction of trace is 'sideways'"):
        trace_of([1], [1], direction="sideways")
    with pytest.raises(ValueError, match="kind of trace is 'mean'"):
        trace_of([1], [1], kind="mean")
    with pytest.raises(ValueError, match="ceiling is 0 bytes/s"):
        trace.under(0)
    with pytest.raises(ValueError, match="factor is inf"):
        trace.scaled(math.inf)
    with pytest.raises(ValueError, match="offset into trace is nan"):
        trace.starting(math.nan)


@pytest.mark.slow
@given(traces(some_bytes=False), st.floats(0, 500), st.floats(0, 100))
def test_carried_is_the_step_by_step_sum(trace, begin, length) -> None:
    expected = naive_carried(trace, begin, begin + length)
    assert trace.carried(begin, begin + length) == pytest.approx(expected, abs=noise(trace, begin + length, expected))


@pytest.mark.slow
@given(traces(some_bytes=False), INSTANTS, st.floats(0, 1e4), st.floats(0, 1e4))
def test_carried_adds_up(trace, begin, first, second) -> None:
    middle, end = begin + first, begin + first + second
    whole = trace.carried(begin, end)
    parts = trace.carried(begin, middle) + trace.carried(middle, end)
    assert parts == pytest.approx(whole, abs=noise(trace, end, whole))


@pytest.mark.slow
@given(traces(), INSTANTS, BYTES)
def test_finish_is_the_inverse_of_carried(trace, begin, nbytes) -> None:
    end = trace.finish(begin, nbytes)
    assert end >= begin
    assert trace.carried(begin, end) == pytest.approx(nbytes, abs=noise(trace, end, nbytes))


@pytest.mark.slow
@given(traces(least=1e3), st.floats(0, 500), st.floats(0, 100))
def test_finish_is_the_first_instant_at_which_it_is_carried(trace, begin, length) -> None:
    nbytes = trace.carried(begin, begin + length)
    assume(nbytes > 1)
    end = trace.finish(begin, nbytes)
    # The inverse alone could lie anywhere in an outage: just before the end, bytes must still be missing.
    assert end <= begin + length + 1e-6
    assert trace.carried(begin, end - 1e-3) < nbytes


@pytest.mark.slow
@given(traces(), INSTANTS, BYTES, BYTES)
def test_more_bytes_never_finish_earlier(trace, begin, some, others) -> None:
    fewer, more = sorted((some, others))
    assert trace.finish(begin, fewer) <= trace.finish(begin, more)


@pytest.mark.slow
@given(traces(), st.data(), st.floats(0, 500), BYTES)
def test_more_capacity_never_finishes_later(trace, data, begin, nbytes) -> None:
    more = np.array([data.draw(st.floats(1, 3)) for _ in trace.rates])
    better = Trace(trace.edges, trace.rates * more, "down", "capacity").starting(trace.offset)
    end = trace.finish(begin, nbytes)
    digits = noise(better, end, nbytes) / min(rate for rate in trace.rates if rate)
    assert better.finish(begin, nbytes) <= end + digits + 16 * math.ulp(end + trace.period)


@pytest.mark.slow
@given(traces(), INSTANTS, BYTES, st.floats(0, 1))
def test_cutting_a_file_in_two_changes_nothing(trace, begin, nbytes, share) -> None:
    first = nbytes * share
    end = trace.finish(trace.finish(begin, first), nbytes - first)
    assert trace.carried(begin, end) == pytest.approx(nbytes, abs=2 * noise(trace, end, nbytes))


@pytest.mark.slow
@given(traces(some_bytes=False), INSTANTS)
def test_between_two_changes_the_rate_stands_and_at_each_it_differs(trace, t) -> None:
    rate = trace.at(t)
    for _ in range(20):
        then = trace.change(t)
        if then == math.inf:
            assert set(trace.rates) == {rate}
            return
        assert then > t
        middle = t + (then - t) / 2
        if then - t > 1e-6:
            assert trace.at(middle) == rate
        assert trace.at(then) != rate
        t, rate = then, trace.at(then)


@pytest.mark.slow
@given(traces(some_bytes=False), INSTANTS)
def test_the_rate_is_that_of_the_sample(trace, t) -> None:
    place = (t + trace.offset) % trace.period
    assume(np.abs(trace.edges - place).min() > 1e-8)
    assert trace.at(t) == trace.rates[np.searchsorted(trace.edges, place) - 1]


@pytest.mark.slow
@given(traces(), st.floats(0.1, 2.0), st.floats(0, 500), st.floats(0, 100))
def test_a_ceiling_bounds_what_is_carried(trace, share, begin, length) -> None:
    ceiling = share * trace.peak
    bounded = trace.under(ceiling)
    lower = Trace(trace.edges, np.minimum(trace.rates, ceiling), "down", "capacity").starting(trace.offset)
    assert bounded.carried(begin, begin + length) == pytest.approx(lower.carried(begin, begin + length), rel=1e-12)
    assert bounded.peak <= ceiling


def test_a_million_seconds_later_a_transfer_takes_as_long() -> None:
    trace = trace_of([0.3, 0.1, 1.7, 0.9], [1e6, 0, 3e6, 2e5])  # 3 s, 5.58 MB
    for n in (1, 1000, 333_333):
        begin = 3 * n + 0.2
        assert trace.finish(begin, 4e6) - begin == pytest.approx(trace.finish(0.2, 4e6) - 0.2, abs=1e-8)
    assert trace.carried(0, 999_999) == pytest.approx(333_333 * 5.58e6, rel=1e-12)
    assert trace.finish(0, 333_333 * 5.58e6) == pytest.approx(999_999, rel=1e-12)


@pytest.mark.parametrize("t", [0.0, 0.5, 1.0, 2.999, 3.0, 7.25, 1e6])
def test_what_lies_ahead_is_what_change_and_at_say(t: float) -> None:
    trace = Trace(np.array([0.0, 1, 1.5, 3]), np.array([2.0, 5, 0]), "down", "capacity", offset=0.75)
    times, rates = trace.ahead(t, 7)
    for time, rate in zip(times.tolist(), rates.tolist(), strict=True):
        t = trace.change(t)
        assert time == pytest.approx(t, rel=1e-12)
        assert rate == trace.at(t)


def test_a_trace_that_never_changes_has_nothing_ahead() -> None:
    times, rates = Trace(np.array([0.0, 1]), np.array([2.0]), "down", "capacity").ahead(0.0, 5)
    assert (len(times), len(rates)) == (0, 0)


# --- parts and derived traces


def test_until_an_instant_it_is_the_file_up_to_there() -> None:
    whole = trace_of([2, 3], [10, 20], latency=np.array([0.1, 0.2]))
    part = whole.until(4.0)
    assert (part.edges.tolist(), part.rates.tolist()) == ([0, 2, 4], [10, 20])
    assert part.latency is not None
    assert part.latency.tolist() == [0.1, 0.2]
    assert whole.until(2.0).rates.tolist() == [10]
    assert whole.until(9.0).period == 5


def test_derived_traces_are_made_once_and_keep_their_place_and_latencies() -> None:
    whole = trace_of([2, 3], [10, 20], latency=np.array([0.1, 0.2]))
    first, second = whole.starting(1).under(15), whole.starting(3).without_latency.under(15)
    assert first._steps is second._steps
    assert (first.offset, second.offset, second.latency) == (1, 3, None)
    assert first.latency is whole.latency
    assert first.at(2.0) == 15


def test_derived_traces_are_remembered_up_to_so_many_pieces(monkeypatch) -> None:
    monkeypatch.setattr("network.links.trace.KEPT", 5)
    whole = [trace_of([1, 1], [10, 20]) for _ in range(3)]
    made = [each.scaled(2)._steps for each in whole]
    assert whole[2].scaled(2)._steps is made[2]
    assert whole[1].scaled(2)._steps is made[1]
    assert whole[0].scaled(2)._steps is not made[0]  # it was the oldest of six pieces
