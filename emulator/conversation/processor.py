"""One device's processor: it heats up under load, cools down at rest, and stops when the device goes offline."""

from __future__ import annotations

from devices.device import Profile
from devices.thermal import COLD
from emulator.lab.jobs import Trained
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.record.tally import Bill
from emulator.worlds.interface import Cancelled, Signal, Ticket, World

IDLE = Bill()  # of a device that does nothing; nobody adds to it
SAME = 1e-9  # two factors of throttling that differ by rounding only


class Bench:
    """Does one piece of work at a time.  `when_off` (lose | pause | restart) says what becomes of the work when the
    device goes offline for a while."""

    def __init__(self, world: World, record: Record, profile: Profile, when_off: str = "lose") -> None:
        self.world = world
        self.record = record
        self.profile = profile
        self.when_off = when_off
        self.heat = COLD  # as it was when the load began, or ended
        self.call: Call | None = None  # whose work this is
        self.bill = IDLE  # of what it does; of what is left while the device is away
        self.due = 0.0  # when what an absence has put off will be done
        self.away: Signal | None = None  # the device is off for a while; set when it is back

    async def do(self, call: Call, bill: Bill, ticket: Ticket) -> Trained:
        """The result, once the work is done.  Raises Cancelled if it is stopped, or was lost."""
        self.load(call, bill)
        try:
            done: Trained = await self.world.work(self.bill.total_seconds, ticket)
            await self._catch_up()
        except Cancelled:
            self.cut("closed")
            raise
        if self.call is None:
            raise Cancelled("off")
        self.call = None
        self.heat = self.profile.throttle.loaded(self.heat, self.record.now())
        self.record.compute_end(call, done.upload.ref.short)
        return done

    def load(self, call: Call, bill: Bill) -> None:
        """Starts a piece of work at the device's present temperature."""
        throttle, now, cold = self.profile.throttle, self.record.now(), bill.cold_seconds
        heat = throttle.rested(self.heat, now)
        throttled = throttle.seconds(heat, cold) / cold if cold else 1.0
        # Recorded work that is done again at the same heat is what it was, to the last bit.
        self.bill = bill if abs(throttled - bill.throttled) <= SAME else bill.on_hot(throttled)
        self.call, self.heat, self.due = call, heat, now + self.bill.total_seconds
        self.record.compute_start(call, self.bill, self.profile.fastest, now)

    def suspend(self, told: bool) -> bool:
        """The device goes offline for a while.  Returns whether the work that it does, or was `told` to do, goes on
        when the device is back."""
        if self.when_off == "lose" or not (told or self.call):
            return False
        if self.call:
            done = self._stop(self.call, "off", self.when_off)
            if self.when_off == "pause":
                self.bill = self.bill.part(1 - done)
        self.away = self.world.signal()
        return True

    def go_on(self) -> None:
        """The device is back, or it is known to be online because it is asked."""
        if self.away:
            if self.call:
                self.load(self.call, self.bill)
            self.away.set()
            self.away = None

    def cut(self, why: str) -> bool:
        """Ends the work for good.  Returns whether there was any."""
        call, self.call = self.call, None
        if call and not self.away:  # else it was cut as the device went off
            self._stop(call, why)
        self.away = None
        return call is not None

    async def present(self) -> None:
        """Returns when the device is online."""
        if self.away:
            await self.away.wait()

    def _stop(self, call: Call, why: str, then: str | None = None) -> float:
        """The device rests from now on; what share of the work is done.  Under heat early seconds do more."""
        with self.record.instant():
            throttle, now, cold = self.profile.throttle, self.record.now(), self.bill.cold_seconds
            done = min(1.0, throttle.done(self.heat, now - self.heat.at) / cold) if cold else 0.0
            self.record.compute_cut(call, why, done, then)
            self.heat = throttle.loaded(self.heat, now)
        return done

    async def _catch_up(self) -> None:
        """Returns when what absences have put off is done as well."""
        while self.away or self.world.now() < self.due:
            if self.away:
                await self.away.wait()
            else:
                await self.world.sleep(self.due - self.world.now())
