"""A device's link to the server: what it carries, each way."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from network.rate import Constant, Rate
from network.tcp import Connection, Passage, Tcp, Way, passage
from network.trace import Direction, Trace

IDEAL = Tcp(model="ideal")


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
    def varies(self) -> bool:
        """Whether a trace is replayed on it."""
        return isinstance(self.up, Trace) or isinstance(self.down, Trace)

    def starting(self, share: float) -> Link:
        """The same, its traces replayed from this share of their length on, from 0 to 1.

        Of both ways alike where both last as long: they were recorded together.
        """
        return replace(self, up=_starting(self.up, share), down=_starting(self.down, share)) if self.varies else self

    def passage(
        self, direction: Direction, nbytes: int, t: float, beyond: float = 0.0, connection: Connection | None = None
    ) -> Passage:
        """What it costs to send so many bytes at `t`; `beyond` is the one-way latency of the server's own link, s."""
        rate = self.rate(direction)
        return passage(self.tcp, self._way(rate, t, beyond), rate, direction, nbytes, t, connection)

    def _way(self, rate: Rate, t: float, beyond: float) -> Way:
        if not isinstance(rate, Trace):
            return Way(2 * (self.latency + beyond), self.loss)
        latency, loss = rate.latency_at(t), rate.loss_at(t)
        return Way(
            2 * ((self.latency if latency is None else latency) + beyond),
            self.loss if loss is None else min(loss, 0.999),
            achieved=rate.kind == "achieved",
        )


def _starting(rate: float | Rate, share: float) -> float | Rate:
    return rate.starting(share * rate.period) if isinstance(rate, Trace) else rate
