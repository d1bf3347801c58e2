"""The transfers of a run.  A model of the shared links sets their rates, and the record gets a line for each start, end
and cut.

Runs in virtual time and runs over real sockets both use this file; only their clocks differ.
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
from network.sharing.flow import SharedLink
from network.sharing.fluid import Back, Fluid
from network.sharing.route import routes

if TYPE_CHECKING:
    from network.windows.windows import Windows


class Lane:
    """The transfers (flights) in one direction, and the model of shared links that sets their rates as the clock runs.

    A lane has both directions if their transfers compete with each other.
    """

    def __init__(self, world: World, fluid: Fluid | Windows, back: Direction | None = None) -> None:
        self.world = world
        self.fluid = fluid
        self.back = back  # the direction that the fluid model takes as its way back, if it has both
        self.flights: dict[int, Flight] = {}
        self.alarm = math.inf  # the time of the next look for arrivals
        self.alarms: set[float] = set()  # all alarms of the clock; a rung alarm other than `alarm` is ignored

    @property
    def shakes(self) -> bool:
        """True if the model of the links plays the round trips before a flight's first byte, too, as they may meet
        queues."""
        return not isinstance(self.fluid, Fluid)

    def open(self, flight: Flight, last: bool) -> None:
        """Puts a flight into the lane: its bytes begin to flow.  `last`: True if the caller does nothing else now."""
        now, passage = self.world.now(), flight.passage
        if now > self.fluid.now:
            now = self.advance()  # a real clock has advanced since
        self.flights[flight.number] = flight
        begin = max(now, flight.begin) if self.shakes else now
        cap, back = passage.cap(begin), flight.direction == self.back
        flow = flight.number, passage.wire, cap, passage.weight, flight.link.via, flight.radio, back
        if isinstance(self.fluid, Fluid):
            self.fluid.open(now, *flow)
        else:
            self.fluid.open(now, *flow, passage.sending, begin)
        if last and self.world.still():
            self._look()
        else:  # the n flights that open at one instant cost one solution of the rates, not n
            self._wake_at(now)

    def close(self, flight: Flight) -> float:
        """Removes a flight from the lane.  Returns how many of its bytes, headers included, had gone through."""
        if self.flights.pop(flight.number, None) is None:
            return float(flight.passage.wire) if flight.landed else 0.0
        carried = self.fluid.close(self.world.now(), flight.number)
        self._wake_at(self.world.now())
        return carried

    def carried(self, flight: Flight) -> float:
        """Returns how many bytes of a flight, headers included, have gone through by now."""
        now = self.advance()  # the fluid model cannot look ahead of its own time
        if flight.number in self.flights:
            return self.fluid.carried(now, flight.number)
        return float(flight.passage.wire) if flight.landed else 0.0

    def advance(self) -> float:
        """Advances the model of the links to the present time, ends the flights that have arrived, and returns the
        time."""
        now = self.world.now()
        for number in self.fluid.advance(now):
            left = None if isinstance(self.fluid, Fluid) else self.fluid.left_with(number)
            self.flights.pop(number).land(left)  # type: ignore[call-overload]
        return now

    def _ring(self, time: float) -> None:
        """Handles an alarm of the clock.  If rounding makes the alarm a bit too early, `_look` sets another one."""
        self.alarms.discard(time)
        if time == self.alarm:  # otherwise another alarm has replaced it
            self._look()

    def _look(self) -> None:
        """Ends the flights that have arrived, and sets the alarm for the next arrival."""
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
    """A message in transfer.  `await flight.wait()` returns when its last byte has arrived."""

    call: Call
    direction: Direction
    sizes: Mapping[str, int]
    nbytes: int  # sum of the sizes
    reply_to: int | None
    link: Link  # the device's own
    lane: Lane
    record: Record
    signal: Signal
    leave: Callable[[Flight, Connection | None], None]  # takes the connection, which stays open for the next flight
    number: int = 0  # a new one after each absence
    passage: Passage = field(init=False)  # passage of the message, or of its rest, over the device's own link
    radio: Rate = field(init=False)  # rate of the device's link with all the airtime
    awake: float = 0.0  # s: the time at which the device's radio is awake
    begin: float = 0.0  # s: the time at which its first byte is at its receiver if nothing waits
    reached: int = 0  # bytes transferred when it was last continued
    away: bool = False  # cut; continues when the device is back
    landed: bool = field(default=False)
    over: bool = field(default=False)

    @property
    def left(self) -> int:
        """Bytes of the message that were left when the transfer last started or continued."""
        return self.nbytes - self.reached

    def depart(self, number: int, last: bool = True) -> None:
        """Sends the first packet, unless the flight was cut, or restarted under another number, while it waited.

        `last`: True if the caller does nothing else at this instant.
        """
        if number == self.number and not (self.over or self.away):
            self.lane.open(self, last)

    def carried(self) -> int:
        """Returns how many whole bytes of the message have gone through by now."""
        return self.reached + (0 if self.away else self._of_message(self.lane.carried(self)))

    def _of_message(self, wire: float) -> int:
        """Converts a number of bytes on the wire into whole bytes of the message.

        Packet headers are taken to be spread evenly over the message.
        """
        if self.passage.wire == self.left:  # no rounding may take a byte
            return math.floor(wire)
        return math.floor(wire * self.left / self.passage.wire)

    def land(self, left: Sender | None = None) -> None:
        """Ends the transfer, whose last byte has arrived.  `left`: the final state of TCP's sender, if the model of
        the links has one."""
        self.landed = self.over = True
        self.leave(self, self.passage.after(self.lane.world.now(), left))
        self.record.end(self.direction, self.call)
        self.signal.set()

    def abort(self, why: str) -> None:
        """Cuts the transfer for good.  `why`: the reason in the record, such as "off" (offline) or "closed" (the
        round is over)."""
        if self.over:
            return
        self.over = True
        if not self.away:
            self.leave(self, None)  # a cut message closes its connection
            self.record.cut(self.direction, self.call, why, nbytes=self._of_message(self.lane.close(self)))
        self.signal.fail(Lost(why))

    def suspend(self, then: str) -> None:
        """Cuts the transfer because the device goes offline for a while.

        `then`: what follows when the device is back: "resume" sends the rest, "restart" sends everything again.
        """
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

    `fleet`: the devices by name, which say how long a sleeping radio takes to wake and when a device is offline.
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
        self.when_off = when_off  # lose | restart | resume a transfer whose device goes offline
        self.lanes = self._lanes()
        self.routes = routes(placed.server, placed.topology)
        self.connections: dict[str, Connection] = {}  # open connections, by device
        self.silent: dict[str, float] = {}  # the end of each device's last transfer
        self.flying: dict[str, Flight] = {}  # by device, which has one transfer at a time
        self.count = 0

    def launch(self, direction: Direction, call: Call, sizes: Mapping[str, int], reply_to: int | None) -> Flight:
        """Starts a transfer and returns it.

        Round trips come first, then the bytes at the rate that the shared links leave.
        """
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
        """Begins to send a message, or what was left of it when an absence cut it."""
        device, way, now, link = flight.call.device, flight.direction, self.world.now(), flight.link
        known, silent = self.fleet.get(device), self.silent.get(device, -math.inf)
        waking = known.profile.waking(now - silent) if known and known.profile.wakeup_s else 0.0  # s until it can send
        kept, route = self.connections.get(device), self.routes[way, link.via]
        if kept and known and not known.presence.always and known.presence.next_off(silent) < now:
            del self.connections[device]  # an absence since the last message has closed it
            kept = None
        beyond = self.placed.server.latency
        passage = link.passage(way, flight.left, now + waking, beyond, kept, route.bandwidths, route.queue)
        self.count += 1
        flight.awake = now + waking
        flight.number, flight.passage, flight.away = self.count, passage, False
        # TCP's window and losses bound the flow, but take no airtime
        flight.radio = link.rate(way) if link.tcp.model == "tcp" else passage.link
        setup = passage.delay - passage.rtt / 2 if link.tcp.model == "tcp" else 0.0
        headers = passage.wire - flight.left
        self.record.start(way, flight.call, flight.sizes, flight.reply_to, waking + setup, headers, flight.reached)
        flight.begin = now + (waking + passage.delay)
        departure = flight.awake if flight.lane.shakes else flight.begin
        if departure > now:
            self.world.call_at(departure, partial(flight.depart, flight.number))
        else:
            flight.depart(flight.number, last=False)

    def settle(self, device: str) -> None:
        """Ends the device's upload if its last byte is due by now, before anything else happens at this instant."""
        flight = self.flying.get(device)
        if flight is not None and flight.direction == "up":
            flight.lane.advance()

    def lose(self, device: str) -> None:
        """Cuts the device's transfer, because it goes offline for good."""
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is not None:
            flight.abort("off")

    def suspend(self, device: str) -> bool:
        """Cuts the device's transfer, because the device goes offline for a while.

        Returns true if the transfer continues when the device is back; if there is none, or it would be lost, returns
        False and leaves it alone.
        """
        self.connections.pop(device, None)
        flight = self.flying.get(device)
        if flight is None or flight.over or self.when_off == "lose":
            return False
        flight.suspend(self.when_off)
        return True

    def go_on(self, device: str) -> None:
        """Continues the device's transfer, if an absence has cut it, because the device is back."""
        flight = self.flying.get(device)
        if flight is not None and flight.away and not flight.over:
            self._send(flight)

    def _lanes(self) -> dict[Direction, Lane]:
        """Returns the lane of each direction; both have the same lane if downloads and uploads compete.

        They compete for air, which is half duplex, and in queues, where acknowledgements wait behind data.
        """
        server = self.placed.server
        down = self._shared(server.up, self.placed.topology.get("down", {}))
        up = self._shared(server.down, self.placed.topology.get("up", {}))
        if server.tcp.windows:
            from network.windows.windows import Windows  # numba takes half a second to import

            both = Lane(self.world, Windows(down, up, (server.buffer, server.buffer), self.placed.chance), back="up")
            return {"down": both, "up": both}
        if any(each.airtime and name in up[1] for name, each in down[1].items()):
            both = Lane(self.world, Fluid(*down, back=up), back="up")
            return {"down": both, "up": both}
        return {"down": Lane(self.world, Fluid(*down)), "up": Lane(self.world, Fluid(*up))}

    def _shared(self, root: float | Rate, shared: Mapping[str, SharedLink]) -> Back:
        """Returns the server's link (`root`) and the shared links below it, at the part of their rates that TCP can
        use."""
        part = self.placed.server.tcp.part
        if part == 1:
            return root, shared
        usable = {name: each if each.airtime else each.scaled(part) for name, each in shared.items()}
        return scaled(root, part), usable

    def _leave(self, flight: Flight, connection: Connection | None) -> None:
        device, now = flight.call.device, self.world.now()
        if now >= flight.awake:  # a radio that was still waking has not been used
            self.silent[device] = now
        if connection is None:
            self.connections.pop(device, None)
        else:
            self.connections[device] = connection
