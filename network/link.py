"""A device's link to the server: what it carries, each way."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath

import numpy as np

from network.rate import Constant, Rate
from network.tcp import Connection, Passage, Tcp, Way, passage
from network.trace import Direction, Trace

IDEAL = Tcp(model="ideal")
WORST = 0.999  # a recorded loss is at most this: with 1 nothing would ever arrive


@dataclass(frozen=True)
class Link:
    """A link seen from the device: a constant rate each way, or one that changes as a trace does.

    `tcp` says what becomes of bytes on it, `via` behind which shared access point or cell it is.  A latency or loss
    that a trace has recorded wins over the link's.  Raises ValueError if a constant rate is not positive and finite,
    the latency negative or not finite, or the loss no probability below 1.
    """

    up: float | Rate  # bytes/s, from the device to the server
    down: float | Rate  # bytes/s, from the server to the device
    latency: float  # s, one way
    loss: float = 0.0  # probability, of a segment
    tcp: Tcp = IDEAL
    via: str | None = None

    def __post_init__(self) -> None:
        for name, rate in (("up", self.up), ("down", self.down)):
            if isinstance(rate, (int, float)) and not 0 < rate < math.inf:
                raise ValueError(f"{name} is {rate} bytes/s; a link needs a positive, finite rate")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency is {self.latency} s; it must be finite and at least 0")
        if not 0 <= self.loss < 1:
            raise ValueError(f"loss is {self.loss}; it is a probability from 0 to below 1")

    @classmethod
    def of(cls, up_mbit_s: float, down_mbit_s: float, latency_ms: float) -> Link:
        """A link in the units of data sheets: Mbit = 1e6 bits, and the latency is one way."""
        return cls(up_mbit_s * 1e6 / 8, down_mbit_s * 1e6 / 8, latency_ms / 1e3)

    def rate(self, direction: Direction) -> Rate:
        """What it carries that way."""
        rate = self.down if direction == "down" else self.up
        return Constant(float(rate)) if isinstance(rate, (int, float)) else rate

    def mean(self, direction: Direction) -> float:
        """Bytes/s that way, in the long run."""
        rate = self.rate(direction)
        return rate.mean if isinstance(rate, Trace) else rate.peak

    @property
    def mean_latency(self) -> float:
        """Seconds one way in the long run: of the downlink's trace, if it has recorded any."""
        if not isinstance(self.down, Trace) or self.down.latency is None:
            return self.latency
        return float(np.average(self.down.latency, weights=np.diff(self.down.edges)))

    @property
    def varies(self) -> bool:
        """Whether a trace is replayed on it."""
        return isinstance(self.up, Trace) or isinstance(self.down, Trace)

    @property
    def repeats(self) -> tuple[float, str]:
        """After how many seconds its shortest trace starts over, and what that is called; inf if nothing does."""
        traces = [way for way in (self.down, self.up) if isinstance(way, Trace)]
        return min(((way.period, PurePath(way.name).name) for way in traces), default=(math.inf, ""))

    def starting(self, share: float) -> Link:
        """The same, its traces replayed from this share of their length on, from 0 to 1.

        Of both ways alike where both last as long: they were recorded together.
        """
        return replace(self, up=_starting(self.up, share), down=_starting(self.down, share)) if self.varies else self

    def at(self, latency: float) -> Link:
        """The same with this latency, s one way, also where its traces have recorded others."""
        return replace(self, up=_unstamped(self.up), down=_unstamped(self.down), latency=latency)

    def passage(
        self, direction: Direction, nbytes: int, t: float, beyond: float = 0.0, connection: Connection | None = None
    ) -> Passage:
        """What it costs to send so many bytes at `t`; `beyond` is the one-way latency of the server's own link, s."""
        rate = self.rate(direction)
        return passage(self.tcp, self._way(rate, t, beyond), rate, direction, nbytes, t, connection)

    def at_best(self, direction: Direction, nbytes: int, beyond: float, connection: Connection) -> Passage:
        """As `passage`, with the least latency and loss of the recorded ones."""
        rate = self.rate(direction)
        latency, loss = self.latency, self.loss
        if isinstance(rate, Trace):
            latency = latency if rate.latency is None else float(rate.latency.min())
            loss = loss if rate.loss is None else float(rate.loss.min())
        achieved = isinstance(rate, Trace) and rate.kind == "achieved"
        way = Way(2 * (latency + beyond), min(loss, WORST), achieved=achieved)
        return passage(self.tcp, way, rate, direction, nbytes, 0.0, connection)

    def _way(self, rate: Rate, t: float, beyond: float) -> Way:
        if not isinstance(rate, Trace):
            return Way(2 * (self.latency + beyond), self.loss)
        latency, loss = rate.latency_at(t), rate.loss_at(t)
        return Way(
            2 * ((self.latency if latency is None else latency) + beyond),
            self.loss if loss is None else min(loss, WORST),
            achieved=rate.kind == "achieved",
        )


def _starting(rate: float | Rate, share: float) -> float | Rate:
    return rate.starting(share * rate.period) if isinstance(rate, Trace) else rate


def _unstamped(rate: float | Rate) -> float | Rate:
    return _without_latency(rate) if isinstance(rate, Trace) and rate.latency is not None else rate


@lru_cache(maxsize=256)
def _without_latency(trace: Trace) -> Trace:
    """Made once: a trace may be long, and a thousand devices may replay it."""
    return replace(trace, latency=None)
