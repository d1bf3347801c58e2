"""Recorded and drawn presence, and what is needed together."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.generated_presence import DAY, HOUR, DiurnalSessions, RenewalSessions, night
from devices.presence import AllOf, RecordedPresence, StatedPresence, together

HOURS = range(24)
MODELS = [
    RenewalSessions(7, 600.0, 1200.0),
    night(7, local=20.5),
    RecordedPresence(((10.0, 400.0), (900.0, 1000.0)), 1000.0, 333.0),
]
SEEDED = [lambda seed: RenewalSessions(seed, 600.0, 1200.0), lambda seed: night(seed, local=20.5)]
PIECES = st.lists(st.tuples(st.integers(0, 15), st.integers(1, 8)), max_size=5)


def within(pieces, period):
    return tuple((float(a), float(min(a + n, period))) for a, n in pieces if a < period)


# ---- what holds for all of them


@pytest.mark.parametrize("model", MODELS, ids=["renewal", "diurnal", "recorded"])
def test_the_next_instants_are_changes(model):
    t, states = 0.0, []
    for _ in range(200):
        on = model.on(t)
        change = model.next_off(t) if on else model.next_on(t)
        assert (model.next_on(t) if on else model.next_off(t)) == t
        assert change > t
        assert model.on(change) != on
        assert change - t < 2e-6 or model.on(change - 1e-6) == on
        assert model.on((t + change) / 2) == on
        t, states = change, [*states, on]
    assert states[::2] == [states[0]] * 100


@pytest.mark.parametrize("make", SEEDED, ids=["renewal", "diurnal"])
@given(questions=st.lists(st.floats(0, 5 * DAY), max_size=10))
def test_asking_never_changes_the_answer(make, questions):
    asked = make(3)
    for t in questions:
        fresh = make(3)
        assert (asked.on(t), asked.next_on(t), asked.next_off(t)) == (fresh.on(t), fresh.next_on(t), fresh.next_off(t))
    assert asked == make(3)


@pytest.mark.parametrize("make", SEEDED, ids=["renewal", "diurnal"])
def test_what_is_sent_is_the_seed(make):
    asked, fresh = make(5), make(5)
    asked.on(30 * DAY)
    assert pickle.dumps(asked) == pickle.dumps(fresh)
    assert pickle.loads(pickle.dumps(asked)).next_on(9 * DAY) == fresh.next_on(9 * DAY)


@pytest.mark.parametrize("make", SEEDED, ids=["renewal", "diurnal"])
def test_a_short_question_draws_little(make):
    asked = make(5)
    asked.on(60.0)
    assert len(asked._state["changes"]) < 20
    assert make(5).next_on(HOUR) != make(6).next_on(HOUR) or make(5).next_off(HOUR) != make(6).next_off(HOUR)


@pytest.mark.parametrize("model", MODELS, ids=["renewal", "diurnal", "recorded"])
def test_a_time_that_is_none_is_refused(model):
    for ask in (model.on, model.next_on, model.next_off):
        with pytest.raises(ValueError, match="t is nan"):
            ask(math.nan)
    assert model.next_on(math.inf) == model.next_off(math.inf) == math.inf


# ---- recorded


@given(PIECES, st.integers(16, 24), st.integers(0, 50), st.integers(0, 80))
def test_a_recording_repeats(pieces, period, offset, t):
    intervals = within(pieces, period)
    model, phase = RecordedPresence(intervals, float(period), float(offset)), (t + offset) % period
    assert model.on(t) == any(a <= phase < b for a, b in intervals)


@given(PIECES, st.integers(16, 24), st.integers(0, 50), st.integers(0, 80))
def test_a_recordings_next_instants_are_found_second_by_second(pieces, period, offset, t):
    model = RecordedPresence(within(pieces, period), float(period), float(offset))
    seconds = range(t, t + 2 * period + 1)
    assert model.next_on(t) == next((s for s in seconds if model.on(s)), math.inf)
    assert model.next_off(t) == next((s for s in seconds if not model.on(s)), math.inf)


def test_a_session_goes_on_where_the_recording_begins_again():
    model = RecordedPresence(((0.0, 10.0), (90.0, 100.0)), 100.0)
    assert model.next_off(95) == 110


@given(st.floats(0, 1e9), st.floats(0, 1e6))
def test_rounding_never_puts_an_instant_before_its_change(t, offset):
    model = RecordedPresence(((0.1, 0.3), (0.7, 1.1)), 1.3, offset)
    assert model.on(model.next_on(t))
    assert not model.on(model.next_off(t))


def test_never_and_always_on():
    assert RecordedPresence((), 10.0).next_on(3) == math.inf
    assert not RecordedPresence((), 10.0).always
    assert RecordedPresence(((0.0, 4.0), (4.0, 10.0)), 10.0).always
    assert RecordedPresence(((0.0, 10.0),), 10.0).next_off(3) == math.inf


@pytest.mark.parametrize("interval", [(-1, 2), (2, 2), (3, 2), (5, 11), (math.nan, 2), (1, math.inf), (1, 1 + 1e-6)])
def test_an_interval_outside_the_recording_is_refused(interval):
    with pytest.raises(ValueError, match="the interval is"):
        RecordedPresence((interval,), 10.0)


@pytest.mark.parametrize(("period", "offset"), [(0, 0), (-1, 0), (math.inf, 0), (math.nan, 0), (1, math.nan)])
def test_a_recording_without_length_is_refused(period, offset):
    with pytest.raises(ValueError, match="a period is above 0"):
        RecordedPresence((), period, offset)


# ---- renewal


def sessions(model, n):
    """Lengths of the first n sessions online and offline that begin after 0."""
    t, lengths = model.next_on(model.next_off(0.0)), {True: [], False: []}
    for _ in range(n):
        off = model.next_off(t)
        lengths[True].append(off - t)
        t = model.next_on(off)
        lengths[False].append(t - off)
    return lengths


def test_sessions_have_the_means_and_variations_that_were_asked_for():
    lengths = sessions(RenewalSessions(1, mean_on=600.0, mean_off=1800.0, cv_on=0.5, cv_off=1.0), 20_000)
    assert np.mean(lengths[True]) == pytest.approx(600, rel=0.02)
    assert np.std(lengths[True]) / np.mean(lengths[True]) == pytest.approx(0.5, rel=0.05)
    assert np.mean(lengths[False]) == pytest.approx(1800, rel=0.04)


def test_sessions_are_lognormal():
    logs = np.log(sessions(RenewalSessions(2, 3600.0, 3600.0, cv_on=1.0), 5000)[True])
    assert ((logs - logs.mean()) ** 3).mean() / logs.std() ** 3 == pytest.approx(0, abs=0.15)


@pytest.mark.parametrize("t", [0.0, 300.0, 5000.0])
def test_the_share_on_line_is_the_same_at_every_instant(t):
    on = [RenewalSessions(seed, mean_on=600.0, mean_off=1200.0).on(t) for seed in range(2000)]
    assert np.mean(on) == pytest.approx(1 / 3, abs=0.045)  # four standard deviations


def test_the_first_session_is_met_in_proportion_to_its_length():
    # the mean of what is left of it is E[L^2] / 2 E[L] = mean (1 + cv^2) / 2
    models = [RenewalSessions(seed, mean_on=100.0, mean_off=100.0, cv_on=0.8, cv_off=0.8) for seed in range(3000)]
    left = [model.next_off(0.0) if model.on(0.0) else model.next_on(0.0) for model in models]
    assert np.mean(left) == pytest.approx(100 * (1 + 0.64) / 2, rel=0.08)


def test_without_variation_sessions_are_all_equal():
    lengths = sessions(RenewalSessions(1, 30.0, 70.0, cv_on=0.0, cv_off=0.0), 10)
    assert lengths == {True: pytest.approx([30.0] * 10), False: pytest.approx([70.0] * 10)}


@pytest.mark.parametrize("wrong", [{"mean_on": 0}, {"mean_off": math.inf}, {"cv_on": -1}, {"cv_off": math.nan}])
def test_a_renewal_without_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RenewalSessions(**{"seed": 1, "mean_on": 60.0, "mean_off": 60.0, **wrong})


def test_beyond_what_is_remembered_is_refused(monkeypatch):
    monkeypatch.setattr("devices.generated_presence.MOST", 50)
    with pytest.raises(ValueError, match=r"drawn for 50 comings and goings, which end at .* second 1e\+06 is asked"):
        RenewalSessions(1, 10.0, 10.0).on(1e6)


def test_the_pace_of_sessions_is_what_is_counted():
    rates = DiurnalSessions(1, tuple(float(hour % 5) for hour in HOURS), tuple(float(hour % 3) for hour in HOURS), 0.0)
    for model in (RenewalSessions(1, 300.0, 900.0), night(1), rates):
        last = 0.0
        for _ in range(4000):
            last = model.next_off(last) if model.on(last) else model.next_on(last)
        assert 4000 / last == pytest.approx(model.pace, rel=0.06)


# ---- diurnal


def test_with_equal_hours_waits_are_exponential():
    model = DiurnalSessions(1, (2.0,) * 24, (0.5,) * 24, local=0.0)
    lengths = sessions(model, 4000)
    assert np.mean(lengths[True]) == pytest.approx(2 * HOUR, rel=0.07)
    assert np.mean(lengths[False]) == pytest.approx(HOUR / 2, rel=0.07)
    assert np.std(lengths[True]) / np.mean(lengths[True]) == pytest.approx(1, abs=0.07)
    assert [model.share(0), model.share(13.7)] == pytest.approx([0.8, 0.8])  # 2 / (2 + 0.5)


def test_nobody_comes_in_hours_whose_rate_is_nothing():
    arrive = tuple(3.0 if hour == 22 else 0.0 for hour in HOURS)
    model, t = DiurnalSessions(1, arrive, (1.0,) * 24, local=5.0), 0.0
    for _ in range(100):
        t = model.next_on(model.next_off(t))
        assert 22 * HOUR <= (t + 5 * HOUR) % DAY <= 23 * HOUR


@pytest.mark.parametrize("local", [0.0, 9.5])
@pytest.mark.parametrize("hour", [3, 12, 21])
def test_the_share_at_an_hour_is_that_of_the_fleet(local, hour):
    t = (hour - local) % 24 * HOUR + DAY
    on = [night(seed, local).on(t) for seed in range(1500)]
    assert np.mean(on) == pytest.approx(night(0).share(hour), abs=0.055)  # four standard deviations


def test_devices_charge_at_night():
    assert night(0).share(3) > 0.9
    assert night(0).share(15) < 0.1


def test_the_share_solves_its_equation():
    # p' = arrive (1 - p) - leave p, by Euler's small steps through a day, comes back to where it was
    model, p, steps = night(0), night(0).share(0), 24_000
    for k in range(steps):
        hour = k * 24 // steps
        p += (model.arrive[hour] * (1 - p) - model.leave[hour] * p) * 24 / steps
    assert p == pytest.approx(model.share(0), abs=1e-3)


@pytest.mark.parametrize("wrong", [(1.0,) * 23, (0.0,) * 24, (-1.0,) * 24, (math.nan,) * 24])
def test_rates_without_sense_are_refused(wrong):
    for what in ("arrive", "leave"):
        with pytest.raises(ValueError, match=what):
            replace(night(1), **{what: wrong})
    with pytest.raises(ValueError, match="local"):
        replace(night(1), local=math.inf)


# ---- together


@given(PIECES, PIECES, st.integers(0, 60))
def test_together_is_where_all_are(first, second, t):
    parts = (RecordedPresence(within(first, 16), 16.0), RecordedPresence(within(second, 20), 20.0))
    model, seconds = AllOf(parts), range(t, t + 161)  # 80 s is a common period
    assert model.on(t) == all(part.on(t) for part in parts)
    assert model.next_off(t) == next((s for s in seconds if not model.on(s)), math.inf)
    assert model.next_on(t) == next((s for s in seconds if model.on(s)), math.inf)


def test_parts_that_never_meet_end_the_search():
    parts = (RecordedPresence(((0.0, 5.0),), 10.0), RecordedPresence(((5.0, 10.0),), 10.0))
    assert AllOf(parts).next_on(0) == math.inf


def test_eligible_is_who_charges_and_has_wifi_and_is_there():
    charging, wifi, there = night(1), night(2), StatedPresence(((0.0, 100.0),))
    eligible = together([charging, wifi, there, StatedPresence()])
    t = eligible.next_on(0.0)
    assert charging.on(t)
    assert wifi.on(t)
    assert there.on(t)
    assert eligible.next_off(t) == min(charging.next_off(t), wifi.next_off(t))


def test_what_is_always_there_needs_no_part():
    away = StatedPresence(((1.0, 2.0),))
    assert together([StatedPresence(), away]) is away
    assert together([]) == together([StatedPresence()]) == StatedPresence()
    assert AllOf((StatedPresence(),)).always
