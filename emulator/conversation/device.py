"""A device's half of a round: it takes requests, trains and replies, in virtual time and over real sockets alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from algorithms.networks import KEPT
from emulator.conversation.processor import Bench
from emulator.conversation.trainings import Trainings
from emulator.lab.training import Learnt, Trained
from emulator.messages.codec import ERROR
from emulator.messages.store import EMPTY, Ref, Stored
from emulator.pricing.charges import Charges
from emulator.record.call import Call, place
from emulator.record.work import TRAINING
from emulator.worlds.interface import CallingEnd, Cancelled, DeviceEnd, Lost, Parcel, Task, Ticket, WaitingEnd, World
from network.wire import envelope
from network.wire.form import FRAME

NO_STATE = {ERROR, FRAME, KEPT}  # kinds in a device's memory that no algorithm has put there


@dataclass
class Home:
    """The memory, a message of tensors, that a device keeps between rounds.

    An algorithm may give the device another memory in case its upload counts.  That memory is pending, with its round,
    until the next request.  Each request names the last round in which this device's upload counted, so a lost
    acknowledgement does no harm.

    A request may come with a model that lacks replies which have counted, because their round is still open; it then
    names the last one that the model has, too.  Until a model has them all, the device also keeps its memory as of that
    reply, for an algorithm that takes the device's own part out of what it receives.
    """

    memory: Stored = EMPTY
    pending: tuple[int, Stored] | None = None
    entered: tuple[int, Stored] | None = None  # the last round that asked the device, and `combined` as that began
    earlier: tuple[tuple[int, Stored], ...] = ()  # rounds that counted, and the memory before each of them did

    @property
    def combined(self) -> Stored:
        """The memory as of the device's last reply that the last model has."""
        return self.earlier[0][1] if self.earlier else self.memory

    @property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of all that the device keeps, by kind."""
        if not self.earlier:
            return self.memory.sizes
        return sum((Counter(kept.sizes) for _, kept in self.earlier), Counter(self.memory.sizes))

    def before(self, round: int, counted: int | None) -> Stored:
        """Returns the memory with which the device entered this round.

        If this round was not the last that asked the device, returns the memory that the device has after it hears that
        `counted` was the last round in which its upload counted.
        """
        if self.entered and self.entered[0] == round:
            return self.entered[1]
        return self.after(counted)

    def after(self, counted: int | None) -> Stored:
        """Returns the memory that the device has after it hears that `counted` was the last round in which its
        upload counted (None: there was none)."""
        if self.pending and self.pending[0] == counted:
            return self.pending[1]
        undone = (kept for round, kept in self.earlier if _later(round, counted))  # their round has failed
        return next(undone, self.memory)

    def informed(self, header: envelope.Header) -> Home:
        """Returns what the device keeps after it hears, in a request with this header, which of its replies counted and
        which of these the model has.  What was pending is then the memory, or it is dropped."""
        counted = header["counted"]
        combined = header.get("combined", counted)
        assert not isinstance(counted, str | float)
        assert not isinstance(combined, str | float)
        memory, earlier = self.after(counted), self.earlier
        if self.pending and self.pending[0] == counted and memory.sizes.keys() - NO_STATE:
            earlier = *earlier, (self.pending[0], self.memory)
        lacking = tuple(each for each in earlier if _later(each[0], combined) and not _later(each[0], counted))
        # The next model has all of these but perhaps the newest, so those between are not needed again.
        return Home(memory, entered=self.entered, earlier=(*lacking[:1], *lacking[1:][-1:]))

    def inputs(self, parcel: Parcel) -> tuple[Ref, Ref, Ref]:
        """Returns what the training for a request reads: the download, the memory, and `combined`."""
        return parcel.message.ref, self.memory.ref, self.combined.ref

    def keep(self, round: int, done: Trained) -> None:
        self.memory = done.kept
        if done.kept_if_counted is not None:
            self.pending = (round, done.kept_if_counted)


def _later(round: int, other: int | None) -> bool:
    """Returns true if a device was asked in `round` after it had been asked in the `other` (None: never)."""
    return other is None or place(round) > place(other)


Notes = dict[Call, Learnt]


class Attendant:
    """One device, which answers one request at a time until the run ends."""

    def __init__(
        self,
        name: str,
        world: World,
        costs: Charges,
        bench: Bench,
        notes: Notes,
        trainings: Trainings,
    ) -> None:
        self.name = name
        self.world = world
        self.costs = costs
        self.bench = bench
        self.notes = notes
        self.trainings = trainings
        self.home = Home()
        self.ticket: tuple[int, Ticket] | None = None  # (round, its training)
        self.refusal: tuple[int, str] | None = None  # (round, why the device cannot take part)
        self.off = False  # offline since it was last asked
        self.work: Task | None = None  # its answer to the last request
        self.heard: list[Parcel | None] = []  # requests and stops (None) that wait for the end of that answer

    def hear(self, channel: CallingEnd, parcel: Parcel | None) -> None:
        """Takes what has arrived for the device: a request, or None, which orders the device to stop its work.

        An idle device starts to answer a request at once.  Everything else waits in `heard` for its turn.
        """
        if parcel and not self.heard and (self.work is None or self.work.ended):
            self.work = self.world.start(self._answer(channel, parcel), soon=False)
            return
        self.heard.append(parcel)
        if len(self.heard) == 1:
            self.world.start(self._heed(channel), soon=False)

    async def _heed(self, channel: CallingEnd) -> None:
        """Handles the waiting requests and orders to stop, in order.

        Tells the line that the device rests if the last of them was an order to stop.
        """
        while self.heard:
            await self._turn_to(channel, self.heard[0])
            if self.heard.pop(0) is None and not self.heard:
                channel.rests()

    async def attend(self, channel: WaitingEnd) -> None:
        """Receives requests and orders to stop, and handles each, until the end of the run cancels this coroutine."""
        resting = True
        while True:
            try:
                parcel = await channel.receive(resting)
            except Lost:
                parcel = None
            await self._turn_to(channel, parcel)
            resting, parcel = parcel is None, None  # a waiting device keeps no download

    async def _turn_to(self, channel: DeviceEnd, parcel: Parcel | None) -> None:
        """Cancels the current answer, waits for its end, and then starts to answer `parcel`, unless that is None."""
        if self.work:
            await self.work.cancel()
        self.work = self.world.start(self._answer(channel, parcel)) if parcel else None

    def take(self, parcel: Parcel) -> None:
        """Starts the real training for this request, or notes why the device cannot take part.

        The inputs of the training are fixed now, before the bytes of the request arrive.
        """
        round = parcel.header["round"]
        assert isinstance(round, int)
        self.home = self.home.informed(parcel.header)
        self.home.entered = (round, self.home.combined)
        duty = self.costs.duty(self.name, round, parcel.sizes, self.home.sizes)
        if duty:
            self.bench.record.duty(Call(self.name, round), duty)
        if why := self.costs.refusal(self.name, round, duty):
            self.refusal = (round, why)
            self.trainings.forget(self.name)
            return
        ticket = self.trainings.start(self.name, round, self.home.inputs(parcel))
        self.ticket = (round, ticket)

    def drop(self) -> None:
        """Cancels the submitted training, if any, because its request will not arrive or its work is stopped."""
        if self.ticket:
            self.ticket[1].cancel()
            self.ticket = None

    def vanish(self, why: str = "off") -> None:
        """Stops the device's work for good, because it goes offline or its connection ends; `why` is the reason in
        the record."""
        self.off = True
        if self.bench.cut(why):
            self.drop()

    def asked(self) -> None:
        """Notes that the server sends a request to the device, so the device is online."""
        self.off = False
        self.bench.go_on()

    async def _answer(self, channel: DeviceEnd, parcel: Parcel) -> None:
        round = parcel.header["round"]
        assert isinstance(round, int)
        if self.off:
            return
        if not any(taken and taken[0] == round for taken in (self.ticket, self.refusal)):
            self.take(parcel)
        await self.bench.present()
        if self.refusal and self.refusal[0] == round:
            await self._send(channel, {"round": round, "examples": 0, "refusal": self.refusal[1]}, EMPTY)
            return
        assert self.ticket
        call, ticket = Call(self.name, round), self.ticket[1]
        bill = self.costs.device(self.name, round, parcel.sizes, self.home.memory.sizes)
        try:
            done = await self.bench.do(call, bill, ticket)
        except Cancelled:
            ticket.cancel()
            raise
        self.ticket = None
        self.home.keep(round, done)
        self.notes[call] = done.learnt
        told = {} if done.loss is None else {"loss": done.loss}
        if self.costs.lab.tells_steps(self.trainings.run.label):
            told["steps"] = bill.steps[TRAINING]
        await self._send(channel, {"round": round, "examples": done.examples, **told}, done.upload)

    @staticmethod
    async def _send(channel: DeviceEnd, header: envelope.Header, message: Stored) -> None:
        try:
            await channel.send(Parcel.of(header, message))
        except Lost:
            pass  # the record has the reason, and the server knows
