"""A recorded rate that is replayed: constant between its samples, and repeated forever."""

from __future__ import annotations

import copy
import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Direction = Literal["down", "up"]  # seen from the device
Kind = Literal["capacity", "achieved"]
"""What the bottleneck could carry, or the goodput of a download (TCP's start and headers are inside already)."""

SHORTEST = 1e-6  # s: a period far below the spacing of floats at 1e6 s could not be resolved
MOST = sys.float_info.max
ROUNDING = 2.0**-50  # four times the spacing of floats at 1
MANY = 100_000  # pieces: with more, tuples would take too much memory
KEPT = 2_000_000  # cached pieces of derived traces: some 300 MB


@dataclass(frozen=True, eq=False)
class Steps:
    """A piecewise constant rate that repeats with its period; times count from the start of a period.

    Neighbouring pieces of equal rate are merged.  Every query is a bisection in plain sequences, which is faster for a
    scalar than numpy.
    """

    edges: Sequence[float]  # s, n + 1 of them: 0, ..., the period
    rates: Sequence[float]  # bytes/s, n of them
    prefix: Sequence[float]  # bytes carried up to each edge; the last is the total of a period
    changes: Sequence[float]  # edges at which the rate changes, also across the seam of periods
    peak: float
    arrays: tuple[Floats, Floats]  # edges and rates again, for derived traces

    @classmethod
    def of(cls, edges: Floats, rates: Floats) -> Steps:
        kept = np.flatnonzero(np.r_[True, rates[1:] != rates[:-1]])
        edges, rates = np.append(edges[kept], edges[-1]), rates[kept]
        # longdouble: a day of 1 ms pieces must not accumulate the rounding of each
        prefix = np.cumsum(np.diff(edges) * rates, dtype=np.longdouble).astype(np.float64)
        starts = edges[:-1] if rates[0] != rates[-1] else edges[1:-1]
        return cls(
            edges=_plain(edges),
            rates=_plain(rates),
            prefix=_plain(np.append(0.0, prefix)),
            changes=_plain(starts),
            peak=float(rates.max()),
            arrays=(edges, rates),
        )

    @property
    def period(self) -> float:
        return self.edges[-1]

    @property
    def total(self) -> float:
        """Bytes carried in one period."""
        return self.prefix[-1]

    def at(self, t: float) -> float:
        # An instant from `change` may lie a rounding before its edge: it counts as the edge.
        u = t % self.edges[-1] + 4 * math.ulp(t)
        piece = bisect_right(self.edges, u) - 1
        return self.rates[piece if piece < len(self.rates) else 0]

    def change(self, t: float) -> float:
        if not self.changes:
            return math.inf
        turn, u = divmod(t, self.edges[-1])
        u += 4 * math.ulp(t)
        if u >= self.edges[-1]:
            turn, u = turn + 1, u - self.edges[-1]
        following = bisect_right(self.changes, u)
        if following == len(self.changes):
            turn, following = turn + 1, 0
        return turn * self.edges[-1] + self.changes[following]

    def carried(self, begin: float, end: float) -> float:
        if end == math.inf:
            return math.inf if self.total else 0.0
        first, u = divmod(begin, self.edges[-1])
        last, v = divmod(end, self.edges[-1])
        return (last - first) * self.total + (self._until(v) - self._until(u))

    def finish(self, begin: float, nbytes: float) -> float:
        if nbytes <= 0:
            return begin
        if not self.total:
            return math.inf
        turn, u = divmod(begin, self.edges[-1])
        target = self._until(u) + nbytes
        turns = target / self.total
        if math.isinf(turns):
            return math.inf
        # Bytes that fill a piece exactly end with it, and not after the outage that follows: the slack is rounding.
        slack = min(ROUNDING * (target + self.peak * (abs(begin) + turns * self.period)), 1e-9 * nbytes)
        whole = max(0.0, -((slack - target) / self.total // 1.0) - 1.0)
        left = min(max(target - whole * self.total, 0.0), self.total)
        piece = bisect_left(self.prefix, max(left - slack, math.ulp(0.0))) - 1
        u = self.edges[piece] + (left - self.prefix[piece]) / self.rates[piece]
        turn += whole
        # At most the next edge, and the next period: rounding must not make fewer bytes take longer.
        period = self.edges[-1]
        return min(turn * period + min(u, self.edges[piece + 1]), (turn + 1) * period)

    def _until(self, u: float) -> float:
        """Returns the bytes carried from the start of the period to `u` seconds after it."""
        piece = bisect_right(self.edges, u, 0, len(self.rates)) - 1
        return self.prefix[piece] + (u - self.edges[piece]) * self.rates[piece]


@dataclass(frozen=True, eq=False)
class Trace:
    """A recorded rate, replayed from `offset` and repeated with its period: a Rate.

    `edges`: n + 1 instants in s, the first 0 and the last the period; `rates`: the n rates between them in bytes/s.
    `latency` (s, one way) and `loss` (a fraction of packets), if the file has them, use the same edges.  `remark`: a
    warning about the file, as part of a sentence.  The arrays are copied and read-only.  Raises ValueError unless edges
    increase and all values are finite and not negative.
    """

    edges: Floats
    rates: Floats
    direction: Direction
    kind: Kind
    name: str = "trace"
    latency: Floats | None = None
    loss: Floats | None = None
    offset: float = field(default=0.0, kw_only=True)
    remark: str = field(default="", kw_only=True)
    _steps: Steps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for sort, said, known in (
            ("direction", self.direction, ("down", "up")),
            ("kind", self.kind, ("capacity", "achieved")),
        ):
            if said not in known:
                raise ValueError(f"the {sort} of {self.name} is {said!r}; it must be {known[0]} or {known[1]}")
        for column in ("edges", "rates", "latency", "loss"):
            if getattr(self, column) is not None:
                object.__setattr__(self, column, _frozen(getattr(self, column)))
        self._check()
        object.__setattr__(self, "_steps", Steps.of(self.edges, self.rates))
        if not math.isfinite(self._steps.total):
            raise ValueError(f"{self.name} carries {self._steps.total} bytes in a period; they must be a finite number")
        object.__setattr__(self, "offset", self._within(self.offset))

    def _check(self) -> None:
        n = len(self.rates)
        if n < 1 or len(self.edges) != n + 1 or self.edges[0] != 0 or not (np.diff(self.edges) > 0).all():
            raise ValueError(f"{self.name} has {len(self.edges)} edges for {n} rates; edges rise from 0, one more")
        if not SHORTEST <= self.edges[-1] < math.inf:
            raise ValueError(f"{self.name} lasts {self.edges[-1]} s; a trace lasts at least {SHORTEST} s")
        self._check_column("rate", self.rates, MOST)
        self._check_column("latency", self.latency, MOST)
        self._check_column("loss", self.loss, 1.0)

    def _check_column(self, name: str, values: Floats | None, top: float) -> None:
        if values is None:
            return
        n = len(self.rates)
        if len(values) != n or not ((values >= 0) & (values <= top)).all():
            raise ValueError(f"a {name} of {self.name} is not one of {n} numbers from 0 to {top:g}")

    @property
    def period(self) -> float:
        """Seconds after which the trace repeats."""
        return self._steps.period

    @property
    def peak(self) -> float:
        """The largest rate, bytes/s; 0 for a trace that carries nothing."""
        return self._steps.peak

    @property
    def mean(self) -> float:
        """Mean rate over a period, bytes/s."""
        return self._steps.total / self._steps.period

    def at(self, t: float) -> float:
        """Returns the rate just after `t`, bytes/s."""
        return self._steps.at(t + self.offset)

    def change(self, t: float) -> float:
        """Returns the first instant after `t` at which the rate changes, s; equal neighbouring samples are no change;
        inf if it never does."""
        return self._steps.change(t + self.offset) - self.offset

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        """Returns the next `count` changes after `t`, s, and the rates from each on; none if it never changes (see
        Rate.ahead)."""
        steps, n, period = self._steps, len(self._steps.changes), self._steps.period
        edges, rates = steps.arrays
        turn, u = divmod(t + self.offset, period)
        u += 4 * math.ulp(t + self.offset)
        if u >= period:
            turn, u = turn + 1, u - period
        first = bisect_right(steps.changes, u)
        if first + count <= n:  # before the end of the period: the same without divisions
            here = slice(first, first + count)
            return turn * period + edges[-1 - n : -1][here] - self.offset, rates[len(rates) - n :][here]
        turns, places = np.divmod(first + np.arange(count if n else 0), max(n, 1))
        return (turn + turns) * period + edges[-1 - n : -1][places] - self.offset, rates[len(rates) - n :][places]

    def carried(self, begin: float, end: float) -> float:
        """Returns the bytes carried between two instants, s: those of whole periods, and a difference of the prefix
        integral, so the cost does not grow with the samples in between."""
        return self._steps.carried(begin + self.offset, end + self.offset)

    def finish(self, begin: float, nbytes: float) -> float:
        """Returns the time at which `nbytes` bytes that start at `begin` have been carried, s, by a search in the
        prefix integral.

        Returns inf if a period carries nothing, and `begin` if there is nothing to carry.
        """
        if nbytes <= 0:
            return begin
        return max(begin, self._steps.finish(begin + self.offset, nbytes) - self.offset)

    def loops(self, begin: float, end: float) -> int:
        """Returns the number of times that the recording starts over between two instants of the replay, s."""
        return int((end + self.offset) // self.period - (begin + self.offset) // self.period)

    def latency_at(self, t: float) -> float | None:
        """Returns the one-way latency at `t`, s; None if the file has no latencies."""
        return self._sample(self.latency, t)

    def loss_at(self, t: float) -> float | None:
        """Returns the fraction of packets lost at `t`; None if the file has no losses."""
        return self._sample(self.loss, t)

    def starting(self, offset: float) -> Trace:
        """Returns this trace replayed from `offset` seconds into the file; the arrays are shared.

        Raises ValueError if the offset is not finite.
        """
        return self._but(offset=self._within(offset))

    def under(self, ceiling: float) -> Trace:
        """Returns this trace under a constant upper bound in bytes/s, such as TCP's window over the round trip.

        Raises ValueError unless the bound is positive.
        """
        if not ceiling > 0:
            raise ValueError(f"the ceiling is {ceiling} bytes/s; it must be positive")
        return self if ceiling >= self.peak else _UNDER(self, ceiling)

    def scaled(self, factor: float) -> Trace:
        """Returns this trace with every rate times `factor`. Raises ValueError unless the factor is positive and
        finite."""
        if not 0 < factor < math.inf:
            raise ValueError(f"the factor is {factor}; it must be positive and finite")
        return self if factor == 1 else _SCALED(self, factor)

    @cached_property
    def without_latency(self) -> Trace:
        """This trace without latencies; cached, because a thousand devices may replay it."""
        return self if self.latency is None else self._but(latency=None)

    def until(self, end: float) -> Trace:
        """Returns the recording's samples before `end`, s, as a trace from its start; all samples if the recording is
        shorter.

        Raises ValueError unless the result lasts at least SHORTEST.
        """
        if end >= self.period:
            return self.starting(0.0)
        n = int(np.searchsorted(self.edges, end, side="left"))
        kept = (None if values is None else values[:n] for values in (self.latency, self.loss))
        edges = np.append(self.edges[:n], end)
        return Trace(edges, self.rates[:n], self.direction, self.kind, self.name, *kept, remark=self.remark)

    def _but(self, **changes: Any) -> Trace:
        """Returns a copy with these fields replaced, without checking or integrating the rates again."""
        other = copy.copy(self)
        other.__dict__.pop("without_latency", None)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    def _within(self, offset: float) -> float:
        if not math.isfinite(offset):
            raise ValueError(f"the offset into {self.name} is {offset} s; it must be finite")
        return offset % self.period

    def _sample(self, values: Floats | None, t: float) -> float | None:
        if values is None:
            return None
        piece = int(np.searchsorted(self.edges, (t + self.offset) % self.period, side="right")) - 1
        return float(values[min(piece, len(values) - 1)])


def _plain(values: Floats) -> Sequence[float]:
    """Returns the values as a tuple, which is searched fastest; if they are many, as an array, which is a quarter as
    large."""
    return tuple(values.tolist()) if len(values) <= MANY else array("d", values.tobytes())


class Remembered:
    """A cache of a function that derives a trace from a trace and a number, because a thousand devices may replay one
    file.

    The limit KEPT counts the pieces of the cached traces and not the traces, because a trace may be of any size.
    """

    def __init__(self, make: Callable[[Trace, float], Trace]) -> None:
        self._make = make
        self._kept: dict[tuple[int, float], tuple[Steps, Trace]] = {}  # the steps keep their id from being another's
        self._pieces = 0

    def __call__(self, trace: Trace, number: float) -> Trace:
        key = id(trace._steps), number
        held = self._kept.pop(key, None)
        if held is None:
            held = trace._steps, self._make(trace, number)
            self._pieces += len(held[1].rates)
        self._kept[key] = held  # the most recent one
        while self._pieces > KEPT and len(self._kept) > 1:
            self._pieces -= len(self._kept.pop(next(iter(self._kept)))[1].rates)
        made = held[1]
        return made._but(offset=trace.offset, latency=trace.latency, loss=trace.loss)


def _bounded(trace: Trace, ceiling: float) -> Trace:
    edges, rates = trace._steps.arrays
    lower = _frozen(np.minimum(trace.rates, ceiling))
    return trace._but(rates=lower, _steps=Steps.of(edges, np.minimum(rates, ceiling)))


def _times(trace: Trace, factor: float) -> Trace:
    edges, rates = trace._steps.arrays
    return trace._but(rates=_frozen(trace.rates * factor), _steps=Steps.of(edges, rates * factor))


_UNDER, _SCALED = Remembered(_bounded), Remembered(_times)


def begun(rate: Any, share: float) -> Any:
    """Returns the rate; if it is a trace, replayed from `share` of its length on, from 0 to 1."""
    return rate.starting(share * rate.period) if isinstance(rate, Trace) else rate


def scaled(rate: Any, factor: float) -> Any:
    """Returns the rate, a trace or a number, times a factor."""
    return rate.scaled(factor) if isinstance(rate, Trace) else rate * factor


def _frozen(values: npt.ArrayLike) -> Floats:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array
