"""When the devices of a scenario are on line: each kind by what its source says, and each device on its own."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from scenarios.absence import presence
from scenarios.faults import BadScenario
from scenarios.hardware import Diurnal, Presence, Renewal

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
    assert all(one.period == 1000 for one in drawn)
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
