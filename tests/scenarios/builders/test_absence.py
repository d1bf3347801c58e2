"""When the devices of a scenario are online: each kind by what its source says, and each device on its own."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from pydantic import ValidationError

from devices.presence import share_online
from scenarios.builders.absence import presence
from scenarios.builders.machines import fleet
from scenarios.load import build
from scenarios.schema.hardware import Diurnal, Presence, Renewal
from scenarios.text.faults import BadScenario
from tests.all_of import all_of
from tests.conftest import SMALL, merged

DAY, HOUR = 86400.0, 3600.0
STATES = [  # one day: locked and on wifi from 20 o'clock, charging from 22 to 23
    ("20:00:00", "screen_lock"),
    ("20:00:00", "wifi"),
    ("22:00:00", "battery_charged_on"),
    ("23:00:00", "battery_charged_off"),
]


@pytest.fixture
def flash(tmp_path):
    text = "\n".join(f"2020-01-01 {time}\t{event}" for time, event in STATES)
    (tmp_path / "states.json").write_text(json.dumps({"phone": {"messages": text}}))
    return str(tmp_path / "states.json")


@pytest.fixture
def fedscale(tmp_path):
    users = {str(k): {"active": [100 * k], "inactive": [100 * k + 50], "finish_time": 1000} for k in range(10)}
    (tmp_path / "behave.json").write_text(json.dumps(users))
    return str(tmp_path / "behave.json")


def test_a_phone_is_eligible_while_it_is_all_that_is_needed(flash):
    at_noon = Presence(trace=flash, hour=12.0)
    assert presence("a-0", at_noon, 0).next_on(0.0) == 10 * HOUR
    assert presence("a-0", at_noon, 0).next_off(10 * HOUR) == 11 * HOUR
    unmetered = Presence(trace=flash, hour=12.0, needs=("wifi",))
    assert presence("a-0", unmetered, 0).next_on(0.0) == 8 * HOUR


def test_each_device_is_a_user_of_the_log_from_a_place_of_its_own(fedscale):
    drawn = [presence(f"a-{number}", Presence(trace=fedscale), 0) for number in range(30)]
    assert len({one.intervals for one in drawn}) > 5
    assert len({one.offset for one in drawn}) == 30
    assert all_of(one.period == 1000 for one in drawn)
    assert drawn == [presence(f"a-{number}", Presence(trace=fedscale), 0) for number in range(30)]
    assert drawn != [presence(f"a-{number}", Presence(trace=fedscale), 1) for number in range(30)]


def test_of_several_kinds_all_must_allow_it(flash):
    both = presence("a-0", Presence(trace=flash, hour=22.0, off=((0, 600), (1800, 1e9))), 0)
    assert [both.on(t) for t in (0.0, 600.0, 1799.0, 1800.0)] == [False, True, True, False]


def test_without_variation_sessions_are_their_means():
    one = presence("a-0", Presence(renewal=Renewal(mean_on_s=100, mean_off_s=50, cv_on=0, cv_off=0)), 0)
    begins = one.next_on(one.next_off(0.0))
    assert one.next_off(begins) - begins == pytest.approx(100)
    assert one.next_on(begins + 100.5) == pytest.approx(begins + 150)


def test_by_night_more_devices_are_on_line_than_by_day():
    def share(hour):
        fleet = [presence(f"a-{number}", Presence(night=True, hour=hour), 0) for number in range(300)]
        return sum(one.on(0.0) for one in fleet) / len(fleet)

    assert share(3.0) > 0.8
    assert share(15.0) < 0.2


@pytest.mark.parametrize(
    ("hours", "hour", "off", "back"),
    [
        ((6, 21), 20, 1, 10),  # from 20 o'clock it is there for an hour, and again from 6 on
        ((22, 7), 12, 0, 10),
        ((22, 7), 23.5, 7.5, 22.5),  # past midnight
        ((0, 24), 5, math.inf, 0),
        ((18, 24), 23, 1, 19),
        ((24, 6), 1, 5, 23),
    ],
)
def test_between_hours_of_ones_own_a_device_is_there_every_day(hours, hour, off, back):
    one = presence("a-0", Presence(diurnal=Diurnal(hours=hours), hour=hour), 0)
    for day in range(3):
        began = day * DAY
        assert one.next_off(began) == pytest.approx(began + off * HOUR)
        gone = min(off, 24.0) * HOUR
        assert one.next_on(began + gone) == pytest.approx(began + (back if off < 24 else 24) * HOUR)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"hours": (6, 6)}, "hours are from 6 to 6; they must lie a minute apart at least"),
        ({"hours": (24, 0)}, "hours are from 24 to 0; they must lie a minute apart at least"),
        (
            {"hours": (6, 21), "arrive": (0.5,) * 24},
            "it has hours, and rates of coming and going; one of them is enough",
        ),
        ({"arrive": (0.5,) * 24}, "it needs hours: .from, to., or both of arrive and leave"),
        ({}, "it needs hours: .from, to., or both of arrive and leave"),
    ],
)
def test_a_day_is_said_in_one_way(said, reason):
    with pytest.raises(ValidationError, match=reason):
        Diurnal(**said)


@pytest.mark.parametrize(
    ("said", "until", "share"),
    [
        (Presence(diurnal=Diurnal(hours=(6, 21)), hour=0), DAY, 15 / 24),
        (Presence(diurnal=Diurnal(hours=(6, 21)), hour=20), 2 * HOUR, 0.5),
        (Presence(off=((10, 20), (30, 90))), 60.0, 1 / 3),
        (Presence(off=((0, math.inf),)), 60.0, 0.0),
        (Presence(), 60.0, 1.0),
    ],
)
def test_the_share_of_the_time_that_a_device_is_online(said, until, share):
    assert share_online(presence("a-0", said, 0), until) == pytest.approx(share)


def test_rates_of_ones_own_decide_when_one_comes():
    rates = Diurnal(arrive=(0.0,) * 23 + (1000.0,), leave=(1000.0,) + (0.0,) * 23)
    one = presence("a-0", Presence(diurnal=rates, hour=12.0), 0)
    assert 11 * HOUR <= one.next_on(0.0) < 12 * HOUR


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("{]", "line 1: is not JSON"),
        ('{"a": {"active": [5], "inactive": [2], "finish_time": 9}}', "client 'a' is active from 5.0 to 2.0 s"),
        ('{"a": {"messages": "2020-01-01 00:00:00\\tbattery_eaten"}}', "message 1: there is no event"),
        ('{"a": 1}', "is neither FedScale's behaviour trace"),
    ],
)
def test_a_log_that_is_none_is_one_line_with_file_and_reason(tmp_path, text, reason):
    (tmp_path / "log").write_text(text)
    with pytest.raises(BadScenario) as bad:
        presence("a-0", Presence(trace=str(tmp_path / "log")), 0)
    assert reason in str(bad.value)
    assert str(tmp_path / "log") in str(bad.value)
    assert "\n" not in str(bad.value)


def test_rates_that_change_nothing_are_refused():
    with pytest.raises(ValidationError, match="nothing ever changes"):
        Diurnal(arrive=(0.0,) * 24, leave=(1.0,) * 24)


def test_kinds_that_must_hold_together_are_drawn_independently():
    """Each kind alone has half of the devices online, so two have a quarter; 4 sigma of 400 draws are 0.087."""
    flat = Diurnal(arrive=(0.5,) * 24, leave=(0.5,) * 24)
    said = Presence(renewal=Renewal(mean_on_s=600, mean_off_s=600), diurnal=flat)
    on = [presence(f"a-{number}", said, 0).on(0.0) for number in range(400)]
    assert sum(on) / 400 == pytest.approx(0.25, abs=0.09)


def test_night_and_rates_of_ones_own_are_drawn_independently():
    """Of 20 in 21 by night, at rates (0.05, 1), half are left after 0.65 hours; with the other rates half of all are
    left."""
    flat = Diurnal(arrive=(0.5,) * 24, leave=(0.5,) * 24)
    on = [presence(f"a-{number}", Presence(night=True, diurnal=flat, hour=7.65), 0).on(0.0) for number in range(400)]
    night = 1 / 21 + 19 / 21 * math.exp(-1.05 * 0.65)
    assert sum(on) / 400 == pytest.approx(0.5 * night, abs=0.09)


QUICK = {"renewal": {"mean_on_s": 1, "mean_off_s": 1}}
MANY_STEPS = {"batch": 32}  # so that a round lasts for many sessions
DRIFTING = {"max": 12, "per_cycle": 6, "cycle_s": 1e8}


@pytest.mark.parametrize(
    ("said", "rounds", "reason"),
    [
        (
            {"off": [[0, 1e9]], **QUICK},
            {},
            r"off ends at second 1e\+09, and until then each device comes and goes 1e\+09 times",
        ),
        (QUICK, DRIFTING, r"rounds.cycle_s leads to second 1e\+08, and .* 1e\+08 times; it must be 1e\+05 at most"),
        ({"off": [[0, 1e8]], "diurnal": {"arrive": [500] * 24, "leave": [500] * 24}}, {}, "1.4e\\+07 times"),
    ],
)
def test_sessions_that_would_be_drawn_for_years_are_refused_in_a_line(said, rounds, reason):
    group = {**SMALL["fleet"][0], "presence": said}
    with pytest.raises(BadScenario, match=reason) as bad:
        build(merged(SMALL, {"fleet": [group], "rounds": rounds}))
    assert "\n" not in str(bad.value)
    slow = {"renewal": {"mean_on_s": 1e5, "mean_off_s": 1e5}}
    build(merged(SMALL, {"fleet": [{**group, "presence": {**slow, "off": [[0, 1e9]]}}], "rounds": rounds}))


def test_the_larger_the_fleet_the_sooner_is_it_too_much():
    def group(count):
        sessions = {"off": [[0, 50_000]], "renewal": {"mean_on_s": 1, "mean_off_s": 1}}
        return merged(SMALL, {"fleet": [{**SMALL["fleet"][0], "count": count, "presence": sessions}]})

    build(group(10))
    with pytest.raises(BadScenario, match=r"5e\+04 times; it must be 2e\+04 at most"):
        build(group(1000))


def test_a_log_that_goes_on_for_more_sessions_than_are_drawn_is_refused(tmp_path):
    (tmp_path / "log").write_text(json.dumps({"a": {"active": [0], "inactive": [5], "finish_time": 1e9}}))
    said = Presence(trace=str(tmp_path / "log"), renewal=Renewal(mean_on_s=1, mean_off_s=1))
    with pytest.raises(BadScenario, match=r"log repeats after 1e\+09 s; until then each device comes and goes"):
        presence("a-0", said, 0)


def test_kinds_that_never_meet_as_far_as_they_are_drawn_are_refused(monkeypatch):
    monkeypatch.setattr("devices.generated_presence.MOST", 50)
    sessions = {"off": [[0, 100]], **QUICK}
    with pytest.raises(BadScenario, match="phone-mid-0 is not found online: presence is drawn for 50"):
        fleet(build(merged(SMALL, {"fleet": [{**SMALL["fleet"][0], "presence": sessions}]})))


@pytest.mark.slow
def test_a_run_that_outlasts_what_is_drawn_ends_in_a_line(play, monkeypatch):
    """In sessions of a second a device that begins again each time never ends its work."""
    monkeypatch.setattr("devices.generated_presence.MOST", 100)
    group = {**SMALL["fleet"][0], "speed_gflop_s": 1e-4, "presence": QUICK}
    run = play(fleet=[group], rounds={"when_off": "restart", "transfers": "restart"})
    assert run.outcome.failure.startswith("fedavg, seed 1: presence is drawn for 100 comings and goings")


@pytest.mark.slow
def test_work_that_begins_again_for_ever_ends_in_a_line(play, monkeypatch):
    """Sessions of one second, and training that takes hours."""
    monkeypatch.setattr("emulator.conversation.presences.RESTARTS", 20)
    group = {**SMALL["fleet"][0], "speed_gflop_s": 1e-4, "presence": QUICK}
    run = play(fleet=[group], rounds={"when_off": "restart", "transfers": "resume"})
    name, said = run.outcome.failure.removeprefix("fedavg, seed 1: ").split(" ", 1)
    begun = Counter(line["device"] for line in run.of("compute.start"))
    assert said.startswith(f"went offline {begun[name]} times in round 1 and began again each time; give longer")
    assert min(begun.values()) == 20  # nobody was left who might have ended


@pytest.mark.slow
@pytest.mark.parametrize("stragglers", ["stop", "finish"])
def test_who_begins_again_for_ever_ends_no_round_that_others_close(play, monkeypatch, stragglers):
    monkeypatch.setattr("emulator.conversation.presences.RESTARTS", 5)
    never = {**SMALL["fleet"][0], "name": "never", "count": 1, "speed_gflop_s": 1e-4, "presence": QUICK}
    late = {**SMALL["fleet"][0], "name": "late", "count": 3, "overhead_ms": 1000}
    rounds = {"max": 2, "ask": 4, "fraction": 0.75, "when_off": "restart", "transfers": "resume"}
    run = play(fleet=[never, late], rounds={**rounds, "stragglers": stragglers}, training=MANY_STEPS)
    assert run.outcome.failure is None
    assert len(run.rounds) == 2
    assert len(run.of("compute.cut", device="never-0", then="restart")) > 5


@pytest.mark.slow
def test_a_deadline_ends_what_begins_again_for_ever(play, monkeypatch):
    monkeypatch.setattr("emulator.conversation.presences.RESTARTS", 5)
    group = {**SMALL["fleet"][0], "overhead_ms": 3000, "presence": QUICK}
    rounds = {"max": 3, "when_off": "restart", "transfers": "resume", "deadline_s": 120}
    run = play(fleet=[group], rounds=rounds)
    assert "3 rounds in a row had fewer than min_replies" in (run.outcome.failure or "")
    begun = Counter(line["device"] for line in run.of("compute.cut", round=0, then="restart"))
    assert min(begun.values()) > 5


@pytest.mark.slow
def test_work_that_goes_on_may_be_interrupted_as_often_as_it_takes(play, monkeypatch):
    monkeypatch.setattr("emulator.conversation.presences.RESTARTS", 3)
    group = {**SMALL["fleet"][0], "presence": QUICK, "overhead_ms": 1000}
    run = play(fleet=[group], rounds={"max": 1, "when_off": "pause", "transfers": "resume"}, training=MANY_STEPS)
    cut = Counter(line["device"] for line in run.of("compute.cut"))
    assert run.outcome.failure is None
    assert max(cut.values()) > 3
