"""Flows that share full links, simulated from now to the next end of a flow: the compiled state, and a saved copy from
which the simulation can start again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from network.links.rate import Constant, Rate, mean
from network.links.tcp import RTTS, Congestion, Sender, Sending, Tcp, Way
from network.links.trace import Steps, Trace
from network.windows import step
from network.windows.compiled import complete
from network.windows.state import BBR, CUBIC, FLOW, HOPS, RENO, CrowdState, empty

BLANK = np.zeros((), FLOW)
CONGESTION: dict[Congestion, int] = {"reno": RENO, "cubic": CUBIC, "bbr": BBR}
FLOWS, SEGMENTS = 4, 4096  # initial room, powers of 2
DEEP, LEAST_BUFFER = 4.0, 1e5  # a device's own queue: times the bytes in flight on its link; bytes
LATE = 5e-4  # s; largest delay of an acknowledgement: more would break the trains that HyStart detects
AHEAD = (5e-4, 60.0)  # s to look ahead: smallest, largest
ROUNDING = 1e-6  # round trips
# Limits of looking ahead: at most SHORT times the time that had passed when a flow came, and LONG times further if no
# flow ends.
SHORT, LONG = 8, 4


@dataclass(frozen=True)
class Queue:
    """A shared link in one direction, with its number among the links."""

    number: int
    capacity: Rate
    buffer: float  # bytes


@dataclass(frozen=True)
class Newcomer:
    """A flow to be added: its bytes on the wire, the shared links on its way from the sender on (`forth`) and on its
    acknowledgements' way (`back`), its device's own link, and when its first byte would be at the receiver if nothing
    waited (`begin`, s)."""

    name: Hashable
    nbytes: float
    sending: Sending
    forth: tuple[Queue, ...]
    back: tuple[Queue, ...]
    own: Rate
    up: bool
    begin: float

    @property
    def rtt(self) -> float:
        """The round trip without queues, s, at least RTTS[0]."""
        return max(self.sending.way.rtt, RTTS[0])

    @property
    def ahead(self) -> float:
        """Seconds from the queues to the receiver: they are next to the devices, so half a round trip for uploads."""
        return self.rtt / 2 if self.up else 0.0


class Crowd:
    """Flows that share links with queues.  The caller gives the time, in s, which must not go back."""

    def __init__(self, queues: Sequence[Queue], chance: Hashable = 0) -> None:
        """Takes the shared links; there are no flows yet.  Random losses and delays are drawn from `chance` and the
        flows' names."""
        self._queues, self._chance = queues, chance
        self._own: dict[int, Rate] = {}  # the link of a flow's device, by place
        self._state, self._saved = (empty(FLOWS, SEGMENTS, len(queues) + FLOWS) for _ in range(2))
        self._traces: dict[int, tuple[Steps, int]] = {}  # by id, and its first index among the edges
        self._filled = 0  # edges that are used
        for queue in queues:
            self._describe(queue.number, queue.capacity, queue.buffer, shared=True)
        self._places: dict[Hashable, int] = {}
        self._names: dict[int, Hashable] = {}
        self._free = list(range(FLOWS))  # free places, a heap: the smallest is taken, whatever happened before
        self._sizes: dict[int, tuple[float, float]] = {}  # by place: bytes on the wire, and those sent before
        self._now = 0.0
        self._due: float | None = None  # time up to which the state was run ahead; None: it is current
        self._ending = -1  # the place of the flow that ends then
        self._depth = 0.2

    def due(self) -> float:
        """Returns the time at which the caller must call `end`, s: a flow ends then, or the simulated time ahead is
        used up; inf if there is no flow."""
        if not self._places:
            return math.inf
        if self._due is None:
            horizon = self._now + self._depth
            self._ending = step.run(self._state, self._saved, False, horizon)
            self._due = float(self._state.flows[self._ending]["finish"]) if self._ending >= 0 else horizon
        return self._due

    def move(self, t: float) -> None:
        """Sets the time to `t`; requires that no flow ends before."""
        while self._places and t > self._now and self.due() <= t and self._ending < 0:
            self.end()  # no flow has ended: it was only the end of looking ahead
        if self._places and (t > self._now or self._due is not None) and t < self.due():
            self._depth = max(AHEAD[0], min(self._depth, SHORT * (t - self._now)))
            step.run(self._state, self._saved, True, t)
        self._now, self._due = t, None

    def end(self) -> tuple[Hashable, Sender] | None:
        """Sets the time to that of `due`; returns the flow that ends then and its sender's state, None if no flow
        ends."""
        assert self._due is not None
        self._now, self._due, place = self._due, None, self._ending
        if place < 0:
            self._depth = min(LONG * self._depth, AHEAD[1])
            return None
        flow = self._state.flows[place]
        left = Sender(float(flow["cwnd"]), self._now, float(flow["ssthresh"]))
        return self._remove(place), left

    def open(self, t: float, new: Newcomer, grown: Sender | None = None) -> None:
        """Starts a flow at `t`.  `grown`: for a flow that was outside the crowd until now, its sender's state; a whole
        window is then in flight."""
        self.move(t)
        flying = int(grown.window) if grown else 0
        place = self._room(min(new.sending.limit, math.ceil(new.nbytes / new.sending.tcp.segment)) + flying)
        self._places[new.name], self._names[place] = place, new.name
        self._sizes[place] = new.nbytes, flying * new.sending.tcp.segment
        self._describe_flow(place, new, grown)
        if grown is None:
            meets = max(t, new.begin - new.ahead)  # the first segment meets a queue, if the handshakes meet none
            trips = int((meets - t) / new.rtt + ROUNDING)
            step.start(self._state, place, t, max(t, meets - trips * new.rtt), trips)
        else:
            step.go_on(self._state, place, t)

    def carried(self, t: float, name: Hashable) -> float:
        """Returns the bytes on the wire of a flow that have arrived by `t`, which must be before the time of `due`."""
        self.move(t)
        place = self._places[name]
        nbytes, before = self._sizes[place]
        return min(max(0.0, step.arrived(self._state, place, t) - before), nbytes)

    def close(self, t: float, name: Hashable) -> None:
        """Removes a flow at `t`, which must be before the time of `due`."""
        self.move(t)
        self._remove(self._places[name])

    # --- rows -----------------------------------------------------------------------------------------------

    def _remove(self, place: int) -> Hashable:
        step.stop(self._state, place)
        name = self._names.pop(place)
        heappush(self._free, place)
        del self._places[name], self._sizes[place], self._own[place]
        return name

    def _room(self, segments: int) -> int:
        """Returns the index of a free row for a flow with a window of this many segments; enlarges the arrays if there
        is none."""
        flows, window = self._state.board.shape
        more, wider = flows if self._free else 2 * flows, window
        while wider <= segments:
            wider *= 2
        if (more, wider) != (flows, window):
            old, links = self._state, len(self._queues) + more
            self._state, self._saved = (_grown(old, more, wider, links) for _ in range(2))
            self._free += range(flows, more)  # still a heap: all earlier entries are smaller
        return heappop(self._free)

    def _describe_flow(self, place: int, new: Newcomer, grown: Sender | None) -> None:
        tcp, way, sender = new.sending.tcp, new.sending.way, grown or new.sending.sender
        total = max(1, math.ceil(new.nbytes / tcp.segment))
        own, self._own[place] = len(self._queues) + place, new.own
        self._describe(own, new.own, max(LEAST_BUFFER, DEEP * mean(new.own) * new.rtt), shared=False)
        forth = [queue.number for queue in new.forth]
        forth = [own, *forth] if new.up else [*forth, own]
        path = [*forth, *(queue.number for queue in new.back)]
        if len(path) > HOPS:
            raise ValueError(f"flow {new.name!r} passes {len(path)} links there and back; at most {HOPS} can be")
        slowest = min(mean(rate) for rate in (new.own, *(queue.capacity for queue in new.forth)))
        digest = hashlib.blake2b(repr((self._chance, new.name)).encode(), digest_size=8).digest()
        given: dict[str, Any] = {
            "total": total,
            "segment": tcp.segment,
            "last": new.nbytes - (total - 1) * tcp.segment,
            "rtt": new.rtt,
            "congestion": CONGESTION[tcp.congestion],
            "loss": way.loss,
            "dice": int.from_bytes(digest, "big") | 1,
            "limit": min(new.sending.limit, self._state.board.shape[1]),
            "cwnd": sender.window,
            "ssthresh": sender.threshold,
            "forth": len(forth),
            "back": len(new.back),
            "beyond": new.ahead,
            "home": 0.0 if new.up else new.rtt,
            "jitter": min(tcp.segment / slowest, LATE) if 0 < slowest < math.inf else 0.0,
            "path": (*path, *[0] * (HOPS - len(path))),
        }
        rows = self._state.flows
        rows[place] = BLANK
        rows[[*given]][place] = (*given.values(),)  # all together: assigning each by name takes as long as all

    def _describe(self, number: int, capacity: Rate, buffer: float, shared: bool) -> None:
        if isinstance(capacity, Trace):
            steps, rate = capacity._steps, math.nan
            trace = self._edges(steps), len(steps.arrays[1]), 0, capacity.offset
        else:
            assert isinstance(capacity, Constant)
            rate, trace = capacity.peak, (0, 0, 0, 0.0)
        self._state.links[number] = (rate, buffer, 0.0, shared, *trace)  # in the order of LINK

    def _edges(self, steps: Steps) -> int:
        """Returns the index of a trace's first edge in the array of all edges; adds the trace if it is not there."""
        if id(steps) not in self._traces:
            count = len(steps.edges)
            if self._filled + count > len(self._state.edges):
                self._make_room_for_traces(count)
        if id(steps) not in self._traces:  # and not added while making room
            self._write(steps)
        return self._traces[id(steps)][1]

    def _write(self, steps: Steps) -> None:
        first, after = self._filled, self._filled + len(steps.edges)
        self._state.edges[first:after] = steps.edges
        self._state.rates[first : after - 1] = steps.arrays[1]
        self._state.prefix[first:after] = steps.prefix
        self._traces[id(steps)], self._filled = (steps, first), after

    def _make_room_for_traces(self, count: int) -> None:
        """Replaces the arrays of traces by larger ones with only the traces in use, and room for as many edges
        again."""
        rates = [queue.capacity for queue in self._queues] + list(self._own.values())
        used = {id(rate._steps): rate._steps for rate in rates if isinstance(rate, Trace)}
        size = 2 * (sum(len(steps.edges) for steps in used.values()) + count)
        edges, rates_of, prefix = np.zeros(size), np.zeros(size), np.zeros(size)
        self._state, self._saved = (
            each._replace(edges=edges, rates=rates_of, prefix=prefix) for each in (self._state, self._saved)
        )
        self._traces, self._filled = {}, 0
        for steps in used.values():
            self._write(steps)
        for state in (self._state, self._saved):
            self._point(state)

    def _point(self, state: CrowdState) -> None:
        """Updates in each link's row the index of its trace's first edge, after the traces were moved."""
        links = {queue.number: queue.capacity for queue in self._queues}
        links |= {len(self._queues) + place: rate for place, rate in self._own.items()}
        for number, rate in links.items():
            if isinstance(rate, Trace) and id(rate._steps) in self._traces:
                state.links[number]["first"] = self._traces[id(rate._steps)][1]


