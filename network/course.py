"""Rates ahead of time: what flows carry between now and a horizon, as arrays of instants by flows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from network.flow import MOST, next_change
from network.level import Floats
from network.rate import Constant, Rate


class Ahead:
    """What a rate will be for a while: it is asked once for each of its changes.

    A rate may have a method `ahead(t, count)`: the next so many changes after t, s, and the rates from then on, as two
    arrays; fewer only if there are no more.  That is faster than to ask for one after the other.
    """

    def __init__(self, rate: Rate, t: float) -> None:
        self._rate = rate
        self._many: Callable[[float, int], tuple[Floats, Floats]] | None = getattr(rate, "ahead", None)
        self.times, self.values = self._now(t)
        self.constant = isinstance(rate, Constant)  # from its last known change on

    def look(self, t: float, count: int) -> float:
        """Forgets what was before t and learns the next so many changes; until when it knows the rate."""
        past = int(self.times.searchsorted(t, side="right")) - 1
        if past == len(self.times) - 1 and not self.constant:
            self.times, self.values = self._now(t)  # it was of no interest for a while
        elif past > 0:
            self.times, self.values = self.times[past:], self.values[past:]
        missing = count + 1 - len(self.times)
        if missing > 0 and not self.constant:
            times, values = self._changes(float(self.times[-1]), max(missing, count // 2))
            self.times = np.concatenate((self.times, times))
            self.values = np.concatenate((self.values, np.minimum(values, MOST)))
        return math.inf if self.constant else float(self.times[-1])

    def _now(self, t: float) -> tuple[Floats, Floats]:
        return np.array([t]), np.array([min(self._rate.at(t), MOST)])

    def _changes(self, t: float, count: int) -> tuple[Floats, Floats]:
        if self._many is not None:
            times, values = self._many(t, count)
            self.constant = len(times) < count
            return times[times > t], values[times > t]
        found: list[tuple[float, float]] = []
        while len(found) < count and (change := next_change(self._rate, t)) < math.inf:
            found.append((change, self._rate.at(change)))
            t = change
        self.constant = len(found) < count
        pairs = np.array(found).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


@dataclass(frozen=True)
class Course:
    """The rates of all flows from now until a horizon, and what they carry."""

    edges: Floats  # (instants + 1,) s, from now to the horizon
    rates: Floats  # (instants, flows) bytes/s
    carried: Floats  # (instants + 1, flows) bytes since now
    ends: Floats  # (flows,) s; inf if not before the horizon

    @property
    def due(self) -> float:
        return min(float(self.ends.min(initial=math.inf)), float(self.edges[-1]))

    def place(self, t: float) -> int:
        """Between which edges t is."""
        return min(max(int(np.searchsorted(self.edges, t, side="right")) - 1, 0), len(self.rates) - 1)

    def carried_by(self, t: float) -> Floats:
        i = self.place(t)
        found: Floats = self.carried[i] + self.rates[i] * (t - self.edges[i])
        return found


def edges_of(aheads: Sequence[Ahead], t: float, depth: int) -> Floats:
    """All changes from t until the first instant at which something is not known: after so many changes of it."""
    if not aheads:
        return np.array([t, math.inf])
    horizon = min([ahead.look(t, depth) for ahead in aheads])
    times = np.concatenate([ahead.times[1:] for ahead in aheads])
    between = np.unique(times[(times > t) & (times < horizon)])
    return np.concatenate(([t], between, [horizon]))


def spread(row: Floats, varying: Mapping[int, Ahead], starts: Floats) -> Floats:
    """Each value of the row at each start, (starts, row); the columns that vary are as they know."""
    found = np.repeat(row[None, :], len(starts), axis=0)
    if varying:
        found[:, list(varying)] = _values(list(varying.values()), starts)
    return found


def _values(aheads: Sequence[Ahead], starts: Floats) -> Floats:
    """What each is from each start on, (starts, aheads)."""
    counts = np.array([len(ahead.values) for ahead in aheads])
    values = np.concatenate([ahead.values for ahead in aheads])
    first = np.concatenate(([0], counts.cumsum()[:-1]))
    latest = np.repeat(first[None, :], len(starts), axis=0)
    if len(values) > len(aheads):
        times = np.concatenate([ahead.times for ahead in aheads])
        column = np.repeat(np.arange(len(aheads)), counts)
        row = np.searchsorted(starts, times, side="left")
        seen = (row < len(starts)) & (times > starts[0])
        latest[row[seen], column[seen]] = np.flatnonzero(seen)
        latest = np.maximum.accumulate(latest, axis=0)
    found: Floats = values[latest]
    return found


def course(edges: Floats, rates: Floats, left: Floats) -> Course:
    """From the rates between the edges, (edges - 1, flows) bytes/s, and the bytes that each flow has left."""
    carried = np.zeros((len(edges), rates.shape[1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        spans = np.where(rates > 0, rates * np.diff(edges)[:, None], 0.0)
        spans.cumsum(axis=0, out=carried[1:])
        done = carried[1:] >= left * (1 - 2**-50)
        row = done.argmax(axis=0)
        column = np.arange(rates.shape[1])
        wait = np.maximum(left - carried[row, column], 0.0) / rates[row, column]
        ends = np.minimum(edges[row] + np.where(left > 0, wait, 0.0), edges[row + 1])
    return Course(edges, rates, carried, np.where(done[row, column], ends, np.inf))
