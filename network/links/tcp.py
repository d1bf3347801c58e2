"""The cost of a transfer over TCP, TLS and HTTP: round trips before the first byte, headers, slow start, bounds.

This file keeps no time: `passage` returns the cost of one transfer, here called a flight; the emulator waits `delay`,
opens a flow of `wire` bytes under `cap`, and keeps `after` for the device's next flight.  Sources:
docs/design/network.md §1 (formula, measured on Linux 6.18) and §2 (SimGrid's models); RFC 5681 (slow start, restart
after idling), RFC 6928 (initial window of 10), RFC 9438 (cubic).

A device keeps one connection.  It asks for work by a long poll, so a download is the answer to a request, and an
upload is a request with a body.  Round trips before the first byte is at its receiver (`k_setup` in
docs/design/network.md §1):

             never opened, or no keep-alive               warm
  download   TCP 1 + TLS 0..2 + request 1                 1/2, or later if the poll is not at the server yet
  upload     TCP 1 + TLS 0..2 + 1/2                       1/2

A request costs one round trip of which the first half carries the question and the second half the first data; a poll
that waits has paid the first half, and of a POST the second half is only its answer.  After an upload the answer and
the next poll travel one round trip: a server that asks the same device at once waits for them, up to 1 1/2 in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from network.links.ramp import Ramp, Scaled, check_growth
from network.links.rate import Rate

Model = Literal["ideal", "tcp", "lv08", "cm02"]
Congestion = Literal["cubic", "reno", "bbr"]
Direction = Literal["down", "up"]

DIRECTIONS: tuple[str, ...] = get_args(Direction)
HEADERS = 52  # bytes a segment: IPv4 20, TCP 20, time stamps 12
ETHERNET = 14  # bytes a segment: addresses and type
MIN_RTO = 0.2  # s: Linux's TCP_RTO_MIN, a lower bound of the variance, so that a steady path has an RTO of RTT + 0.2
RTTS = (1e-3, 1e3)  # s: shares go as 1/RTT; no path through two kernels and a queue is shorter, and none is longer
GAMMA = 4194304  # bytes: SimGrid's network/TCP-gamma, the largest window


@dataclass(frozen=True)
class Simgrid:
    """The parameters of one of SimGrid's network models, for comparison."""

    latency: float  # factor
    rate: float  # factor
    weight_s: float  # bytes; a flow's penalty is the sum over links of latency + S/bandwidth
    cross: float  # share of a flow that its acknowledgements take of the same link

    @property
    def part(self) -> float:
        """The share of a link's rate that its flows can use."""
        return self.rate / (1 + self.cross)


SIMGRID = {"lv08": Simgrid(13.01, 0.97, 20537, 0.05), "cm02": Simgrid(1, 1, 0, 0)}


