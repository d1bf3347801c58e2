"""A device's memory between rounds, and the work that it drops as it goes offline."""

from __future__ import annotations

import asyncio
import weakref
from concurrent.futures import Future
from functools import partial
from typing import Any, cast
from unittest.mock import Mock

import pytest

from emulator.conversation.device import Attendant, Home
from emulator.conversation.trainings import Trainings
from emulator.lab.training import Trained
from emulator.messages.codec import ERROR
from emulator.messages.store import EMPTY, Ref, Stored
from emulator.record.call import AGAIN
from emulator.record.run import Run
from emulator.worlds.interface import Cancelled, Parcel, Ticket
from emulator.worlds.virtual import VirtualWorld
from network.wire.form import FRAME

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
    home = home.informed({"counted": acknowledged})
    assert (home.memory, home.pending) == (ALWAYS, None)


def test_it_is_kept_once_the_round_is_acknowledged() -> None:
    home = Home(BEFORE)
    home.keep(3, trained())
    home = home.informed({"counted": 3})
    assert (home.memory, home.pending, home.combined) == (COUNTED, None, COUNTED)


def test_a_reply_that_leaves_nothing_to_be_counted_keeps_what_it_says() -> None:
    home = Home(BEFORE)
    home.keep(3, trained(if_counted=None))
    home = home.informed({"counted": 3})
    assert home.memory == ALWAYS


def told(counted: int | None, combined: int | None) -> dict[str, int | None]:
    return {"counted": counted, "combined": combined}


def kept(which: int) -> Stored:
    """The memory once the reply with this number counts; 0: at first."""
    return Stored(Ref.of(str(which).encode()), {"own": 4})


def replying(home: Home, round: int, which: int) -> None:
    home.keep(round, Trained(EMPTY, 1, home.memory, kept(which)))


def test_a_device_that_is_asked_before_its_reply_is_combined_keeps_what_the_model_has() -> None:
    """Version 0 asks it three times, version 2 twice; a request says which reply counts and which one the model has."""
    home = Home(kept(0))
    replying(home, 0, 1)
    home = home.informed(told(0, None))
    assert (home.memory, home.combined, home.sizes) == (kept(1), kept(0), {"own": 8})
    replying(home, AGAIN, 2)
    home = home.informed(told(AGAIN, None))
    assert (home.memory, home.combined) == (kept(2), kept(0))
    replying(home, 2 * AGAIN, 3)
    home = home.informed(told(2 * AGAIN, AGAIN))  # the last one came after the second version was made
    assert (home.memory, home.combined) == (kept(3), kept(2))
    replying(home, 2, 4)
    home = home.informed(told(2, AGAIN))
    assert (home.memory, home.combined, home.sizes) == (kept(4), kept(2), {"own": 12})
    replying(home, 2 + AGAIN, 5)
    home = home.informed(told(2, 2))  # all but the last are in the model, and that one was lost
    assert (home.memory, home.combined, home.sizes) == (kept(4), kept(4), {"own": 4})


def test_a_device_takes_back_what_counted_in_a_version_that_failed() -> None:
    home = Home(kept(0))
    for number, which in ((0, 1), (AGAIN, 2)):
        replying(home, number, which)
        home = home.informed(told(number, None))
    assert home.after(None) == kept(0)
    home = home.informed(told(None, None))
    assert (home.memory, home.combined, home.earlier) == (kept(0), kept(0), ())


def test_errors_of_encodings_are_not_kept_twice() -> None:
    """No algorithm reads them, and the next upload needs only the newest."""
    home = Home()
    home.keep(0, Trained(EMPTY, 1, EMPTY, Stored(Ref.of(b"error"), {ERROR: 4, FRAME: 9})))
    home = home.informed(told(0, None))
    assert home.combined == home.memory == Stored(Ref.of(b"error"), {ERROR: 4, FRAME: 9})


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


class Answering(Attendant):
    """A device that says what becomes of its answers, each of which takes 10 s."""

    def __init__(self, world: VirtualWorld) -> None:
        unused: Any = Mock()
        super().__init__("a", world, unused, unused, {}, unused)
        self.log: list[str] = []

    def rests(self) -> None:
        self.log.append("rests")

    async def _answer(self, _: Any, parcel: Parcel) -> None:
        round = parcel.header["round"]
        self.log.append(f"begins {round}")
        try:
            await self.world.sleep(10.0)
        except Cancelled:
            self.log.append(f"drops {round}")
            raise
        self.log.append(f"ends {round}")


def asked(round: int) -> Parcel:
    return Parcel.of({"round": round, "counted": None}, EMPTY)


@pytest.mark.parametrize(
    ("heard", "log"),
    [
        ([(0.0, 0)], ["begins 0", "ends 0"]),
        ([(0.0, None)], ["rests"]),
        ([(0.0, 0), (0.0, None)], ["begins 0", "drops 0", "rests"]),
        ([(0.0, 0), (5.0, None)], ["begins 0", "drops 0", "rests"]),
        ([(0.0, 0), (5.0, None), (5.0, None)], ["begins 0", "drops 0", "rests"]),
        ([(0.0, 0), (5.0, None), (5.0, 1)], ["begins 0", "drops 0", "begins 1", "ends 1"]),
        ([(0.0, 0), (5.0, 1)], ["begins 0", "drops 0", "begins 1", "ends 1"]),
        ([(0.0, 0), (5.0, 1), (5.0, None)], ["begins 0", "drops 0", "begins 1", "drops 1", "rests"]),
        ([(0.0, 0), (20.0, None), (30.0, 1)], ["begins 0", "ends 0", "rests", "begins 1", "ends 1"]),
    ],
)
def test_a_device_turns_to_what_it_has_heard_one_thing_after_the_other(
    heard: list[tuple[float, int | None]], log: list[str]
) -> None:
    async def main(world: VirtualWorld) -> list[str]:
        device = Answering(world)
        for at, round in heard:
            world.call_at(at, partial(device.hear, device, None if round is None else asked(round)))
        await world.sleep(100.0)
        return device.log

    world: Any = VirtualWorld(Mock())
    assert asyncio.run(world.run(main(world))) == log


def test_a_device_that_waits_keeps_no_download() -> None:
    """Over sockets a message is all its bytes, and each device has its own."""

    class Bytes:
        ref, sizes = EMPTY.ref, EMPTY.sizes

    class End:
        """A channel with one request, and then none."""

        def __init__(self, world: VirtualWorld) -> None:
            self.world, message = world, Bytes()
            self.alive, self.parcels = (
                weakref.ref(message),
                [Parcel.of({"round": 0, "counted": None}, cast(Any, message))],
            )

        async def receive(self, resting: bool) -> Parcel:
            if not self.parcels:
                await self.world.signal().wait()
            return self.parcels.pop()

    async def main(world: VirtualWorld) -> Any:
        end: Any = End(world)
        world.start(Answering(world).attend(end))
        await world.sleep(1.0)
        assert end.alive()
        await world.sleep(100.0)
        return end.alive()

    world: Any = VirtualWorld(Mock())
    assert asyncio.run(world.run(main(world))) is None