def _grown(old: CrowdState, flows: int, window: int, links: int) -> CrowdState:
    """Returns the state copied into larger arrays.  A segment keeps its number; its mark moves if the window is wider,
    because a mark's index is the number modulo the window."""
    new = empty(flows, window, links)._replace(edges=old.edges, rates=old.rates, prefix=old.prefix)
    count, narrow = old.board.shape
    new.flows[:count], new.sent[:count] = old.flows, old.sent
    new.links[: len(old.links)] = old.links
    for place in range(count):
        step.touch(new, place)
    new.first[flows : flows + count] = old.first[count:]
    for place in range(flows - 1, 0, -1):
        new.first[place] = min(new.first[2 * place], new.first[2 * place + 1])
    for place in range(count):
        segments = np.arange(old.flows[place]["una"], old.flows[place]["una"] + narrow)
        new.board[place, segments % window] = old.board[place, segments % narrow]
    return new


def compile_all() -> None:
    """Runs a small crowd, so that numba compiles all functions that a crowd needs."""
    way = Way(0.01, 0.001)
    crowd = Crowd([Queue(0, Constant(1e6), 1e4)])
    for name, kind in enumerate(CONGESTION):
        sending = Sending(Tcp(congestion=kind), way, Sender(10, 0.0))
        new = Newcomer(name, 1e5, sending, (crowd._queues[0],), (), Constant(1e9), up=False, begin=0.02)
        crowd.open(0.0, new)
    crowd.open(0.01, replace(new, name=3), Sender(4, 0.0))
    crowd.carried(0.011, 3)
    crowd.close(0.012, 3)
    crowd.due()
    complete()
