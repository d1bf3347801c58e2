import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.thermal import COLD, Heat, Throttle

PHONE = Throttle(sustained=0.6, heating=200.0)
LEVELS, WORK = st.floats(0, 1), st.floats(1e-3, 1e4)


def test_a_cold_start_has_the_full_speed():
    # in the first millisecond the heat is 5e-6
    seconds, _ = PHONE.load(COLD, 0.0, 1e-3)
    assert seconds == pytest.approx(1e-3, rel=1e-5)


def test_endless_load_has_the_sustained_speed():
    seconds, heat = PHONE.load(COLD, 0.0, 1e7)
    assert 1e7 / seconds == pytest.approx(0.6, rel=1e-4)
    assert heat.level == pytest.approx(1)
    assert PHONE.load(Heat(1.0), 0.0, 60.0)[0] == pytest.approx(100)


def test_one_time_constant_by_hand():
    # 200 s of load from cold: 0.6 * 200 + 0.4 * 200 * (1 - 1/e)
    work = 120 + 80 * (1 - 1 / math.e)
    assert PHONE.done(COLD, 200.0) == pytest.approx(work)
    seconds, heat = PHONE.load(COLD, 0.0, work)
    assert seconds == pytest.approx(200)
    assert heat == Heat(pytest.approx(1 - 1 / math.e), pytest.approx(200))


def test_it_recovers_while_idle():
    assert PHONE.rested(Heat(1.0, 50.0), 250.0).level == pytest.approx(1 / math.e)
    rested, _ = PHONE.load(Heat(1.0, 0.0), 1e5, 10.0)
    cold, _ = PHONE.load(COLD, 0.0, 10.0)
    assert rested == pytest.approx(cold)


@given(LEVELS, WORK, WORK)
def test_work_in_two_pieces_takes_what_it_takes_in_one(level, a, b):
    whole, end = PHONE.load(Heat(level), 0.0, a + b)
    first, between = PHONE.load(Heat(level), 0.0, a)
    second, last = PHONE.load(between, first, b)
    assert first + second == pytest.approx(whole, rel=1e-9)
    assert last.level == pytest.approx(end.level, abs=1e-9)


@given(LEVELS, WORK, st.floats(0.3, 1), st.floats(1, 1e4))
def test_the_seconds_do_exactly_the_work(level, work, sustained, heating):
    throttle = Throttle(sustained, heating)
    seconds, _ = throttle.load(Heat(level), 0.0, work)
    assert throttle.done(Heat(level), seconds) == pytest.approx(work, rel=1e-9)
    assert work * (1 - 1e-12) <= seconds <= work / sustained * (1 + 1e-12)


@given(st.tuples(LEVELS, LEVELS).map(sorted), WORK)
def test_a_hotter_device_is_never_faster(levels, work):
    cool, hot = (PHONE.load(Heat(level), 0.0, work)[0] for level in levels)
    assert cool <= hot * (1 + 1e-12)


@given(LEVELS, WORK)
def test_without_throttling_work_is_seconds(level, work):
    for throttle in (Throttle(), Throttle(1.0, 60.0), Throttle(0.5, math.inf)):
        seconds, _ = throttle.load(Heat(level if throttle.heating < math.inf else 0.0), 0.0, work)
        assert seconds == work


def test_no_work_takes_no_time():
    assert PHONE.load(Heat(0.5, 3.0), 3.0, 0.0) == (0.0, Heat(0.5, 3.0))


@pytest.mark.parametrize(("sustained", "heating"), [(0, 1), (1.1, 1), (math.nan, 1), (0.5, 0), (0.5, math.nan)])
def test_what_is_no_throttle_is_refused(sustained, heating):
    with pytest.raises(ValueError, match="it must be above 0|must be above 0 s"):
        Throttle(sustained, heating)


def test_the_past_and_endless_work_are_refused():
    with pytest.raises(ValueError, match="known from 5"):
        PHONE.load(Heat(0.0, 5.0), 4.0, 1.0)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="work is"):
            PHONE.load(COLD, 0.0, bad)
