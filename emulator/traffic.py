"""Everything in flight: transfers paced by the links that they share, and written down.

Both worlds use it, so both have the same physics; only the clock that drives it differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.record import Record
from emulator.world import Call, Cancelled, Lost, Signal, World
from network.fluid import Fluid
from network.link import Link


class Lane:
    """One direction of the server's link: a fluid state machine, driven by the world's clock."""

    def __init__(self, world: World, capacity: float) -> None:
        self.world = world
        self.fluid = Fluid(capacity)
        self.flights: dict[int, Flight] = {}
        self.alarm = math.inf  # when the clock will next look here

    def open(self, flight: Flight) -> None:
        self.advance()
        self.flights[flight.number] = flight
        self.fluid.open(self.world.now(), flight.number, flight.nbytes, flight.cap)
        # Not at once: the n flights that open at one instant then cost one solution of the rates, not n.
        self._wake_at(self.world.now())

    def close(self, flight: Flight) -> float:
        """Takes it out of the lane; the bytes that had gone through."""
        if self.flights.pop(flight.number, None) is None:
            return float(flight.nbytes) if flight.landed else 0.0
        carried = self.fluid.close(self.world.now(), flight.number)
        self._wake_at(self.world.now())
        return carried

    def carried(self, flight: Flight) -> float:
        """The bytes that have gone through by now."""
        if flight.number in self.flights:
            return self.fluid.carried(self.world.now(), flight.number)
        return float(flight.nbytes) if flight.landed else 0.0

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
    direction: str  # down | up
    nbytes: int
    cap: float  # bytes/s of the device's own link
    lane: Lane
    record: Record
    signal: Signal
    landed: bool = field(default=False)
    over: bool = field(default=False)

    def depart(self) -> None:
        if not self.over:
            self.lane.open(self)

    def carried(self) -> int:
        """Whole bytes that have gone through by now."""
        return math.floor(self.lane.carried(self))

    def land(self) -> None:
        self.landed = self.over = True
        self.record.end(self.direction, self.call)
        self.signal.set()

    def abort(self, why: str) -> None:
        """Cuts it here, because the device goes `off` or the round is `closed`."""
        if self.over:
            return
        self.over = True
        self.record.cut(self.direction, self.call, why, nbytes=math.floor(self.lane.close(self)))
        self.signal.fail(Lost(why))

    async def wait(self) -> None:
        try:
            await self.signal.wait()
        except Cancelled:
            self.abort("closed")
            raise


class Traffic:
    """The transfers of a run, over the server's link and one link per device."""

    def __init__(self, world: World, record: Record, server: Link, links: Mapping[str, Link]) -> None:
        self.world = world
        self.record = record
        self.server = server
        self.links = links
        self.lanes = {"down": Lane(world, server.up), "up": Lane(world, server.down)}
        self.flying: dict[str, Flight] = {}  # by device: a device speaks or listens, one thing at a time
        self.count = 0

    def launch(self, direction: str, call: Call, sizes: Mapping[str, int], reply_to: int | None) -> Flight:
        """Starts a transfer: the latencies of both links, then the bytes at the rate that sharing leaves."""
        link = self.links[call.device]
        self.count += 1
        cap = link.down if direction == "down" else link.up
        flight = Flight(
            self.count,
            call,
            direction,
            sum(sizes.values()),
            cap,
            self.lanes[direction],
            self.record,
            self.world.signal(),
        )
        self.flying[call.device] = flight
        self.record.start(direction, call, sizes, reply_to)
        latency = link.latency + self.server.latency
        if latency > 0:
            self.world.call_at(self.world.now() + latency, flight.depart)
        else:
            flight.depart()
        return flight

    def lose(self, device: str) -> None:
        """The device goes off: what it was sending or receiving is cut at this instant."""
        flight = self.flying.get(device)
        if flight is not None:
            flight.abort("off")
