"""A link in user space: packets go from one TUN device to another, delayed, and released as a link would.

What comes from the server travels half a round trip, then waits in a droptail queue for the link, which is next to the
device, as a radio is: so a byte that the link lets through at `t` arrives at `t`.  What comes from the device waits for
the link of that direction, if there is one, and then travels half a round trip.  When a packet leaves is worked out
from when it came in, so a late wake-up of this process delays single packets and never takes capacity away.  Both hosts
send as fast as they like: nothing tells them of the queue but drops and acknowledgements, as with a router between.

Run as a process: python -m benchmarks.testbed.relay '{"left": ..., "right": ..., ...}'.  Lines on standard input
say since when (CLOCK_MONOTONIC, s) a trace is replayed; its end ends the process.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Protocol

from benchmarks.testbed.namespaces import in_namespace, say

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SOURCE, DESTINATION = 0, 2  # places of the ports in TCP's header
MTU = 1500
BATCH = 64  # packets read before those that are due are sent on
PRIORITY = 10  # of SCHED_FIFO, where that is allowed


class Pace(Protocol):
    """When a link lets packets through."""

    def leave(self, t: float, size: int) -> float:
        """When a packet of `size` bytes that reaches the queue at `t` has gone through; times never go back."""


@dataclass
class Steady:
    """So many bytes/s."""

    rate: float
    free: float = 0.0  # when it has sent all that it was given

    def leave(self, t: float, size: int) -> float:
        self.free = max(self.free, t) + size / self.rate
        return self.free


@dataclass
class Opportunities:
    """A Mahimahi trace: 1500 bytes at each stamp (ms), again and again; what nobody waits for then is lost."""

    stamps: Sequence[int]
    zero: float  # s, when the trace began
    turn: int = 0
    index: int = 0
    left: int = MTU  # bytes of the opportunity at hand

    def time(self) -> float:
        return self.zero + (self.turn * self.stamps[-1] + self.stamps[self.index]) / 1000

    def leave(self, t: float, size: int) -> float:
        while self.time() < t:
            self.following()
        while size > self.left:
            size -= self.left
            self.following()
        self.left -= size
        return self.time()

    def following(self) -> None:
        self.left = MTU
        self.index += 1
        if self.index == len(self.stamps):
            self.turn, self.index = self.turn + 1, 0

    def restart(self, zero: float) -> None:
        self.zero, self.turn, self.index, self.left = zero, 0, 0, MTU
        while self.time() < time.monotonic():  # now, and not when the first packet waits for it
            self.following()


Delay = Callable[[bytes], float]  # s, that a packet travels


def nothing(packet: bytes) -> float:  # noqa: ARG001
    """No time at all."""
    return 0.0


@dataclass
class Way:
    """One direction: packets on their way to the queue and from there, by when they arrive."""

    before: Delay  # before the queue
    pace: Pace | None = None  # None: everything goes through at once
    queue: float = float("inf")  # bytes that may wait
    loss: float = 0.0
    after: Delay = nothing  # after it
    then: Sequence[Way] = ()  # links behind it, of the flows with that remainder of the device's port
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    coming: list[tuple[float, int, bytes]] = field(default_factory=list)  # heaps: when, which, what
    flying: list[tuple[float, int, bytes]] = field(default_factory=list)
    waiting: deque[tuple[float, int]] = field(default_factory=deque)  # when each leaves the queue, and its bytes
    backlog: int = 0
    dropped: int = 0
    count: int = 0

    def accept(self, t: float, packet: bytes) -> None:
        """A packet enters at `t`."""
        self.count += 1
        heappush(self.coming, (t + self.before(packet), self.count, packet))

    def due(self) -> float:
        """When to look next, s; inf if nothing is on its way."""
        own = (heap[0][0] if heap else math.inf for heap in (self.coming, self.flying))
        return min(*own, *(way.due() for way in self.then))

    def arrived(self, now: float) -> Iterator[bytes]:
        """Packets that have left the other end by now, in order of time."""
        while self.coming and self.coming[0][0] <= now:
            self._enter(*heappop(self.coming))
        for way in self.then:
            yield from way.arrived(now)
        while self.flying and self.flying[0][0] <= now:
            yield heappop(self.flying)[2]

    def _enter(self, t: float, number: int, packet: bytes) -> None:
        """Puts a packet into the queue at `t`, or after the packet before it."""
        size = len(packet)
        if self.pace is not None:
            while self.waiting and self.waiting[0][0] <= t:
                self.backlog -= self.waiting.popleft()[1]
            if self.backlog + size > self.queue or (self.loss and self.chance.random() < self.loss):
                self.dropped += 1
                return
            t = self.pace.leave(t, size)
            self.waiting.append((t, size))
            self.backlog += size
        if self.then:
            way = self.then[_port(packet, DESTINATION) % len(self.then)]
            heappush(way.coming, (t, number, packet))
        else:
            heappush(self.flying, (t + self.after(packet), number, packet))


def halves(rtts: Sequence[float], place: int) -> Delay:
    """Half a round trip of the flow that a packet is of, by the port of the device, at this place in TCP's header."""

    def half(packet: bytes) -> float:
        return rtts[_port(packet, place) % len(rtts)] / 2

    return half