@dataclass(frozen=True)
class Tcp:
    """The transport on a link; each effect can be switched off.

    `ideal` is one-way latency, then the bytes at the link's rate.  `lv08` and `cm02` are SimGrid's models, for
    comparison; these three ignore all other settings.  Raises ValueError for impossible settings.
    """

    model: Model = "tcp"
    congestion: Congestion = "cubic"
    mss: int = 1448  # bytes of payload a segment: 1500 less HEADERS
    initial_window: int = 10  # segments
    growth: float = 2.0  # growth of the window in each round trip of slow start
    # bytes a receiver admits: half of tcp_rmem's maximum of 6 MiB, because tcp_adv_win_scale 1 leaves the other half to
    # the kernel's overhead (ip-sysctl, Linux to 6.15; 32 MiB since, where the sender's tcp_wmem of 4 MiB binds first).
    window: int = 3 * 2**20
    tls: int = 1  # round trips: TLS 1.3 1, TLS 1.2 2, resumed with early data or no TLS 0
    keep_alive: bool = True  # the connection stays open between request and reply, and between rounds
    idle_reset: bool = True  # a sender silent for longer than the RTO restarts slow start
    ethernet: bool = False  # the link's rate counts Ethernet's headers too
    windows: bool = False  # full links are network/windows', with queues and drops; else they are shared fairly at once

    def __post_init__(self) -> None:
        for name, kinds in (("model", Model), ("congestion", Congestion)):
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(get_args(kinds))}")
        for name in ("mss", "initial_window", "window"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be finite and at least 1")
        if self.tls not in (0, 1, 2):
            raise ValueError(
                f"tls is {self.tls} round trips; it must be 0 (none or resumed), 1 (TLS 1.3) or 2 (TLS 1.2)"
            )
        check_growth(self.growth)

    @property
    def segment(self) -> int:
        """The bytes of a full segment on the wire."""
        return self.mss + self._headers

    @property
    def _headers(self) -> int:
        return HEADERS + (ETHERNET if self.ethernet else 0)

    def wire(self, nbytes: int) -> int:
        """Returns the bytes on the wire: the payload, and headers for each segment."""
        return nbytes + -(-nbytes // self.mss) * self._headers

    @property
    def part(self) -> float:
        """The share of a shared link's capacity that flows can use: SimGrid's factor in its models, 1 in the others."""
        return SIMGRID[self.model].part if self.model in SIMGRID else 1.0

    def ceiling(self, way: Way) -> float:
        """Returns the highest rate that the receive window and the losses allow, bytes/s on the wire; inf without
        latency.

        A window is a number of segments and each is `segment` bytes on the wire, here as in slow start.
        """
        if way.rtt == 0:
            return math.inf
        return min(self.window / self.mss, self._loss_window(way)) * self.segment / way.rtt

    def _loss_window(self, way: Way) -> float:
        """Returns the mean congestion window under random losses, segments (RFC 9438 §5.1: C = 0.4, beta = 0.7)."""
        if way.loss == 0 or self.congestion == "bbr":
            return math.inf
        reno = 1.22 / math.sqrt(way.loss)
        return max(reno, 1.054 * (way.rtt / way.loss) ** 0.75) if self.congestion == "cubic" else reno

    def weight(self, way: Way) -> float:
        """Returns the flow's weight in the division of a shared link: 1/(RTT + queue), because congestion windows are
        alike; 1 for bbr.

        Only weights include the queue: delays and windows assume an empty queue.  Weights can be compared only among
        flows of one model and congestion control.
        """
        return 1.0 if self.congestion == "bbr" else 1 / min(max(way.rtt + way.queue, RTTS[0]), RTTS[1])

    @staticmethod
    def timeout(way: Way) -> float:
        """Returns the retransmission timeout (RTO), s, that Linux has on a path with a steady round trip.

        After so long a silence RFC 5681 restarts slow start.  Linux halves the window for each RTO of silence (RFC
        2861), which amounts to the same for a device that trains for seconds.
        """
        return way.rtt + MIN_RTO


@dataclass(frozen=True)
class Way:
    """The path of a flight between server and device, as it is at one instant.

    `achieved`: the link's rate was measured as throughput, so it already contains slow start, headers and bounds.
    Raises ValueError if the round trip or the queue is negative or not finite, or the loss is not a probability below
    1.
    """

    rtt: float  # s, there and back
    loss: float = 0.0  # probability, of a segment
    queue: float = 0.0  # s that the bottleneck's full buffer adds to a round trip; only weights use it
    achieved: bool = False
    shared: tuple[float, ...] = ()  # rates of shared links on the path, bytes/s, used by SimGrid's shares alone

    def __post_init__(self) -> None:
        for name in ("rtt", "queue"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)} s; it must be finite and at least 0")
        if not 0 <= self.loss < 1:
            raise ValueError(f"loss is {self.loss}; it is a probability from 0 to below 1")


class Sender(NamedTuple):
    """TCP's state as a sender at one end of a connection, which is kept from one transfer to the next."""

    window: float  # segments it may have in flight
    last: float  # s; arrival of its last byte
    threshold: float = math.inf  # segments, at which slow start ends


class Sending(NamedTuple):
    """TCP's state as the sender of a flow, before its first segment; network/windows simulates the flow from this
    state."""

    tcp: Tcp
    way: Way
    sender: Sender

    @property
    def limit(self) -> int:
        """The receive window in whole segments, at least 1."""
        return max(1, int(self.tcp.window / self.tcp.mss))


class Connection(NamedTuple):
    """An open connection between two flights (transfers).  Where None takes its place, the connection was never opened,
    or was cut."""

    asked: float  # s; time from which a request of the device waits at the server
    down: Sender  # the server
    up: Sender  # the device


class Climb(NamedTuple):
    """Slow start of a flow from a congestion window of `window` segments."""

    window: float
    rtt: float
    tcp: Tcp

    def ramp(self, link: Rate, begin: float, wire: int) -> Ramp:
        return Ramp(link, begin, self.rtt, self.window * self.tcp.segment, self.tcp.growth, wire)

    def window_after(self, link: Rate, wire: int) -> float:
        """Returns the congestion window after a flight of `wire` bytes, segments: it grows with each acknowledged
        segment, up to the segments that fill the link for one round trip."""
        full = link.peak * self.rtt / self.tcp.segment
        grown = self.window + (self.tcp.growth - 1) * wire / self.tcp.segment
        return max(self.window, min(grown, full))


class Passage(NamedTuple):
    """The cost of one flight, which is the transfer of one message in one direction."""

    delay: float  # s, before its first byte may flow
    wire: int  # bytes that flow
    weight: float  # on shared links
    link: Rate  # the device's own link, under its ceilings
    climb: Climb | None = None  # slow start, if there is any
    opened: Connection | None = None  # the connection in use, if it is kept
    direction: Direction = "down"
    rtt: float = 0.0  # s
    sending: Sending | None = None  # TCP's state as a sender

    def cap(self, begin: float) -> Rate:
        """Returns the upper bound of the flow's rate if its bytes start at `begin`, s, usually the end of the delay."""
        if self.climb is None:
            return self.link
        ramp = self.climb.ramp(self.link, begin, self.wire)
        return ramp if ramp.caps else self.link

    def after(self, landed: float, left: Sender | None = None) -> Connection | None:
        """Returns the connection after the flight's last byte has arrived at `landed`, s; None if the connection is not
        kept open.

        `left`: the sender's final state if it was simulated; without it, slow start determines the window.  Call this
        only for a complete flight: one that is cut leaves no connection, because a device that goes offline loses it.
        """
        if self.opened is None:
            return None
        _, down, up = self.opened
        before = down if self.direction == "down" else up
        window, _, threshold = before if left is None else left
        if left is None and self.climb is not None:
            window = self.climb.window_after(self.link, self.wire)
        sender = Sender(window, landed, threshold)
        if self.direction == "down":
            return Connection(landed + self.rtt * 0.5, sender, up)
        return Connection(landed + self.rtt, down, sender)


def passage(
    tcp: Tcp,
    way: Way,
    link: Rate,
    direction: Direction,
    nbytes: int,
    t: float,
    connection: Connection | None = None,
) -> Passage:
    """Returns the cost of sending `nbytes` of payload at time `t`, s, over the device's own `link`, bytes/s.

    The rate is bounded by `tcp.ceiling(way)` here.  To save time, callers with a long trace and a steady path can pass
    `trace.under(tcp.ceiling(way))`, made once.  Raises ValueError if nbytes is negative or the direction unknown.
    """
    if nbytes < 0:
        raise ValueError(f"nbytes is {nbytes}; it must be 0 or more")
    if direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}; it must be one of {', '.join(DIRECTIONS)}")
    if tcp.model == "ideal":
        return Passage(way.rtt / 2, nbytes, 1.0, link)
    if tcp.model in SIMGRID:
        return _simgrid(SIMGRID[tcp.model], way, link, nbytes)
    return _tcp(tcp, way, link, direction, nbytes, t, connection if tcp.keep_alive else None)


