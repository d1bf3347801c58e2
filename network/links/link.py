"""A device's link to the server: its rates, latency and loss, each way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from network.links.rate import Constant, Rate, mean
from network.links.tcp import Connection, Passage, Tcp, Way, passage
from network.links.trace import Direction, Floats, Trace, begun

IDEAL = Tcp(model="ideal")
WORST = 0.999  # a recorded loss is capped at this: with 1 nothing would ever arrive


@dataclass(frozen=True)
class Link:
    """A device's link to the server: a constant rate each way, or one that changes as a trace does.

    `tcp`: the transport; `via`: the name of the shared access point or cell that connects the link, None without one.
    A loss or a latency recorded in a trace replaces the link's; a direction without a recorded latency has that of the
    other direction's trace.  Raises ValueError if a constant rate is not positive and finite, the latency or the buffer
    is negative or not finite, or the loss is not a probability below 1.
    """

    up: float | Rate  # bytes/s, from the device to the server
    down: float | Rate  # bytes/s, from the server to the device
    latency: float  # s, one way
    loss: float = 0.0  # probability, of a segment
    tcp: Tcp = IDEAL
    via: str | None = None
    buffer: float = 0.0  # bytes that may wait each way, for the server's link: its flows share the buffer

    def __post_init__(self) -> None:
        for name, rate in (("up", self.up), ("down", self.down)):
            if isinstance(rate, (int, float)) and not 0 < rate < math.inf:
                raise ValueError(f"{name} is {rate} bytes/s; a link needs a positive, finite rate")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency is {self.latency} s; it must be finite and at least 0")
        if not 0 <= self.loss < 1:
            raise ValueError(f"loss is {self.loss}; it is a probability from 0 to below 1")
        if not 0 <= self.buffer < math.inf:
            raise ValueError(f"buffer is {self.buffer} bytes; it must be finite and at least 0")

    @classmethod
    def of(cls, up_mbit_s: float, down_mbit_s: float, latency_ms: float) -> Link:
        """Returns a link from the units of data sheets: rates in Mbit/s of 1e6 bits, and the one-way latency in ms."""
        return cls(up_mbit_s * 1e6 / 8, down_mbit_s * 1e6 / 8, latency_ms / 1e3)

    def rate(self, direction: Direction) -> Rate:
        """Returns the link's rate in one direction."""
        return self._rates[direction]

    def mean(self, direction: Direction) -> float:
        """Returns the mean rate in one direction over the long run, bytes/s."""
        return mean(self.rate(direction))

    @property
    def mean_latency(self) -> float:
        """The mean one-way latency of downloads over the long run, s."""
        return self._recorded("down", lambda trace, values: float(np.average(values, weights=np.diff(trace.edges))))

    @cached_property
    def varies(self) -> bool:
        """True if the link replays a trace."""
        return isinstance(self.up, Trace) or isinstance(self.down, Trace)

    @property
    def repeats(self) -> float:
        """Seconds after which the link's shortest trace starts over; inf if the link replays no trace."""
        return min((way.period for way in (self.down, self.up) if isinstance(way, Trace)), default=math.inf)

    def starting(self, share: float) -> Link:
        """Returns this link with its traces replayed from an offset, given as a share of their length from 0 to 1.

        Both directions have the same offset if they are equally long, because they were recorded together.
        """
        return replace(self, up=begun(self.up, share), down=begun(self.down, share)) if self.varies else self

    def at(self, latency: float) -> Link:
        """Returns this link with another one-way latency, s, instead of any that its traces have recorded."""
        return replace(self, up=_unstamped(self.up), down=_unstamped(self.down), latency=latency)

    def passage(
        self,
        direction: Direction,
        nbytes: int,
        t: float,
        beyond: float = 0.0,
        connection: Connection | None = None,
        shared: tuple[float, ...] = (),
        queue: float = 0.0,
    ) -> Passage:
        """Returns the cost of sending `nbytes` bytes of payload at time `t`, s: the delay, the bytes on the wire, and
        the bounds of their rate.

        `beyond`: the one-way latency of the server's own link, s; `connection`: the open connection, None without one;
        `shared`: the rates of shared links on the path, bytes/s; `queue`: the seconds that the full buffers of the
        shared links add to a round trip.
        """
        rate = self.rate(direction)
        way = self._way_at(direction, t, beyond, shared, queue)
        return passage(self.tcp, way, rate, direction, nbytes, t, connection)

    @cached_property
    def _rates(self) -> Mapping[Direction, Rate]:
        return {"down": _rate(self.down), "up": _rate(self.up)}

    @cached_property
    def _ways(self) -> dict[tuple[object, ...], Way]:
        """A cache of the paths that `_way_at` returns, by direction, latency, loss, shared rates and queue.  For given
        shared links, a trace adds at most one path for each of its pieces."""
        return {}

    def _way_at(self, direction: Direction, t: float, beyond: float, shared: tuple[float, ...], queue: float) -> Way:
        rate, latency, loss = self.rate(direction), self.latency, None
        if self.varies:
            latency = self._recorded(direction, lambda trace, _: trace.latency_at(t) or 0.0)
            loss = rate.loss_at(t) if isinstance(rate, Trace) else None
        key = direction, latency + beyond, loss, shared, queue
        if key not in self._ways:
            self._ways[key] = self._way(rate, latency + beyond, loss, shared, queue)
        return self._ways[key]

    def at_best(self, direction: Direction, nbytes: int, beyond: float, connection: Connection) -> Passage:
        """Returns the same as `passage` at time 0, but at the lowest latency and loss that the traces have recorded,
        and without shared links."""
        rate = self.rate(direction)
        latency = self._recorded(direction, lambda _, values: float(values.min()))
        loss = float(rate.loss.min()) if isinstance(rate, Trace) and rate.loss is not None else None
        return passage(self.tcp, self._way(rate, latency + beyond, loss), rate, direction, nbytes, 0.0, connection)

    def _recorded(self, direction: Direction, latency: Callable[[Trace, Floats], float]) -> float:
        """Returns `latency(trace, trace.latency)` for the trace of this direction, s; if that has no latencies, for the
        trace of the other direction, because both take one path; if neither has any, the link's own latency."""
        for rate in (self.down, self.up) if direction == "down" else (self.up, self.down):
            if isinstance(rate, Trace) and rate.latency is not None:
                return latency(rate, rate.latency)
        return self.latency

    def _way(
        self, rate: Rate, latency: float, loss: float | None, shared: tuple[float, ...] = (), queue: float = 0.0
    ) -> Way:
        achieved = isinstance(rate, Trace) and rate.kind == "achieved"
        return Way(2 * latency, self.loss if loss is None else min(loss, WORST), queue, achieved, shared)


def _rate(rate: float | Rate) -> Rate:
    return Constant(float(rate)) if isinstance(rate, (int, float)) else rate


def _unstamped(rate: float | Rate) -> float | Rate:
    return rate.without_latency if isinstance(rate, Trace) else rate
