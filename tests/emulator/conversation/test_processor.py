"""A device's processor: what is left of work that an absence has paused, and what its end says."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from devices.device import NEVER, profiles
from emulator.conversation.processor import Bench
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.record.tally import Bill

CALL = Call("a", 0)
WORK = Bill({"train": 8.0}, {"train": 4.0})  # FLOPs, and the seconds that they take


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def record(clock: Clock) -> Record:
    record = Record(None, clock)
    record.open(0, ["a"], "")
    return record


@pytest.fixture
def bench(record: Record) -> Bench:
    """At the work, on a machine that no load heats."""
    bench = Bench(Mock(), record, replace(profiles()["pi-4"], throttle=NEVER), when_off="pause")
    bench.load(CALL, WORK)
    return bench


def test_of_paused_work_there_is_left_what_was_not_done(bench: Bench, clock: Clock) -> None:
    clock.now = 1.0
    assert bench.suspend(told=False)
    clock.now = 10.0
    bench.go_on()
    assert (bench.bill.seconds, bench.bill.flops, bench.due) == ({"train": 3.0}, {"train": 6.0}, 13.0)


def test_work_that_ends_while_its_device_is_away_was_cut_once_as_the_device_went(
    bench: Bench, record: Record, clock: Clock
) -> None:
    clock.now = 1.0
    bench.suspend(told=False)
    clock.now = 3.0
    assert bench.cut("closed")
    [stint] = record.trips[CALL].work
    assert stint.seconds == 1.0  # and not the 3 s until the close


def test_work_that_is_cut_in_the_presence_of_its_device_has_taken_until_then(
    bench: Bench, record: Record, clock: Clock
) -> None:
    clock.now = 3.0
    assert bench.cut("closed")
    [stint] = record.trips[CALL].work
    assert (stint.seconds, stint.share) == (3.0, 0.75)
    assert not bench.cut("closed")  # there is no more
