"""Flows of TCP on one full link, and when they end."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from network.links.rate import Constant, Rate
from network.links.tcp import Congestion, Direction, Tcp, Way, passage
from network.sharing.flow import SharedLink
from network.windows.windows import Windows

FAST = Constant(1e12)  # bytes/s: a device's own link that bounds nobody
MSS, SEGMENT = 1448, 1500


@dataclass(frozen=True)
class Sent:
    """A transfer without TLS, each on a connection of its own."""

    nbytes: int
    rtt: float = 0.05
    start: float = 0.0
    up: bool = False
    congestion: Congestion = "cubic"
    loss: float = 0.0
    own: Rate = FAST
    via: str | None = None


def ends(
    sent: Sequence[Sent],
    down: float | Rate,
    queue: float,
    up: float = math.inf,
    queue_up: float = 0.0,
    shared: Mapping[str, SharedLink] | None = None,
    looks: Sequence[float] = (),
    salt: object = 0,
) -> list[float]:
    """When each ends, s.  At `looks` somebody asks how far the flows are."""
    windows = Windows((down, shared or {}), (up, shared or {}), (queue, queue_up))
    found: dict[Hashable, float] = {}
    moments: list[tuple[float, int]] = [(t, -1) for t in looks]
    flights = []
    for number, each in enumerate(sent):
        way: Direction = "up" if each.up else "down"
        tcp = Tcp(congestion=each.congestion, tls=0)
        flights.append(passage(tcp, Way(each.rtt, each.loss), each.own, way, each.nbytes, each.start))
        moments.append((each.start, number))
    for t, number in sorted(moments):
        play(windows, t, found)
        if number < 0:
            for name, flight in enumerate(flights):
                assert (salt, name) not in windows._ways or windows.carried(t, (salt, name)) <= flight.wire
            continue
        each, flight = sent[number], flights[number]
        begin = t + flight.delay
        flow = (salt, number), flight.wire, flight.cap(begin), flight.weight, each.via, each.own, each.up
        windows.open(t, *flow, flight.sending, begin)
    play(windows, math.inf, found)
    return [found[salt, number] for number in range(len(sent))]


def play(windows: Windows, until: float, found: dict[Hashable, float]) -> None:
    while (t := windows.next_finish()) < until:
        assert t < 1e5, "nothing moves any more"
        found.update(dict.fromkeys(windows.advance(t), t))
    if until < math.inf:
        found.update(dict.fromkeys(windows.advance(until), until))


def one(nbytes: int, rate: float, rtt: float, queue: float, congestion: Congestion = "cubic") -> float:
    return ends([Sent(nbytes, rtt, congestion=congestion)], rate, queue)[0]


def wire(nbytes: int) -> int:
    return nbytes + -(-nbytes // MSS) * 52
