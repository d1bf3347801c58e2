"""All transfers of a run: the links that they share set their pace, and each leaves lines in the record.

Both worlds use it, so both have the same physics; only the clock that drives it differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from devices.device import Device
from emulator.lab.links import LinksAtOffsets
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.worlds.interface import Cancelled, Lost, Signal, World
from network.links.link import Link
from network.links.rate import Rate
from network.links.tcp import Connection, Passage, Sender
from network.links.trace import Direction, scaled
from network.sharing.flow import Shared
from network.sharing.fluid import Back, Fluid
from network.sharing.route import routes

if TYPE_CHECKING:
    from network.windows.windows import Windows


class Lane:
    """All shared links in one direction (in both, where both meet): a model of them, driven by the clock."""

    def __init__(self, world: World, fluid: Fluid | Windows, back: Direction | None = None) -> None:
        self.world = world
        self.fluid = fluid
        self.back = back  # which direction goes back in the fluid, where it has both
        self.flights: dict[int, Flight] = {}
        self.alarm = math.inf  # when the clock will next look here
        self.alarms: set[float] = set()  # all that are set: those before are passed over when their time has come

    def open(self, flight: Flight, last: bool) -> None:
        """Takes a flight into the lane.  `last`: who calls does nothing else at this instant."""
        now, passage = self.world.now(), flight.passage
        if now > self.fluid.now:
            now = self.advance()  # a real clock has gone on since
        self.flights[flight.number] = flight
        cap, back = passage.cap(now), flight.direction == self.back
        flow = flight.number, passage.wire, cap, passage.weight, flight.link.via, flight.radio, back
        if isinstance(self.fluid, Fluid):
            self.fluid.open(now, *flow)
        else:
            self.fluid.open(now, *flow, passage.sending)
        if last and self.world.still():
            self._look()
        else:  # the n flights that open at one instant cost one solution of the rates, not n
            self._wake_at(now)

    def close(self, flight: Flight) -> float:
        """Takes a flight out of the lane.  Returns how many of its bytes on the wire had gone through."""
        if self.flights.pop(flight.number, None) is None:
            return float(flight.passage.wire) if flight.landed else 0.0
        carried = self.fluid.close(self.world.now(), flight.number)
        self._wake_at(self.world.now())
        return carried

    def carried(self, flight: Flight) -> float:
        """How many of a flight's bytes on the wire have gone through by now."""
        now = self.advance()  # first: to look ahead of its time, the fluid would have to be copied
        if flight.number in self.flights:
            return self.fluid.carried(now, flight.number)
        return float(flight.passage.wire) if flight.landed else 0.0

    def advance(self) -> float:
        """Advances the fluid model to the present time, which it returns, and lands what has arrived."""
        now = self.world.now()
        for number in self.fluid.advance(now):
            left = None if isinstance(self.fluid, Fluid) else self.fluid.left_with(number)
            self.flights.pop(number).land(left)  # type: ignore[call-overload]
        return now

    def _ring(self, time: float) -> None:
        """It is `time`, or in floats a bit before: then the clock comes here once more."""
        self.alarms.discard(time)
        if time != self.alarm:
            return  # something came in between, and the clock has been here since
        self._look()

    def _look(self) -> None:
        """Lands what has arrived, and sets the alarm for the next time."""
        self.alarm = math.inf
        self.advance()
        due = self.fluid.next_finish()
        if due < math.inf:
            self._wake_at(due)

    def _wake_at(self, time: float) -> None:
        if time < self.alarm:
            self.alarm = time
            if time not in self.alarms:
                self.alarms.add(time)
                self.world.call_at(time, partial(self._ring, time))


