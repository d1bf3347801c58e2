"""Rates that bound another rate: TCP's slow start, a ceiling, a factor.

They ask the rate below them, so that a trace under a ramp is still integrated and never walked once the ramp is over.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from network.rate import Constant, Rate

Piece = tuple[float, float, float]  # from and to, s; bytes/s between them


@dataclass(frozen=True)
class Ramp:
    """Slow start as a cap: what a flow that begins at `begin` may carry of the rate `link` (network.md §1).

    In round trip i, from begin + i * rtt on, it is bounded by window * growth^i / rtt.  The ramp is over, and the flow
    bounded by `link` alone for ever, with the first round trip whose bound `link` never exceeds, or whose window holds
    all of the flow that full windows have left: TCP sends the last window in one burst.  On a constant link that
    nobody shares it so ends where the closed sum of §1 says, whatever its size.

    The windows count in time, not in what was acknowledged: one that opens during an outage is too large after it.
    `window` and `nbytes` are bytes of the same sort as those of `link`, here those on the wire.  Before `begin`
    nothing flows.  Raises ValueError unless rtt and window are positive and finite, and growth in 1.1..4.
    """

    link: Rate
    begin: float  # s
    rtt: float  # s
    window: float  # bytes in flight in the first round trip
    growth: float = 2.0  # a segment more for each one acknowledged
    nbytes: float = math.inf  # of the flow

    def __post_init__(self) -> None:
        if not 0 < self.rtt < math.inf:
            raise ValueError(f"rtt is {self.rtt} s; a ramp needs a positive, finite round trip")
        if not 0 < self.window < math.inf:
            raise ValueError(f"window is {self.window} bytes; a ramp needs a positive, finite one to begin with")
        check_growth(self.growth)

    @cached_property
    def caps(self) -> list[float]:
        """The bound of each round trip of the ramp, bytes/s; empty if there is no ramp to climb."""
        caps: list[float] = []
        window, sent, peak = self.window, 0.0, self.link.peak
        while window / self.rtt < peak and sent + window < self.nbytes:
            caps.append(window / self.rtt)
            sent += window
            window *= self.growth
        return caps

    @cached_property
    def starts(self) -> list[float]:
        """When each round trip of the ramp begins, and when the last one is over, s."""
        return [self.begin + i * self.rtt for i in range(len(self.caps) + 1)]

    @property
    def end(self) -> float:
        """When the ramp is over, s."""
        return self.starts[-1]

    @property
    def peak(self) -> float:
        return self.link.peak

    def at(self, t: float) -> float:
        if t < self.begin:
            return 0.0
        return min(self.link.at(t), self._cap(t))

    def change(self, t: float) -> float:
        value = self.at(t)
        while t < self.end:
            t = self._next(t)
            if self.at(t) != value:
                return t
        return self.link.change(t)

    def carried(self, begin: float, end: float) -> float:
        slow = sum(rate * (until - since) for since, until, rate in self._pieces(begin, end))
        return slow + self.link.carried(max(begin, self.end), end) if end > self.end else slow

    def finish(self, begin: float, nbytes: float) -> float:
        left = nbytes
        for since, until, rate in self._pieces(begin, self.end):
            if left <= rate * (until - since):
                return since + left / rate if left > 0 else begin
            left -= rate * (until - since)
        return self.link.finish(max(begin, self.end), left) if nbytes > 0 else begin

    def _cap(self, t: float) -> float:
        """The bound of slow start at `t`, not before `begin`; inf after the ramp."""
        number = bisect_right(self.starts, t) - 1
        return self.caps[number] if number < len(self.caps) else math.inf

    def _next(self, t: float) -> float:
        """When the ramp or the link may change next, before the ramp is over."""
        start = self.starts[bisect_right(self.starts, t)]
        return start if t < self.begin else min(self.link.change(t), start)

    def _pieces(self, begin: float, end: float) -> Iterator[Piece]:
        """What may flow from `begin` until `end`, but no further than the end of the ramp."""
        for cap, start, over in zip(self.caps, self.starts, self.starts[1:], strict=False):
            yield from _walk(self.link, max(begin, start), min(end, over), cap)


@dataclass(frozen=True)
class Clipped:
    """A rate that never exceeds `ceiling`, bytes/s: exact, but it walks from change to change.

    `change` may name an instant at which the ceiling hides that the rate changed.
    """

    rate: Rate
    ceiling: float

    @property
    def peak(self) -> float:
        return min(self.rate.peak, self.ceiling)

    def at(self, t: float) -> float:
        return min(self.rate.at(t), self.ceiling)

    def change(self, t: float) -> float:
        return self.rate.change(t)

    def carried(self, begin: float, end: float) -> float:
        return sum(rate * (until - since) for since, until, rate in _walk(self.rate, begin, end, self.ceiling))

    def finish(self, begin: float, nbytes: float) -> float:
        if nbytes <= 0:
            return begin
        # Where the rate alone never carries them, the walk would have no end.
        if self.rate.finish(begin, nbytes) == math.inf:
            return math.inf
        left = nbytes
        for since, until, rate in _walk(self.rate, begin, math.inf, self.ceiling):
            if rate > 0 and left <= rate * (until - since):
                return since + left / rate
            left -= rate * (until - since) if rate > 0 else 0.0
        return math.inf


def _walk(rate: Rate, begin: float, end: float, ceiling: float) -> Iterator[Piece]:
    """A rate under a ceiling, from change to change."""
    t = begin
    while t < end:
        until = min(rate.change(t), end)
        yield t, until, min(rate.at(t), ceiling)
        t = until


@runtime_checkable
class Clippable(Rate, Protocol):
    """A rate that knows itself under a ceiling, better than by walking."""

    def under(self, ceiling: float) -> Rate:
        """min(rate, ceiling), bytes/s."""


@dataclass(frozen=True)
class Scaled:
    """`factor` times a rate."""

    rate: Rate
    factor: float

    @property
    def peak(self) -> float:
        return self.rate.peak * self.factor

    def at(self, t: float) -> float:
        return self.rate.at(t) * self.factor

    def change(self, t: float) -> float:
        return self.rate.change(t)

    def carried(self, begin: float, end: float) -> float:
        return self.rate.carried(begin, end) * self.factor

    def finish(self, begin: float, nbytes: float) -> float:
        return self.rate.finish(begin, nbytes / self.factor)

    def under(self, ceiling: float) -> Rate:
        return Scaled(bounded(self.rate, ceiling / self.factor), self.factor)


def bounded(rate: Rate, ceiling: float) -> Rate:
    """min(rate, ceiling), bytes/s: the rate itself where the ceiling binds nowhere.

    A trace under a ceiling costs a walk through it: who asks often keeps the answer.
    """
    if ceiling >= rate.peak:
        return rate
    if isinstance(rate, Constant):
        return Constant(ceiling)
    return rate.under(ceiling) if isinstance(rate, Clippable) else Clipped(rate, ceiling)


def check_growth(growth: float) -> None:
    """Raises ValueError unless slow start can grow so."""
    if not 1.1 <= growth <= 4:
        raise ValueError(
            f"growth is {growth}; slow start multiplies its window by 1.1 to 4 each round trip (usually 2)"
        )
