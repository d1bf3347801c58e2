"""Rates that bound or scale another rate: TCP's slow start, and a factor.

They query the underlying rate, so the integral of a trace below them stays fast: its samples are walked one by one only
during slow start.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from network.links.rate import Constant, Rate
from network.links.trace import Floats

Piece = tuple[float, float, float]  # from and to, s; bytes/s between them


@dataclass(frozen=True)
class Ramp:
    """Slow start as a cap: the part of the rate `link` that a flow which begins at `begin` may use
    (docs/design/network.md §1).

    In round trip i, from begin + i * rtt on, the rate is bounded by window * growth^i / rtt.  The ramp ends, and only
    `link` bounds the flow, with the first round trip whose bound `link` never exceeds, or whose window holds the rest
    of the flow: TCP sends the last window in one burst.  On a constant link without sharing, the flow then ends at the
    time of the closed formula in docs/design/network.md §1, for any size.

    Windows grow with time, not with acknowledgements: a window that opens during an outage is too large after it.
    `window` and `nbytes` count the same bytes as `link`, here bytes on the wire.  Before `begin` nothing flows.  Raises
    ValueError unless rtt and window are positive and finite, and growth is from 1.1 to 4.
    """

    link: Rate
    begin: float  # s
    rtt: float  # s
    window: float  # bytes in flight in the first round trip
    growth: float = 2.0  # one segment more for each acknowledged one
    nbytes: float = math.inf  # bytes of the flow

    caps: list[float] = field(init=False, compare=False)  # the bound of each round trip of the ramp, bytes/s
    starts: list[float] = field(init=False, compare=False)  # start of each round trip, and end of the last one, s
    sent: list[float] = field(init=False, compare=False)  # bytes sent before each, and in all
    rises: bool = field(init=False, compare=False)  # never falls: in a round trip of the ramp only the window matters

    def __post_init__(self) -> None:
        if not 0 < self.rtt < math.inf:
            raise ValueError(f"rtt is {self.rtt} s; a ramp needs a positive, finite round trip")
        if not 0 < self.window < math.inf:
            raise ValueError(f"window is {self.window} bytes; a ramp needs a positive, finite one to begin with")
        check_growth(self.growth)
        caps, starts, sent = list[float](), [self.begin], [0.0]
        window, peak = self.window, self.link.peak
        while window / self.rtt < peak and sent[-1] + window < self.nbytes:
            caps.append(window / self.rtt)
            sent.append(sent[-1] + window)
            starts.append(self.begin + len(caps) * self.rtt)
            window *= self.growth
        for name, value in (("caps", caps), ("starts", starts), ("sent", sent)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "rises", isinstance(self.link, Constant))

    @property
    def end(self) -> float:
        """The time at which the ramp is over, s."""
        return self.starts[-1]

    @property
    def peak(self) -> float:
        return self.link.peak

    def at(self, t: float) -> float:
        number = bisect_right(self.starts, t) - 1
        if number == len(self.caps):
            return self.link.at(t)
        return min(self.link.at(t), self.caps[number]) if number >= 0 else 0.0

    def change(self, t: float) -> float:
        number = bisect_right(self.starts, t)
        if number == len(self.starts):
            return self.link.change(t)
        if self.rises:
            return self.starts[number]
        value = self.at(t)
        while t < self.end:
            t = self._next(t)
            if self.at(t) != value:
                return t
        return self.link.change(t)

    def carried(self, begin: float, end: float) -> float:
        if begin >= self.end:
            return self.link.carried(begin, end)
        if end > self.end:
            return self.carried(begin, self.end) + self.link.carried(self.end, end)
        if self.rises:
            return self._sent_by(end) - self._sent_by(begin)
        return sum(rate * (until - since) for since, until, rate in self._pieces(begin, end))

    def finish(self, begin: float, nbytes: float) -> float:
        if begin >= self.end or nbytes <= 0:
            return self.link.finish(begin, nbytes) if nbytes > 0 else begin
        left = nbytes
        if self.rises:
            left += self._sent_by(begin)
            number = bisect_left(self.sent, left) - 1
            if number < len(self.caps):
                return max(begin, self.starts[number] + (left - self.sent[number]) / self.caps[number])
            return self.link.finish(self.end, left - self.sent[-1])
        for since, until, rate in self._pieces(begin, self.end):
            if left <= rate * (until - since):
                return since + left / rate
            left -= rate * (until - since)
        return self.link.finish(self.end, left)

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        changes, rates = self.link.ahead(t, count)
        if t >= self.end:
            return changes, rates
        starts = np.array(self.starts)
        times = np.union1d(changes, starts[starts > t])[:count]
        below = np.append(self.link.at(t), rates)[np.searchsorted(changes, times, side="right")]
        return times, np.minimum(below, np.array([0.0, *self.caps, math.inf])[np.searchsorted(starts, times, "right")])

    def under(self, ceiling: float) -> Ramp:
        return self if ceiling >= self.peak else replace(self, link=self.link.under(ceiling))

    def _next(self, t: float) -> float:
        """Returns the first time after `t` at which the window or the link's rate may change, s; requires that the ramp
        is not over at `t`."""
        start = self.starts[bisect_right(self.starts, t)]
        return start if t < self.begin else min(self.link.change(t), start)

    def _sent_by(self, t: float) -> float:
        """Returns the bytes from the begin of the ramp to `t`, s; requires a link of constant rate, and `t` not after
        the end of the ramp."""
        number = min(bisect_right(self.starts, t), len(self.caps)) - 1
        return self.sent[number] + self.caps[number] * (t - self.starts[number]) if number >= 0 else 0.0

    def _pieces(self, begin: float, end: float) -> Iterator[Piece]:
        """Yields the rate from `begin` to `end` in pieces of constant rate; stops at the end of the ramp."""
        for cap, start, over in zip(self.caps, self.starts, self.starts[1:], strict=False):
            yield from _walk(self.link, max(begin, start), min(end, over), cap)


def _walk(rate: Rate, begin: float, end: float, ceiling: float) -> Iterator[Piece]:
    """Yields min(rate, ceiling) from `begin` to `end` in pieces of constant rate."""
    t = begin
    while t < end:
        until = min(rate.change(t), end)
        yield t, until, min(rate.at(t), ceiling)
        t = until


@dataclass(frozen=True)
class Scaled:
    """A rate multiplied by `factor`."""

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

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        times, values = self.rate.ahead(t, count)
        return times, values * self.factor

    def under(self, ceiling: float) -> Scaled:
        return self if ceiling >= self.peak else Scaled(self.rate.under(ceiling / self.factor), self.factor)


def check_growth(growth: float) -> None:
    """Raises ValueError unless slow start can grow by this factor."""
    if not 1.1 <= growth <= 4:
        raise ValueError(
            f"growth is {growth}; slow start multiplies its window by 1.1 to 4 each round trip (usually 2)"
        )
