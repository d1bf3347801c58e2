"""The line, which is the channel for messages between the server and one device.

Line is the part that is common to virtual time and sockets; MemoryLine is the line within one process.
"""

from __future__ import annotations

from typing import Any

from emulator.conversation.device import Attendant
from emulator.conversation.traffic import Flight, Traffic
from emulator.record.call import Call
from emulator.worlds.interface import Cancelled, Lost, Parcel, Signal, Unread, World
from network.links.trace import Direction

BROKEN = "broken"  # the reason of a cut, in the record
LOST, UNREAD = object(), object()  # in place of a parcel: the transfer was cut before, or after, its last byte


class Inbox:
    """A queue of items that have arrived and are not read yet.  It has one reader; a cancelled `get` takes no item."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.items: list[Any] = []  # rarely more than one
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
    """The server's end of the line to one device (worlds/interface.py, ServerEnd).

    Subclasses deliver to the device what it must hear: requests, orders to stop, and the loss of its work.
    """

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
        """Gives the device a parcel that has arrived, None to stop its work, or LOST because it has gone offline."""
        raise NotImplementedError

    def rests(self) -> None:
        """Notes that the device has nothing more to do, so that a waiting `rest` returns."""
        self.resting = True
        if self.rested:
            self.rested.set()
            self.rested = None

    def replied(self, parcel: Parcel) -> None:
        """Queues a reply that has arrived, for `receive`.  If it answers the last request, the device has nothing
        more to do."""
        self.traffic.flying.pop(self.name, None)  # one reply for each request
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
        self.attendant.vanish()  # power and radio end at this instant, even if the device has yet to hear of it
        if self._landed("up"):  # the server has the whole reply, and is about to read it
            return
        self.push(LOST)
        if self.replies.reader:
            self.replies.put(LOST)

    def broken(self) -> None:
        """Handles a connection that has ended while the device is online: the transfer and the work under way are
        lost."""
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
        """Returns true if the last transfer went in this direction and its last byte has arrived.

        For "down", the device then has the whole request and has not begun its reply.  For "up", the server has the
        whole reply and has not read it.
        """
        flight = self.traffic.flying.get(self.name)
        return flight is not None and flight.landed and flight.direction == direction

    async def fly(self, flight: Flight) -> None:
        """Waits until the last byte of a transfer has arrived.  Raises Lost if the device has gone offline."""
        await flight.wait()
        if self.attendant.off:  # the device went offline at the instant of the last byte
            raise Lost("off")

    def launch(self, direction: Direction, parcel: Parcel) -> Flight:
        """Starts the transfer of a parcel and returns the transfer.

        The record notes the round that the parcel replies to: for a download the last round in which the device's reply
        counted (`counted` in the header), for an upload the round of its request.
        """
        number = parcel.header["round"]
        if direction == "down":
            self.asked = number
            self.attendant.asked()
        reply_to = parcel.header["counted"] if direction == "down" else number
        assert isinstance(number, int)
        assert isinstance(reply_to, int | None)
        return self.traffic.launch(direction, Call(self.name, number), parcel.sizes, reply_to)


class MemoryLine(Line):
    """A line with both ends in one process: transfers take modelled time, but no bytes are copied.

    `device` is the device's end.
    """

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
    """The device's end of a MemoryLine (worlds/interface.py, CallingEnd)."""

    def __init__(self, line: MemoryLine) -> None:
        self.line = line

    async def send(self, parcel: Parcel) -> None:
        await self.line.launch("up", parcel).wait()
        self.line.replied(parcel)

    def rests(self) -> None:
        self.line.rests()
