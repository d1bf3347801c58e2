"""What a device keeps between rounds, and what it drops when it goes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock

import pytest

from emulator.conversation.device import Attendant, Home
from emulator.conversation.trainings import Trainings
from emulator.lab.jobs import Trained
from emulator.lab.store import EMPTY, Ref, Stored
from emulator.record.run import Run
from emulator.worlds.interface import Parcel, Ticket

BEFORE, ALWAYS, COUNTED = (Stored(Ref.of(said), {}) for said in (b"before", b"always", b"counted"))


def trained(if_counted: Stored | None = COUNTED) -> Trained:
    return Trained(EMPTY, 1, ALWAYS, if_counted)


@pytest.mark.parametrize("acknowledged", [None, 2])
def test_what_was_to_be_kept_once_counted_is_dropped_if_the_round_was_not(acknowledged: int | None) -> None:
    """Round 3 was lost: the next request acknowledges round 2, or none at all."""
    home = Home(BEFORE)
    home.keep(3, trained())
    assert home.memory == ALWAYS
    assert home.after(acknowledged) == ALWAYS
    home.settle(acknowledged)
    assert (home.memory, home.pending) == (ALWAYS, None)


def test_it_is_kept_once_the_round_is_acknowledged() -> None:
    home = Home(BEFORE)
    home.keep(3, trained())
    home.settle(3)
    assert (home.memory, home.pending) == (COUNTED, None)


def test_a_reply_that_leaves_nothing_to_be_counted_keeps_what_it_says() -> None:
    home = Home(BEFORE)
    home.keep(3, trained(if_counted=None))
    home.settle(3)
    assert home.memory == ALWAYS


@pytest.mark.parametrize("working", [True, False])
def test_who_vanishes_in_its_work_drops_the_job_and_else_keeps_it(working: bool) -> None:
    """A job that was handed in while the request still travels is dropped by whoever sends that."""
    job: Future[Any] = Future()
    bench, costs = Mock(), Mock()
    bench.cut.return_value = working
    costs.duty.return_value = costs.refusal.return_value = None
    world = Mock()
    world.submit.return_value = Ticket(job)
    trainings = Trainings(world, Mock(), Run("fedavg", 1), lambda round: False)
    device = Attendant("a", world, costs, bench, {}, trainings)
    device.take(Parcel.of({"round": 0, "counted": None}, EMPTY))
    device.vanish()
    assert device.off
    assert job.cancelled() is working
    assert (device.ticket is None) is working