@dataclass(slots=True)
class Flight:
    """One message on its way.  `await flight.wait()` returns when its last byte has arrived."""

    call: Call
    direction: Direction
    sizes: Mapping[str, int]
    nbytes: int  # of all
    reply_to: int | None
    link: Link  # the device's own
    lane: Lane
    record: Record
    signal: Signal
    leave: Callable[[Flight, Connection | None], None]  # the connection as the device's next flight will find it
    number: int = 0  # a new one after each absence
    passage: Passage = field(init=False)  # what it, or what is left of it, costs on the device's own link
    radio: Rate = field(init=False)  # what the device's link would carry with all the airtime
    awake: float = 0.0  # s: when the device's radio is awake
    reached: int = 0  # bytes that had gone through when it went on
    away: bool = False  # it is cut, and goes on when the device is back
    landed: bool = field(default=False)
    over: bool = field(default=False)

    @property
    def left(self) -> int:
        """Bytes that were left when the transfer last started or continued."""
        return self.nbytes - self.reached

    def depart(self, number: int, last: bool = True) -> None:
        """Its first byte goes.  `last`: who calls does nothing else at this instant."""
        if number == self.number and not (self.over or self.away):
            self.lane.open(self, last)

    def carried(self) -> int:
        """Whole bytes of the message that have gone through by now."""
        return self.reached + (0 if self.away else self._of_message(self.lane.carried(self)))

    def _of_message(self, wire: float) -> int:
        """The headers go with the bytes that they lead."""
        if self.passage.wire == self.left:  # no rounding may take a byte
            return math.floor(wire)
        return math.floor(wire * self.left / self.passage.wire)

    def land(self, left: Sender | None = None) -> None:
        """Its last byte has arrived; `left` is what its sender is left with, where that is known."""
        self.landed = self.over = True
        self.leave(self, self.passage.after(self.lane.world.now(), left))
        self.record.end(self.direction, self.call)
        self.signal.set()

    def abort(self, why: str) -> None:
        """Cuts the transfer for good, because the device goes `off` or the round is `closed`."""
        if self.over:
            return
        self.over = True
        if not self.away:
            self.leave(self, None)  # who breaks off a message must open a new connection
            self.record.cut(self.direction, self.call, why, nbytes=self._of_message(self.lane.close(self)))
        self.signal.fail(Lost(why))

    def suspend(self, then: str) -> None:
        """Cuts the transfer because the device goes offline for a while; it will `resume` or `restart`."""
        moved = min(self._of_message(self.lane.close(self)), self.left - 1)  # the last byte has not arrived
        self.leave(self, None)
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

    `fleet` says which radios sleep, and when devices were away.
    """

    def __init__(
        self,
        world: World,
        record: Record,
        placed: LinksAtOffsets,
        fleet: Mapping[str, Device] | None = None,
        when_off: str = "lose",
    ) -> None:
        self.world = world
        self.record = record
        self.placed = placed
        self.fleet = fleet or {}
        self.when_off = when_off  # lose | restart | resume: what becomes of a transfer whose device goes off
        self.lanes = self._lanes()
        self.routes = routes(placed.server, placed.topology)
        self.connections: dict[str, Connection] = {}  # by device, those that are open
        self.silent: dict[str, float] = {}  # since when a device has neither sent nor received
        self.flying: dict[str, Flight] = {}  # by device: a device speaks or listens, one thing at a time
        self.count = 0

    def launch(self, direction: Direction, call: Call, sizes: Mapping[str, int], reply_to: int | None) -> Flight:
        """Starts a transfer: round trips first, then the bytes at the rate that sharing leaves."""
        device = call.device
        flight = Flight(
            call,
            direction,
            sizes,
            sum(sizes.values()),
            reply_to,
            self.placed.links[device],
            self.lanes[direction],
            self.record,
            self.world.signal(),
            self._leave,
        )
        self.flying[device] = flight
        self._send(flight)
        return flight

    def _send(self, flight: Flight) -> None:
        """Sends a message, or what is left of it."""
        device, way, now, link = flight.call.device, flight.direction, self.world.now(), flight.link
        waking = self._waking(device, now)
        kept, route = self._connection(device, now), self.routes[way, link.via]
        beyond = self.placed.server.latency
        passage = link.passage(way, flight.left, now + waking, beyond, kept, route.bandwidths, route.queue)
        self.count += 1
        flight.awake = now + waking
        flight.number, flight.passage, flight.away = self.count, passage, False
        # TCP's window and losses bound the flow and not the radio: it needs no more airtime for them
        flight.radio = link.rate(way) if link.tcp.model == "tcp" else passage.link
        setup = passage.delay - passage.rtt / 2 if link.tcp.model == "tcp" else 0.0
        headers = passage.wire - flight.left
        self.record.start(way, flight.call, flight.sizes, flight.reply_to, waking + setup, headers, flight.reached)
        if waking + passage.delay > 0:
            self.world.call_at(now + (waking + passage.delay), partial(flight.depart, flight.number))
        else:
            flight.depart(flight.number, last=False)

    def settle(self, device: str) -> None:
        """Lands an upload whose last byte is due by now, before anything else happens at this instant."""
        flight = self.flying.get(device)
        if flight is not None and flight.direction == "up":
            flight.lane.advance()

    def lose(self, device: str) -> None:
        """The device goes offline for good: what it was sending or receiving is cut at this instant."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is not None:
            flight.abort("off")

    def suspend(self, device: str) -> bool:
        """The device goes offline for a while.  Returns whether a transfer was cut that goes on when it is back."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is None or flight.over or self.when_off == "lose":
            return False
        flight.suspend(self.when_off)
        return True

    def go_on(self, device: str) -> None:
        """The device is back: the transfer that its absence has cut goes on."""
        flight = self.flying.get(device)
        if flight is not None and flight.away and not flight.over:
            self._send(flight)

    def _lanes(self) -> dict[Direction, Lane]:
        """One each way; one for both ways where they meet: on air, as that is half duplex, or in queues, where
        acknowledgements wait behind data."""
        server = self.placed.server
        down = self._shared(server.up, self.placed.topology.get("down", {}))
        up = self._shared(server.down, self.placed.topology.get("up", {}))
        if server.tcp.windows:
            from network.windows.windows import Windows  # numba takes half a second to import

            both = Lane(
                self.world, Windows(down, up, (server.buffer, server.buffer), self.placed.place("windows")), back="up"
            )
            return {"down": both, "up": both}
        if any(each.airtime and name in up[1] for name, each in down[1].items()):
            both = Lane(self.world, Fluid(*down, back=up), back="up")
            return {"down": both, "up": both}
        return {"down": Lane(self.world, Fluid(*down)), "up": Lane(self.world, Fluid(*up))}

    def _shared(self, root: float | Rate, shared: Mapping[str, Shared]) -> Back:
        """What can be used of the server's link and of those below it."""
        part = self.placed.server.tcp.part
        if part == 1:
            return root, shared
        usable = {name: each if each.airtime else each.scaled(part) for name, each in shared.items()}
        return scaled(root, part), usable

    def _waking(self, device: str, now: float) -> float:
        """Seconds until the radio is awake: it sleeps after it was idle for a while, and before it first sends."""
        known = self.fleet.get(device)
        if known is None or not known.profile.wakeup_s:
            return 0.0
        return known.profile.waking(now - self.silent.get(device, -math.inf))

    def _connection(self, device: str, now: float) -> Connection | None:
        """What is still open; an absence since the last message has closed it."""
        kept = self.connections.get(device)
        known = self.fleet.get(device) if kept else None
        if known and not known.presence.always and known.presence.next_off(self.silent[device]) < now:
            del self.connections[device]
            return None
        return kept

    def _leave(self, flight: Flight, connection: Connection | None) -> None:
        device, now = flight.call.device, self.world.now()
        if now >= flight.awake:  # a radio that was still waking has not been used
            self.silent[device] = now
        if connection is None:
            self.connections.pop(device, None)
        else:
            self.connections[device] = connection
