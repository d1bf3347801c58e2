"""The activity of devices: timelines written by hand, and the sums that they must give."""

import pytest

from emulator.record.events import events_of
from emulator.results.records import Activity, activities


def asked(t, round, *names):
    return {"t": t, "event": "open", "round": round, "asked": list(names), "model": "0"}


def closed(t, round, *names, reason="all"):
    return {"t": t, "event": "close", "round": round, "reason": reason, "counted": list(names)}


def line(t, event, device, round=0, **more):
    return {"t": t, "event": event, "round": round, "device": device, **more}


def start(t, way, device, nbytes, round=0, **more):
    return line(t, f"{way}.start", device, round, bytes={"weights": nbytes - 10, "frame": 10}, reply_to=None, **more)


def work(t, device, seconds, round=0):
    return line(t, "compute.start", device, round, phases={"train": 1.0}, seconds={"train": seconds}, rate=1.0)


def row(round, seconds, joules):
    return {"round": round, "seconds": {"devices": seconds}, "joules": joules}


WHOLE = [
    asked(0.0, 0, "a", "b"),
    start(0.0, "down", "a", 100),
    start(0.0, "down", "b", 100),
    line(1.0, "down.end", "a"),
    work(1.0, "a", 2.0),
    line(2.5, "down.end", "b"),
    work(2.5, "b", 9.0),
    line(3.0, "compute.end", "a", update="0"),
    start(3.0, "up", "a", 60),
    line(4.0, "up.end", "a"),
    closed(4.0, 0, "a"),
    line(4.0, "compute.cut", "b", seconds=1.5, why="closed"),
]
ROWS = [row(0, {"a": [4.0, 0.0, 0.0], "b": [0.0, 4.0, 0.0]}, {"a": 8.0, "b": 6.0})]


def test_one_counts_and_one_is_late():
    told = activities(ROWS, events_of(WHOLE))
    assert told["a"] == Activity(
        1, 1, bytes_down=100, bytes_up=60, compute_s=2.0, transfer_s=2.0, wait_s=0.0, joules=8.0
    )
    assert told["b"] == Activity(
        1, 0, bytes_down=100, bytes_up=0, compute_s=1.5, transfer_s=2.5, wait_s=0.0, joules=6.0
    )
    assert "c" not in told


def test_what_was_cut_counts_as_far_as_it_came_and_so_does_what_goes_on():
    """A download of 100 bytes: 40 in two seconds, away for three, the other 60 in three; then the round closes."""
    timeline = [
        asked(0.0, 0, "a"),
        start(0.0, "down", "a", 100),
        line(2.0, "down.cut", "a", bytes=40, why="off", then="resume"),
        line(2.0, "off", "a"),
        line(5.0, "on", "a"),
        start(5.0, "down", "a", 100, **{"from": 40}),
        line(8.0, "down.end", "a"),
        work(8.0, "a", 4.0),
        line(9.0, "compute.cut", "a", seconds=1.0, why="closed"),
        closed(9.0, 0, reason="deadline"),
    ]
    told = activities([row(0, {"a": [0.0, 6.0, 3.0]}, {"a": None})], events_of(timeline))
    assert told["a"] == Activity(
        1, 0, bytes_down=100, bytes_up=0, compute_s=1.0, transfer_s=5.0, wait_s=3.0, joules=None
    )


def test_rounds_are_added_up_and_one_that_is_not_over_does_not_count():
    again = [{**event, "t": event["t"] + 10.0, "round": 1} for event in WHOLE]
    rows = [*ROWS, row(1, {"a": [4.0, 0.0, 0.5], "b": [0.0, 4.0, 0.25]}, {"a": 1.0, "b": 2.0})]
    once, twice = activities(ROWS, events_of([*WHOLE, *again])), activities(rows, events_of([*WHOLE, *again]))
    assert once["a"] == activities(ROWS, events_of(WHOLE))["a"]
    assert twice["a"] == Activity(
        2, 2, bytes_down=200, bytes_up=120, compute_s=4.0, transfer_s=4.0, wait_s=0.5, joules=9.0
    )
    assert twice["b"].wait_s == 0.25
    assert twice["b"].joules == 8.0


@pytest.mark.parametrize("old", [{"round": 0}, {"round": 0, "seconds": {}, "joules": {}}])
def test_what_a_record_does_not_tell_is_not_known(old):
    told = activities([old], events_of(WHOLE))["a"]
    assert (told.wait_s, told.joules, told.transfer_s) == (None, None, 2.0)
