"""One device's processor: it heats up under load, cools down at rest, and stops when the device goes offline."""

from __future__ import annotations

from devices.device import Profile
from devices.thermal import COLD
from emulator.lab.training import Trained
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.record.tally import Bill
from emulator.worlds.interface import Cancelled, Signal, Ticket, World

IDLE = Bill()  # the bill of an idle device
SAME = 1e-9  # smaller differences of two throttling factors are rounding


class Bench:
    """The processor of one device, which does one piece of work at a time.

    `when_off` (lose | pause | restart): what happens to the work if the device is offline for a while.
    """

    def __init__(self, world: World, record: Record, profile: Profile, when_off: str = "lose") -> None:
        self.world = world
        self.record = record
        self.profile = profile
        self.when_off = when_off
        self.heat = COLD  # at the last start or end of load
        self.call: Call | None = None  # the device-round of the current work
        self.bill = IDLE  # bill of the current work; while the device is away, of the rest
        self.due = 0.0  # time at which work delayed by an absence will be done
        self.away: Signal | None = None  # while the device is off; set when it is back

    async def do(self, call: Call, bill: Bill, ticket: Ticket) -> Trained:
        """Lets the modelled time of the work pass, and returns the result of the real training, `ticket`.

        Raises Cancelled if the work is stopped, or if it was lost because the device went offline.
        """
        self.load(call, bill)
        try:
            done: Trained = await self.world.work(self.bill.total_seconds, ticket)
            while self.away or self.world.now() < self.due:  # absences have delayed the work
                if self.away:
                    await self.away.wait()
                else:
                    await self.world.sleep(self.due - self.world.now())
        except Cancelled:
            self.cut("closed")
            raise
        if self.call is None:
            raise Cancelled("off")
        self.call = None
        self.heat = self.profile.throttle.loaded(self.heat, self.record.now())
        self.record.compute_end(call, done.upload.ref.short, done.loss)
        return done

    def load(self, call: Call, bill: Bill) -> None:
        """Starts a piece of work, as fast as the device's present temperature allows, and records its start."""
        throttle, now, cold = self.profile.throttle, self.record.now(), bill.cold_seconds
        heat = throttle.rested(self.heat, now)
        throttled = throttle.seconds(heat, cold) / cold if cold else 1.0
        # Recorded work that is repeated at the same heat keeps its bill to the last bit.
        self.bill = bill if abs(throttled - bill.throttled) <= SAME else bill.on_hot(throttled)
        self.call, self.heat, self.due = call, heat, now + self.bill.total_seconds
        self.record.compute_start(call, self.bill, self.profile.fastest, now)

    def suspend(self, told: bool) -> bool:
        """Interrupts the work, because the device goes offline for a while.  `told`: it has a request, not yet begun.

        Returns true if the work, begun or not, continues when the device is back.  Otherwise changes nothing, and
        returns False: the device has no work, or loses it.
        """
        if self.when_off == "lose" or not (told or self.call):
            return False
        if self.call:
            done = self._stop(self.call, "off", self.when_off)
            if self.when_off == "pause":
                self.bill = self.bill.part(1 - done)
        self.away = self.world.signal()
        return True

    def go_on(self) -> None:
        """Continues the interrupted work, if any, because the device is online again."""
        if self.away:
            if self.call:
                self.load(self.call, self.bill)
            self.away.set()
            self.away = None

    def cut(self, why: str) -> bool:
        """Ends the current work for good; `why` is the reason in the record.  Returns true if there was any work."""
        call, self.call = self.call, None
        if call and not self.away:  # otherwise the absence has cut it already
            self._stop(call, why)
        self.away = None
        return call is not None

    async def present(self) -> None:
        """Waits until the device is online; returns at once if it is."""
        if self.away:
            await self.away.wait()

    def _stop(self, call: Call, why: str, then: str | None = None) -> float:
        """Records that the work stops, and returns the share of it that is done, 0 to 1.

        On a device that heats up, early seconds do more than late ones.
        """
        with self.record.instant():
            throttle, now, cold = self.profile.throttle, self.record.now(), self.bill.cold_seconds
            done = min(1.0, throttle.done(self.heat, now - self.heat.at) / cold) if cold else 0.0
            self.record.compute_cut(call, why, done, then)
            self.heat = throttle.loaded(self.heat, now)
        return done