def _tcp(
    tcp: Tcp, way: Way, link: Rate, direction: Direction, nbytes: int, t: float, connection: Connection | None
) -> Passage:
    delay = _delay(tcp, way, direction, t, connection)
    fresh = Sender(tcp.initial_window, t + delay)
    opened = connection or Connection(t + delay - way.rtt / 2, fresh, fresh)
    kept = opened if tcp.keep_alive else None
    sender: Sender = getattr(opened, direction)
    if way.achieved:  # the measured rate includes slow start: the window is what the link holds
        held = max(tcp.initial_window, min(tcp.window / tcp.mss, link.at(t + delay) * way.rtt / tcp.segment))
        sending = Sending(tcp, way, Sender(held, t, held))
        return Passage(delay, nbytes, tcp.weight(way), link, None, kept, direction, way.rtt, sending)
    idle = t + delay - sender.last  # both at the receiver
    if tcp.idle_reset and idle > tcp.timeout(way):
        sender = _restarted(sender, tcp.initial_window)
    climb = Climb(sender.window, way.rtt, tcp) if way.rtt > 0 else None
    under, sending = link.under(tcp.ceiling(way)), Sending(tcp, way, sender)
    return Passage(delay, tcp.wire(nbytes), tcp.weight(way), under, climb, kept, direction, way.rtt, sending)


def _restarted(sender: Sender, window: int) -> Sender:
    """Returns the sender's state after a long silence: slow start from `window` segments up to three quarters of the
    earlier window (Linux's `tcp_cwnd_restart`), or without a threshold if none was known."""
    known = sender.threshold < math.inf
    return Sender(window, sender.last, max(sender.threshold, 0.75 * sender.window) if known else math.inf)


def _delay(tcp: Tcp, way: Way, direction: Direction, t: float, connection: Connection | None) -> float:
    """Returns the time until the first byte reaches its receiver, s, by the table at the top of this file."""
    if connection is not None:
        poll = max(0.0, connection.asked - t) if direction == "down" else 0.0
        return poll + way.rtt / 2
    return way.rtt * (1 + tcp.tls + (1.0 if direction == "down" else 0.5))


def _simgrid(model: Simgrid, way: Way, link: Rate, nbytes: int) -> Passage:
    """Returns the cost of a flight in a model of SimGrid (network_cm02.cpp), on a link that both directions share:
    first the latency, then the bytes.

    The window's bound and the penalty, the inverse of the weight, use the latency without the model's factor; a flow
    without latency has penalty 1.  The penalty counts the device's link and the shared links of `way`.
    """
    latency = way.rtt / 2
    rate = Scaled(link, model.part)
    under = rate.under(GAMMA / (2 * latency)) if latency else rate
    slowness = sum(model.weight_s / bandwidth for bandwidth in (link.peak, *way.shared) if bandwidth)
    penalty = latency + slowness if latency else 1.0
    return Passage(model.latency * latency, nbytes, 1 / min(penalty, RTTS[1]), under)