def _port(packet: bytes, place: int) -> int:
    """The port at this place in TCP's header."""
    at = (packet[0] & 15) * 4 + place
    return int.from_bytes(packet[at : at + 2], "big")


def tun(namespace: str) -> int:
    """The descriptor of a new device `tun` in that namespace, which lasts as long as it is open."""
    with in_namespace(namespace):
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"tun", IFF_TUN | IFF_NO_PI))
    return descriptor


def forward(ends: tuple[int, int], ways: tuple[Way, Way]) -> None:
    """Packets from the first end take the first way to the second end, and the other way round; until input ends."""
    source = sys.stdin.fileno()
    while True:
        due = min(way.due() for way in ways)
        timeout = None if due == math.inf else max(0.0, due - time.monotonic())
        ready = select.select([source, *ends], [], [], timeout)[0]  # epoll would count whole milliseconds
        for end, way in zip(ends, ways, strict=True):
            if end in ready:
                _take(end, way)
        now = time.monotonic()
        for end, way in zip(reversed(ends), ways, strict=True):
            for packet in way.arrived(now):
                os.write(end, packet)
        if source in ready and not _told(ways[0]):
            return


def _take(end: int, way: Way) -> None:
    with suppress(BlockingIOError):
        for _ in range(BATCH):
            packet = os.read(end, 65536)
            way.accept(time.monotonic(), packet)


def _told(way: Way) -> bool:
    """Obeys a line of standard input, and answers with the packets dropped since the last one; False at its end."""
    line = os.read(sys.stdin.fileno(), 100)  # past the buffers: select must see what is left
    if isinstance(way.pace, Opportunities) and line:
        way.pace.restart(float(line))
    if line:
        say(str(sum(each.dropped for each in (way, *way.then))))
        for each in (way, *way.then):
            each.dropped = 0
    return bool(line)


def stamps(path: Path) -> list[int]:
    """The stamps of a Mahimahi file, ms."""
    return [int(line) for line in path.read_text().split()]


def main(said: dict[str, Any]) -> None:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    ends = tun(said["left"]), tun(said["right"])
    pace: Pace = Opportunities(stamps(Path(said["trace"])), time.monotonic()) if said["trace"] else Steady(said["rate"])
    down = Way(halves(said["rtts"], DESTINATION), pace, said["queue"], said["loss"])
    down.then = [Way(nothing, Steady(rate), queue) for rate, queue in said["behind"]]
    up = Way(nothing, Steady(said["up"]), said["queue_up"]) if said["up"] else Way(nothing)
    up.after = halves(said["rtts"], SOURCE)
    say("ready")
    forward(ends, (down, up))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
