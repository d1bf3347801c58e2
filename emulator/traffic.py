"""Everything in flight: transfers paced by the links that they share, and written down.

Both worlds use it, so both have the same physics; only the clock that drives it differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from emulator.record import Record
from emulator.world import Call, Cancelled, Lost, Signal, World
from network.flow import Shared, Topology
from network.fluid import Fluid
from network.link import Link
from network.rate import Rate
from network.tcp import Connection, Passage
from network.trace import Direction


class Lane:
    """One direction of all shared links: a fluid state machine, driven by the world's clock."""

    def __init__(self, world: World, capacity: float | Rate, shared: Mapping[str, Shared]) -> None:
        self.world = world
        self.fluid = Fluid(capacity, shared)
        self.flights: dict[int, Flight] = {}
        self.alarm = math.inf  # when the clock will next look here

    def open(self, flight: Flight) -> None:
        self.advance()
        self.flights[flight.number] = flight
        now, passage = self.world.now(), flight.passage
        self.fluid.open(now, flight.number, passage.wire, passage.cap(now), passage.weight, flight.via, passage.link)
        # Not at once: the n flights that open at one instant then cost one solution of the rates, not n.
        self._wake_at(self.world.now())

    def close(self, flight: Flight) -> float:
        """Takes it out of the lane; the bytes that had gone through, on the wire."""
        if self.flights.pop(flight.number, None) is None:
            return float(flight.passage.wire) if flight.landed else 0.0
        carried = self.fluid.close(self.world.now(), flight.number)
        self._wake_at(self.world.now())
        return carried

    def carried(self, flight: Flight) -> float:
        """The bytes that have gone through by now, on the wire."""
        if flight.number in self.flights:
            return self.fluid.carried(self.world.now(), flight.number)
        return float(flight.passage.wire) if flight.landed else 0.0

    def advance(self) -> None:
        for number in self.fluid.advance(self.world.now()):
            self.flights.pop(number).land()  # type: ignore[call-overload]

    def _ring(self) -> None:
        if self.world.now() >= self.alarm:
            self.alarm = math.inf
        self.advance()
        due = self.fluid.next_finish()
        if due < math.inf:
            self._wake_at(due)

    def _wake_at(self, time: float) -> None:
        if time < self.alarm:
            self.alarm = time
            self.world.call_at(time, self._ring)


@dataclass
class Flight:
    """One message on its way.  `await flight.wait()` returns when its last byte has arrived."""

    number: int
    call: Call
    direction: Direction
    nbytes: int
    passage: Passage  # what it costs on the device's own link
    via: str | None  # the shared link that the device is behind
    lane: Lane
    record: Record
    signal: Signal
    leave: Callable[[Connection | None], None]  # the connection as the next flight of the device will find it
    landed: bool = field(default=False)
    over: bool = field(default=False)

    def depart(self) -> None:
        if not self.over:
            self.lane.open(self)

    def carried(self) -> int:
        """Whole bytes of the message that have gone through by now."""
        return self._of_message(self.lane.carried(self))

    def _of_message(self, wire: float) -> int:
        """The headers go with the bytes that they lead."""
        return math.floor(wire * self.nbytes / self.passage.wire) if self.passage.wire else 0

    def land(self) -> None:
        self.landed = self.over = True
        self.leave(self.passage.after(self.lane.world.now()))
        self.record.end(self.direction, self.call)
        self.signal.set()

    def abort(self, why: str) -> None:
        """Cuts it here, because the device goes `off` or the round is `closed`."""
        if self.over:
            return
        self.over = True
        self.leave(None)  # who breaks off a message must open a new connection
        self.record.cut(self.direction, self.call, why, nbytes=self._of_message(self.lane.close(self)))
        self.signal.fail(Lost(why))

    async def wait(self) -> None:
        try:
            await self.signal.wait()
        except Cancelled:
            self.abort("closed")
            raise


class Traffic:
    """The transfers of a run, over the server's link, the links that devices share, and one link per device.

    `place` gives a device's place in its traces, as a share of their length.
    """

    def __init__(
        self,
        world: World,
        record: Record,
        server: Link,
        links: Mapping[str, Link],
        topology: Topology | None = None,
        place: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self.world = world
        self.record = record
        self.server = server
        self.links = links
        self.place = place
        shared = topology or {}
        self.lanes: dict[Direction, Lane] = {
            "down": Lane(world, server.up, shared.get("down", {})),
            "up": Lane(world, server.down, shared.get("up", {})),
        }
        self.started: dict[str, Link] = {}  # devices' links, at their places in the traces
        self.connections: dict[str, Connection] = {}  # by device, those that are open
        self.flying: dict[str, Flight] = {}  # by device: a device speaks or listens, one thing at a time
        self.count = 0

    def launch(self, direction: Direction, call: Call, sizes: Mapping[str, int], reply_to: int | None) -> Flight:
        """Starts a transfer: round trips first, then the bytes at the rate that sharing leaves."""
        device, now, nbytes = call.device, self.world.now(), sum(sizes.values())
        link = self._link(device)
        passage = link.passage(direction, nbytes, now, self.server.latency, self.connections.get(device))
        self.count += 1
        flight = Flight(
            self.count,
            call,
            direction,
            nbytes,
            passage,
            link.via,
            self.lanes[direction],
            self.record,
            self.world.signal(),
            lambda connection: self._leave(device, connection),
        )
        self.flying[device] = flight
        setup = max(0.0, passage.delay - link.latency - self.server.latency) if link.tcp.model == "tcp" else 0.0
        self.record.start(direction, call, sizes, reply_to, setup, passage.wire)
        if passage.delay > 0:
            self.world.call_at(now + passage.delay, flight.depart)
        else:
            flight.depart()
        return flight

    def lose(self, device: str) -> None:
        """The device goes off: what it was sending or receiving is cut at this instant."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is not None:
            flight.abort("off")

    def _link(self, device: str) -> Link:
        if device not in self.started:
            link = self.links[device]
            self.started[device] = link.starting(self.place(device)) if link.varies else link
        return self.started[device]

    def _leave(self, device: str, connection: Connection | None) -> None:
        if connection is None:
            self.connections.pop(device, None)
        else:
            self.connections[device] = connection
