"""Watches when the devices of open rounds go offline and come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from devices.device import Device
from emulator.conversation.underway import Play, RunFailed
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.worlds.interface import ServerEnd, World

RESTARTS = 10_000  # of one device in one round; a device with more has sessions too short for its work or transfer


class Presences:
    """The watch over the devices of open rounds: records when one goes offline or comes back, and tells its line.

    Only this class decides that a device is offline.  `patient`: True if rounds have no deadline, and so wait for every
    device.  `stragglers`: devices that continue after the close of their round; the server keeps the mapping up to
    date.
    """

    def __init__(
        self,
        world: World,
        fleet: Mapping[str, Device],
        record: Record,
        line: Callable[[str], ServerEnd],
        stragglers: Mapping[str, Play],
        patient: bool,
    ) -> None:
        self.world, self.fleet, self.record, self.line = world, fleet, record, line
        self.stragglers, self.patient = stragglers, patient

    def follow(self, play: Play, names: Sequence[str]) -> None:
        """Starts a task for each of these devices, which this round asks; the task watches when the device is offline.
        Devices that are always online need none."""
        for name in names:
            if not self.fleet[name].presence.always:
                play.watches[name] = self.world.start(self._watch(play, name))

    def gone(self, play: Play, name: str) -> bool:
        """Returns true if, by the record, the device has gone offline and its part in this round is lost.

        The task that asks the device may not have noticed yet.
        """
        trip = self.record.trips[Call(name, play.round.number)]
        return trip.gone or (trip.down is None and name in play.away)

    async def _watch(self, play: Play, name: str) -> None:
        presence, call = self.fleet[name].presence, Call(name, play.round.number)
        off = presence.next_off(self.world.now())
        while off < math.inf:
            await self.world.sleep(max(0.0, off - self.world.now()))
            if not await self._watched(play, call):
                return
            back = presence.next_on(off)
            with self.record.instant():
                self.line(name).settle()
                self.record.off(call)
                play.away.add(name)
                self.line(name).lose(for_good=back == math.inf)
            self._expect_an_end(play, call)
            if back == math.inf:
                return
            await self.world.sleep(max(0.0, back - self.world.now()))
            if not await self._watched(play, call):
                return
            with self.record.instant():
                self.record.on(call)
                play.away.discard(name)
                self.line(name).back()
            off = presence.next_off(back)

    async def _watched(self, play: Play, call: Call) -> bool:
        """Returns true if a device must still be watched: its round is open, or it is still busy after the close.

        Waits while the round closes, which takes milliseconds over sockets, because a change meanwhile would be on
        neither side of the close.
        """
        if play.round.reason is None:
            return True
        await play.written.wait()
        trip = self.record.trips.get(call)
        return trip is not None and trip.busy

    def _expect_an_end(self, play: Play, call: Call) -> None:
        """Raises RunFailed if each awaited device has restarted RESTARTS times or more in its round.

        No online session is then long enough for a device's work or transfer, so that the round would never end.

        In an open round, the awaited devices are those that have not ended; after its close they are the stragglers, if
        no other device is left to ask.
        """
        times = self.record.trips[call].restarts
        if not self.patient or times < RESTARTS:
            return
        awaited: list[Call] = []
        if play.round.reason is None:
            awaited = [Call(name, play.round.number) for name in play.running]
        elif len(self.stragglers) == len(self.fleet):
            awaited = [Call(name, late.round.number) for name, late in self.stragglers.items()]
        if awaited and all(self.record.trips[waiting].restarts >= RESTARTS for waiting in awaited):
            raise RunFailed(
                f"{call.device} went offline {times} times in round {call.round + 1} and began again each time; "
                f"give longer sessions, `when_off: pause`, `transfers: resume`, or a deadline_s"
            )
