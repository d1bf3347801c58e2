"""Everything in flight: transfers paced by the links that they share, and written down.

Both worlds use it, so both have the same physics; only the clock that drives it differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from emulator.record import Record
from emulator.world import Call, Cancelled, Lost, Signal, World
from network.flow import Shared, Topology
from network.fluid import Fluid
from network.link import Link
from network.rate import Rate
from network.tcp import Connection, Passage
from network.trace import Direction
from scenarios.roster import Made

MOVED = 128  # links at their places that are remembered: a generated one is some 4 MB


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
        self.fluid.open(now, flight.number, passage.wire, passage.cap(now), passage.weight, flight.via, flight.radio)
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

    def _ring(self, time: float) -> None:
        """It is `time`, or in floats a bit before: then the clock comes here once more."""
        if time <= self.alarm:
            self.alarm = math.inf
        self.advance()
        due = self.fluid.next_finish()
        if due < math.inf:
            self._wake_at(due)

    def _wake_at(self, time: float) -> None:
        if time < self.alarm:
            self.alarm = time
            self.world.call_at(time, partial(self._ring, time))


@dataclass
class Flight:
    """One message on its way.  `await flight.wait()` returns when its last byte has arrived."""

    call: Call
    direction: Direction
    sizes: Mapping[str, int]
    reply_to: int | None
    via: str | None  # the shared link that the device is behind
    lane: Lane
    record: Record
    signal: Signal
    leave: Callable[[Connection | None], None]  # the connection as the next flight of the device will find it
    number: int = 0  # a new one after each absence
    passage: Passage = field(init=False)  # what it, or what is left of it, costs on the device's own link
    radio: Rate = field(init=False)  # what the device's link would carry with all the airtime
    reached: int = 0  # bytes that had gone through when it went on
    away: bool = False  # it is cut, and goes on when the device is back
    landed: bool = field(default=False)
    over: bool = field(default=False)

    @property
    def nbytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def left(self) -> int:
        """Bytes, since it last went on."""
        return self.nbytes - self.reached

    def depart(self, number: int) -> None:
        if number == self.number and not (self.over or self.away):
            self.lane.open(self)

    def carried(self) -> int:
        """Whole bytes of the message that have gone through by now."""
        return self.reached + (0 if self.away else self._of_message(self.lane.carried(self)))

    def _of_message(self, wire: float) -> int:
        """The headers go with the bytes that they lead."""
        if self.passage.wire == self.left:  # no rounding may take a byte
            return math.floor(wire)
        return math.floor(wire * self.left / self.passage.wire)

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
        if not self.away:
            self.leave(None)  # who breaks off a message must open a new connection
            self.record.cut(self.direction, self.call, why, nbytes=self._of_message(self.lane.close(self)))
        self.signal.fail(Lost(why))

    def suspend(self, then: str) -> None:
        """Cuts it here, because the device goes off; it will `resume` or `restart`."""
        moved = min(self._of_message(self.lane.close(self)), self.left - 1)  # the last byte has not arrived
        self.leave(None)
        self.record.cut(self.direction, self.call, "off", moved, then)
        self.reached += moved if then == "resume" else 0
        self.away = True

    async def wait(self) -> None:
        try:
            await self.signal.wait()
        except Cancelled:
            self.abort("closed")
            raise


class Traffic:
    """The transfers of a run, over the server's link, the links that devices share, and one link per device.

    `place` gives a device's place in its traces, as a share of their length; `waking` the seconds that its radio
    takes to wake up after it was idle for so long, before the first transfer for ever.
    """

    def __init__(
        self,
        world: World,
        record: Record,
        server: Link,
        links: Mapping[str, Link],
        topology: Topology | None = None,
        place: Callable[[str], float] = lambda _: 0.0,
        waking: Callable[[str, float], float] = lambda _device, _idle: 0.0,
        when_off: str = "lose",
    ) -> None:
        self.world = world
        self.record = record
        self.server = server
        self.links = links
        self.place = place
        self.waking = waking
        self.when_off = when_off  # lose | restart | resume: what becomes of a transfer whose device goes off
        shared = topology or {}
        self.lanes: dict[Direction, Lane] = {
            "down": Lane(world, server.up, shared.get("down", {})),
            "up": Lane(world, server.down, shared.get("up", {})),
        }
        self.started = Made(links, self._starting, keep=MOVED)  # devices' links, at their places in the traces
        self.connections: dict[str, Connection] = {}  # by device, those that are open
        self.silent: dict[str, float] = {}  # since when a device has neither sent nor received
        self.flying: dict[str, Flight] = {}  # by device: a device speaks or listens, one thing at a time
        self.shortest = (math.inf, "")  # of the traces that are replayed: seconds, and its name
        self.count = 0

    def launch(self, direction: Direction, call: Call, sizes: Mapping[str, int], reply_to: int | None) -> Flight:
        """Starts a transfer: round trips first, then the bytes at the rate that sharing leaves."""
        device = call.device
        flight = Flight(
            call,
            direction,
            sizes,
            reply_to,
            self.started[device].via,
            self.lanes[direction],
            self.record,
            self.world.signal(),
            lambda connection: self._leave(device, connection),
        )
        self.flying[device] = flight
        self._send(flight)
        return flight

    def _send(self, flight: Flight) -> None:
        """Sends a message, or what is left of it."""
        device, way, now = flight.call.device, flight.direction, self.world.now()
        link = self.started[device]
        waking = self.waking(device, now - self.silent.get(device, -math.inf))
        passage = link.passage(way, flight.left, now + waking, self.server.latency, self.connections.get(device))
        self.count += 1
        flight.number, flight.passage, flight.away = self.count, passage, False
        # TCP's window and losses bound the flow and not the radio: it needs no more airtime for them
        flight.radio = link.rate(way) if link.tcp.model == "tcp" else passage.link
        setup = passage.delay - passage.rtt / 2 if link.tcp.model == "tcp" else 0.0
        headers = passage.wire - flight.left
        self.record.start(way, flight.call, flight.sizes, flight.reply_to, waking + setup, headers, flight.reached)
        if waking + passage.delay > 0:
            self.world.call_at(now + (waking + passage.delay), partial(flight.depart, flight.number))
        else:
            flight.depart(flight.number)

    def lose(self, device: str) -> None:
        """The device goes off: what it was sending or receiving is cut at this instant."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is not None:
            flight.abort("off")

    def suspend(self, device: str) -> bool:
        """The device goes off for a while; whether it was sending or receiving, and will go on when it is back."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is None or flight.over or self.when_off == "lose":
            return False
        flight.suspend(self.when_off)
        return True

    def go_on(self, device: str) -> None:
        """The device is back."""
        flight = self.flying.get(device)
        if flight is not None and flight.away and not flight.over:
            self._send(flight)

    def _starting(self, device: str) -> Link:
        link = self.links[device]
        if not link.varies:
            return link
        self.shortest = min(self.shortest, link.repeats)
        return link.starting(self.place(device))

    def _leave(self, device: str, connection: Connection | None) -> None:
        self.silent[device] = self.world.now()
        if connection is None:
            self.connections.pop(device, None)
        else:
            self.connections[device] = connection
