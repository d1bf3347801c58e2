import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.presence import StatedPresence

TIMES = st.integers(0, 40)
INTERVALS = st.lists(
    st.tuples(TIMES, st.integers(1, 8) | st.just(math.inf)).map(lambda i: (float(i[0]), i[0] + float(i[1]))),
    max_size=6,
).map(tuple)


def off_at(intervals: tuple[tuple[float, float], ...], t: float) -> bool:
    return any(start <= t < end for start, end in intervals)


@given(INTERVALS, TIMES)
def test_a_device_is_on_exactly_outside_its_off_intervals(intervals, t):
    assert StatedPresence(intervals).on(t) == (not off_at(intervals, t))


@given(INTERVALS, TIMES)
def test_the_next_instants_are_the_first_ones_of_the_timeline(intervals, t):
    # all intervals begin and end at whole seconds up to 48, so walking second by second is exact
    seconds = range(t, 60)
    presence = StatedPresence(intervals)
    assert presence.next_on(t) == next((s for s in seconds if not off_at(intervals, s)), math.inf)
    assert presence.next_off(t) == next((s for s in seconds if off_at(intervals, s)), math.inf)


@given(INTERVALS, st.lists(TIMES, max_size=8))
def test_asking_never_changes_the_answer(intervals, questions):
    asked, fresh = StatedPresence(intervals), StatedPresence(intervals)
    for t in questions:
        assert (asked.on(t), asked.next_on(t), asked.next_off(t)) == (
            StatedPresence(intervals).on(t),
            StatedPresence(intervals).next_on(t),
            StatedPresence(intervals).next_off(t),
        )
    assert asked == fresh


def test_an_interval_holds_its_start_and_not_its_end():
    presence = StatedPresence(((10, 20),))
    assert not presence.on(10)
    assert not presence.on(math.nextafter(20, 0))
    assert presence.on(20)
    assert presence.on(math.nextafter(10, 0))


def test_touching_overlapping_and_unsorted_intervals_become_one():
    assert StatedPresence(((5, 9), (1, 3), (3, 4), (6, 7), (8, 12))).off == ((1, 4), (5, 12))


def test_a_device_that_leaves_for_ever_is_never_on_again():
    presence = StatedPresence(((7, math.inf),))
    assert presence.next_on(7) == math.inf
    assert presence.next_off(0) == 7
    assert not presence.on(math.inf)


def test_a_device_without_off_intervals_is_never_off():
    assert StatedPresence().next_off(3) == math.inf
    assert StatedPresence().next_on(3) == 3


@pytest.mark.parametrize("interval", [(-1, 2), (2, 2), (3, 2), (math.nan, 2), (1, math.nan), (math.inf, math.inf)])
def test_an_interval_that_is_none_is_refused(interval):
    with pytest.raises(ValueError, match="must satisfy 0 <= start < end"):
        StatedPresence((interval,))


@pytest.mark.parametrize("question", ["on", "next_on", "next_off"])
def test_a_time_that_is_no_number_is_refused(question):
    with pytest.raises(ValueError, match="t is nan"):
        getattr(StatedPresence(), question)(math.nan)
