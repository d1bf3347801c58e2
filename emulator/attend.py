"""The device's half of the conversation, written once for both worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from devices.device import Profile
from devices.thermal import COLD
from emulator.costs import Costs
from emulator.jobs import Run, Trained, train
from emulator.record import Record
from emulator.tally import Bill
from emulator.world import Call, Cancelled, DeviceEnd, Lost, Parcel, Signal, Ticket, World
from network import payload

NOTHING = payload.encode({})
SAME = 1e-9  # two factors of throttling that differ by rounding only


@dataclass
class Home:
    """What a device keeps between rounds.

    What it may keep only once its upload has been counted waits here, with its round.  Each request names
    the last counted round of this device, so that an acknowledgement that was lost heals.
    """

    memory: bytes = NOTHING
    pending: tuple[int, bytes] | None = None
    entered: tuple[int, bytes] | None = None  # the last round that it was asked in, and the memory that it came with

    def before(self, round: int, counted: int | None) -> bytes:
        """The memory that this round, of which `counted` would be acknowledged, finds or found."""
        if self.entered and self.entered[0] == round:
            return self.entered[1]
        return self.after(counted)

    def after(self, counted: int | None) -> bytes:
        """The memory once the device has heard that `counted` was its last counted round."""
        return self.pending[1] if self.pending and self.pending[0] == counted else self.memory

    def settle(self, counted: int | None) -> None:
        """Commits or drops what was pending."""
        self.memory, self.pending = self.after(counted), None

    def keep(self, round: int, done: Trained) -> None:
        self.memory = done.kept
        if done.kept_if_counted is not None:
            self.pending = (round, done.kept_if_counted)


Notes = dict[Call, Trained]  # what devices measured, for the report only: it is never sent and changes nothing


class Attendant:
    """One device: it answers requests, one at a time, until the run ends."""

    def __init__(
        self,
        name: str,
        run: Run,
        world: World,
        costs: Costs,
        record: Record,
        notes: Notes,
        measured: Callable[[int], bool],
        when_off: str = "lose",
    ) -> None:
        self.name = name
        self.run = run
        self.world = world
        self.costs = costs
        self.record = record
        self.notes = notes
        self.measured = measured  # in which rounds the trained model is tried on the device's own test shard
        self.home = Home()
        self.ticket: tuple[int, Ticket] | None = None  # round, its training
        self.refusal: tuple[int, str] | None = None  # round, why it cannot take part
        self.computing: Call | None = None
        self.off = False  # it has gone off line since it was last asked
        self.heat = COLD
        self.when_off = when_off  # lose | pause | restart: what becomes of computing when it goes off
        self.bill = Bill()  # of what it computes
        self.due = 0.0  # when what an absence has put off will be done
        self.paused: Signal | None = None  # set when it is back

    @property
    def profile(self) -> Profile:
        return self.costs.study.fleet[self.name].profile

    async def attend(self, channel: DeviceEnd) -> None:
        """Answers one request after the other.  Never returns: the world's end ends it."""
        parcel = await self._rest(channel)
        while True:
            work = self.world.start(self._answer(channel, parcel))
            try:
                following = await channel.receive(resting=False)
            except Lost:
                following = None
            await work.cancel()
            parcel = following or await self._rest(channel)

    def take(self, parcel: Parcel) -> None:
        """Starts the real training for this request; its inputs are fixed now, whenever the bytes will arrive."""
        round, counted = parcel.header["round"], parcel.header["counted"]
        assert isinstance(round, int)
        assert not isinstance(counted, str)
        self.home.settle(counted)
        self.home.entered = (round, self.home.memory)
        if why := self._refusal(round, parcel):
            self.refusal = (round, why)
            return
        ticket = self.world.submit(
            train, self.run, self.name, round, parcel.body, self.home.memory, self.measured(round)
        )
        self.ticket = (round, ticket)

    def drop(self) -> None:
        """The request will not arrive, or its work is stopped."""
        if self.ticket:
            self.ticket[1].cancel()
            self.ticket = None

    def vanish(self) -> None:
        """It goes off line now: it computes no more, and what it was doing it will not go on with."""
        self.off = True
        self._cut("off")

    def suspend(self) -> bool:
        """It goes off line for a while; whether it was computing, and will go on when it is back."""
        if self.computing is None or self.when_off == "lose":
            return False
        done = self.record.compute_cut(self.computing, "off", self.when_off)
        self.heat = self.profile.throttle.loaded(self.heat, self.world.now())
        if self.when_off == "pause":
            self.bill = self.bill.part(1 - done)
        self.paused = self.world.signal()
        return True

    def go_on(self) -> None:
        """It is back."""
        if self.paused and self.computing:
            self._load(self.computing, self.bill)
            self.due = self.world.now() + self.bill.total_seconds
            self.paused.set()
            self.paused = None

    async def _rest(self, channel: DeviceEnd) -> Parcel:
        while True:
            try:
                parcel = await channel.receive(resting=True)
            except Lost:
                continue
            if parcel is not None:
                return parcel

    async def _answer(self, channel: DeviceEnd, parcel: Parcel) -> None:
        round = parcel.header["round"]
        assert isinstance(round, int)
        if self.off:
            return
        if not any(taken and taken[0] == round for taken in (self.ticket, self.refusal)):
            self.take(parcel)
        if self.refusal and self.refusal[0] == round:
            await self._send(channel, {"round": round, "examples": 0, "refusal": self.refusal[1]}, NOTHING)
            return
        assert self.ticket
        call, ticket = Call(self.name, round), self.ticket[1]
        done = await self._compute(call, parcel, ticket)
        self.ticket = None
        self.home.keep(round, done)
        self.notes[call] = done
        await self._send(channel, {"round": round, "examples": done.examples}, done.upload)

    @staticmethod
    async def _send(channel: DeviceEnd, header: dict[str, int | str | None], body: bytes) -> None:
        try:
            await channel.send(Parcel.of(header, body))
        except Lost:
            pass  # the record says so, and the server knows

    def _refusal(self, round: int, parcel: Parcel) -> str | None:
        """Why it cannot take part: its memory is too small for what it would have to hold at once."""
        downloaded, kept = _tensors(parcel.sizes), _tensors(payload.sizes_of(self.home.memory))
        return self.costs.refusal(self.name, round, downloaded, kept)

    async def _compute(self, call: Call, parcel: Parcel, ticket: Ticket) -> Trained:
        kinds = parcel.sizes.keys() - {"frame"}
        memory = payload.sizes_of(self.home.memory).keys() - {"frame"}
        self._load(call, self.costs.device(self.name, call.round, kinds, memory))
        self.computing, self.due, self.paused = call, 0.0, None
        try:
            done: Trained = await self.world.work(self.bill.total_seconds, ticket)
            await self._catch_up()
        except Cancelled:
            self._cut("closed")
            raise
        if self.computing is None:
            raise Cancelled("off")
        self._cool()
        self.record.compute_end(call, done.update)
        return done

    def _load(self, call: Call, bill: Bill) -> None:
        self.bill = self._warm(bill)
        self.record.compute_start(call, self.bill, self.profile.fastest)

    async def _catch_up(self) -> None:
        """Returns when what absences have put off is done as well."""
        while self.paused or self.world.now() < self.due:
            if self.paused:
                await self.paused.wait()
            else:
                await self.world.sleep(self.due - self.world.now())

    def _warm(self, bill: Bill) -> Bill:
        """What the work takes on this device as hot as it is; it is under load from now on."""
        throttle, now, cold = self.profile.throttle, self.world.now(), bill.cold_seconds
        seconds, _ = throttle.load(self.heat, now, cold)
        self.heat = throttle.rested(self.heat, now)
        throttled = seconds / cold if cold else 1.0
        # Recorded work that is done again at the same heat is what it was, to the last bit.
        return bill if abs(throttled - bill.throttled) <= SAME else bill.on_hot(throttled)

    def _cool(self) -> None:
        """Its work has ended, or was cut: it rests from now on."""
        self.computing = None
        self.heat = self.profile.throttle.loaded(self.heat, self.world.now())

    def _cut(self, why: str) -> None:
        if self.computing:
            if self.paused:  # it is off, and was cut as it went
                self.computing = self.paused = None
            else:
                self.record.compute_cut(self.computing, why)
                self._cool()
            self.drop()


def _tensors(sizes: Mapping[str, int]) -> dict[str, int]:
    return {kind: size for kind, size in sizes.items() if kind != payload.FRAME}
