"""When phones were online, by hand-made logs."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from devices.traces import Log, read
from network.foreign_files import BadFile


@pytest.fixture
def file(tmp_path):
    def write(value: object, pickled: bool = False):
        path = tmp_path / "log"
        path.write_bytes(pickle.dumps(value) if pickled else json.dumps(value).encode())
        return path

    return write


def behaviour(active, inactive, finish_time=100):
    return {1: {"duration": 60, "inactive": inactive, "finish_time": finish_time, "active": active, "model": "x"}}


def states(*events: str):
    return {"681": {"guid": "681", "model": "x", "messages": "\n".join(events) + "\n"}}


@pytest.mark.parametrize("pickled", [False, True])
def test_fedscales_behaviour_is_pairs_of_active_and_inactive(file, pickled) -> None:
    (log,) = read(file(behaviour([0, 50, 60], [20, 50, 70]), pickled))
    assert log == Log("1", ((0, 20), (60, 70)), 100)


@pytest.mark.parametrize("pickled", [False, True])
def test_a_phone_is_eligible_while_locked_charging_and_on_wifi(file, pickled) -> None:
    events = states(
        "2020-01-02 22:00:00\tbattery_charged_on",
        "2020-01-02 22:00:00\tWiFi",
        "2020-01-02 22:10:00\tscreen_off",
        "2020-01-02 22:20:00\tscreen_lock",
        "2020-01-02 23:00:00\t87.0%",
        "2020-01-03 01:00:00\t4G",
        "2020-01-03 01:30:00\twifi",
        "2020-01-03 02:00:00\tscreen_unlock",
        "2020-01-03 03:00:00\tscreen_lock",
        "2020-01-03 04:00:00\tbattery_charged_off",
        "2020-01-03 05:00:00\tbattery_charged_on",
        "2020-01-03 06:00:00\tphone_off",
    )
    (log,) = read(file(events, pickled))
    hours = [(begin / 3600, end / 3600) for begin, end in log.on]  # since midnight of the first day
    assert hours == [(22 + 1 / 3, 25), (25.5, 26), (27, 28), (29, 30)]
    assert log.period == 2 * 86400


def test_what_was_not_seen_is_not_eligible(file) -> None:
    (log,) = read(file(states("2020-01-02 10:00:00\tscreen_lock", "2020-01-02 11:00:00\twifi")))
    assert log.on == ()
    events = states(*(f"2020-01-02 10:00:00\t{event}" for event in ("screen_lock", "wifi", "battery_charged_on", "9%")))
    assert read(file(events))[0].on == ()  # the log ends at that instant
    events = states(*events["681"]["messages"].split("\n"), "2020-01-02 12:00:00\t10%")
    assert read(file(events))[0].on == ((36000, 43200),)


@pytest.mark.parametrize("offset", [0.0, 33.3, 99.9, 12345.6])
def test_presence_at_a_time_is_that_of_the_time_modulo_the_period(file, offset) -> None:
    (log,) = read(file(behaviour([3, 60], [20, 70])))
    presence = log.presence(offset)
    for t in range(500):
        place = (t + 0.5 + offset) % 100
        assert presence.on(t + 0.5) == (3 <= place < 20 or 60 <= place < 70)


def test_a_phone_that_was_never_eligible_is_never_on_line(file) -> None:
    (log,) = read(file(states("2020-01-02 10:00:00\twifi", "2020-01-02 11:00:00\tscreen_on")))
    assert log.presence().next_on(0) == math.inf


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"1": 5}, "is neither FedScale's behaviour trace, with `active`, nor FLASH's states, with `messages`"),
        ({"1": {"active": []}}, "client '1' is not a mapping with active, inactive and finish_time"),
        (behaviour([0], []), "client '1' needs two lists of equal length, active and inactive"),
        (behaviour([5], [4]), "client '1' is active from 5.0 to 4.0 s, after 0.0 and in a period of 100.0"),
        (behaviour([0, 10], [20, 30]), "client '1' is active from 10.0 to 30.0 s, after 20.0 and in a period of 100.0"),
        (behaviour([0], [101]), "client '1' is active from 0.0 to 101.0 s, after 0.0 and in a period of 100.0"),
        (behaviour([], [], 0), "the finish_time of client '1' is 0.0; it must be above 0"),
        (
            behaviour([], [], "x"),
            "the finish_time of client '1' is 'x'; it must be a finite number, 0 or more, up to 1e+10",
        ),
        (behaviour([float("nan")], [1]), "the time of client"),
        ({}, "holds a dict; it must be a mapping of clients with at least one"),
    ],
)
def test_a_wrong_behaviour_is_said(file, value, said) -> None:
    path = file(value)
    with pytest.raises(BadFile) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"1": {"messages": 3}}, "phone '1' is not a mapping with a text of messages"),
        (states(), "phone '681' has no messages"),
        (states("2020-01-02\twifi"), "phone '681', message 1: '2020-01-02\\twifi' does not begin with Y-m-d H:M:S"),
        (states("2020-01-02 10:00:00\tlunch"), "phone '681', message 1: there is no event 'lunch'; known are"),
        (
            states("2020-01-02 10:00:00\twifi", "2020-01-02 09:00:00\twifi"),
            "phone '681', message 2: 2020-01-02 09:00:00 is before the one above",
        ),
    ],
)
def test_a_wrong_log_is_said(file, value, said) -> None:
    path = file(value)
    with pytest.raises(BadFile) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {said}")
