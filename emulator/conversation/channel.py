"""The line between the server and one device: what all lines have in common, and the line within one process."""

from __future__ import annotations

from typing import Any

from emulator.conversation.device import Attendant
from emulator.conversation.traffic import Flight, Traffic
from emulator.record.call import Call
from emulator.worlds.interface import Cancelled, Lost, Parcel, Signal, Unread, World
from network.links.trace import Direction

BROKEN = "broken"  # in the record: why something was cut
LOST, UNREAD = object(), object()  # in place of a parcel: the way was cut here, before or after its last byte


class Inbox:
    """A queue of items that have arrived and are not read yet.  A reader that is cancelled takes no item with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.items: list[Any] = []  # seldom more than one
        self.reader: Signal | None = None

    def put(self, item: Any) -> None:
        self.items.append(item)
        if self.reader:
            self.reader.set()
            self.reader = None

    async def get(self) -> Any:
        while not self.items:
            self.reader = self.world.signal()
            try:
                await self.reader.wait()
            except Cancelled:
                self.reader = None
                raise
        item = self.items.pop(0)
        if item is LOST:
            raise Lost("off")
        if item is UNREAD:
            raise Unread
        return item


class Line:
    """The server's end of a line (interface.ServerEnd).  A subclass says how a parcel, a stop or a loss reaches the
    device."""

    def __init__(self, world: World, traffic: Traffic, attendant: Attendant) -> None:
        self.world = world
        self.traffic = traffic
        self.attendant = attendant
        self.name = attendant.name
        self.replies = Inbox(world)
        self.asked: object = None  # the round of the last request
        self.resting = True  # the device has nothing to do
        self.rested: Signal | None = None

    async def send(self, parcel: Parcel) -> None:
        raise NotImplementedError

    def push(self, item: Any) -> None:
        """Gives the device a parcel that has arrived, None for stop, or LOST."""
        raise NotImplementedError

    def rests(self) -> None:
        """The device says that it has nothing more to do."""
        self.resting = True
        if self.rested:
            self.rested.set()
            self.rested = None

    def replied(self, parcel: Parcel) -> None:
        """A reply has arrived.  The device is done if the reply answers the last request."""
        self.traffic.flying.pop(self.name, None)  # it is answered once
        self.replies.put(parcel)
        if parcel.header["round"] == self.asked:
            self.rests()

    async def receive(self) -> Parcel:
        parcel: Parcel = await self.replies.get()
        return parcel

    async def stop(self) -> None:
        if not self.resting:
            self.push(None)
        await self.rest()

    async def rest(self) -> None:
        if not self.resting:
            self.rested = self.world.signal()
            await self.rested.wait()

    def settle(self) -> None:
        self.traffic.settle(self.name)

    def lose(self, for_good: bool = True) -> None:
        if not for_good and (self.traffic.suspend(self.name) or self.attendant.bench.suspend(self._landed("down"))):
            return
        self.traffic.lose(self.name)
        self.attendant.vanish()  # power and radio go at this instant, whatever the device has been told
        if self._landed("up"):  # the server has all of its reply, and will have read it in a moment
            return
        self.push(LOST)
        if self.replies.reader:
            self.replies.put(LOST)

    def broken(self) -> None:
        """The connection has ended, though the device has not gone offline: what is under way is lost."""
        if self.attendant.off or self.resting:
            return
        if flight := self.traffic.flying.get(self.name):
            flight.abort(BROKEN)
        self.attendant.vanish(BROKEN)
        if self.replies.reader:
            self.replies.put(UNREAD if self._landed("up") else LOST)

    def back(self) -> None:
        self.traffic.go_on(self.name)
        self.attendant.bench.go_on()

    def _landed(self, direction: Direction) -> bool:
        """Down: the device has all of a request, and has sent nothing of its reply.  Up: of that, nothing was read."""
        flight = self.traffic.flying.get(self.name)
        return flight is not None and flight.landed and flight.direction == direction

    async def fly(self, flight: Flight) -> None:
        """Returns when the parcel has arrived at a device that is still there."""
        await flight.wait()
        if self.attendant.off:  # it went in the very instant of the last byte
            raise Lost("off")

    def launch(self, direction: Direction, parcel: Parcel) -> Flight:
        """Starts a parcel's transfer.  A download acknowledges the round `counted`; an upload answers its `round`."""
        number = parcel.header["round"]
        if direction == "down":
            self.asked = number
            self.attendant.asked()
        reply_to = parcel.header["counted"] if direction == "down" else number
        assert isinstance(number, int)
        assert not isinstance(reply_to, str)
        return self.traffic.launch(direction, Call(self.name, number), parcel.sizes, reply_to)


class MemoryLine(Line):
    """A line with both ends in one process: bytes are charged for and not copied.  `device` is the device's end."""

    def __init__(self, world: World, traffic: Traffic, attendant: Attendant) -> None:
        super().__init__(world, traffic, attendant)
        self.device = MemoryEnd(self)

    async def send(self, parcel: Parcel) -> None:
        self.attendant.take(parcel)  # the bytes are known, so training starts while they travel
        try:
            await self.fly(self.launch("down", parcel))
        except (Cancelled, Lost):
            self.attendant.drop()
            raise
        self.resting = False
        self.push(parcel)

    def push(self, item: Any) -> None:
        self.attendant.hear(self.device, None if item is LOST else item)


class MemoryEnd:
    """The device's end of a MemoryLine (interface.DeviceEnd)."""

    def __init__(self, line: MemoryLine) -> None:
        self.line = line

    async def send(self, parcel: Parcel) -> None:
        await self.line.launch("up", parcel).wait()
        self.line.replied(parcel)

    def rests(self) -> None:
        self.line.rests()
