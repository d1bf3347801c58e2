"""Caps and capacities ahead of time, and the bytes that flows carry from now to a horizon, as arrays (instants,
flows)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from network.links.rate import Constant, Rate
from network.sharing.flow import MOST
from network.sharing.level import Floats

FEW = 4  # smallest number of changes of one rate to look ahead
MANY = 16  # smallest number of changes to request together


class Ahead:
    """The values of a rate (a cap or a capacity) for a while ahead; each change of the rate is requested once."""

    def __init__(self, rate: Rate, t: float) -> None:
        self._rate = rate
        self.times, self.values = self._now(t)
        self.constant = isinstance(rate, Constant)  # from its last known change on

    def look(self, t: float, count: int) -> float:
        """Forgets values before `t` and requests the next `count` changes; returns the time up to which values are
        known, s, inf if the rate has no further change."""
        past = int(self.times.searchsorted(t, side="right")) - 1
        if past == len(self.times) - 1 and not self.constant:
            self.times, self.values = self._now(t)  # the values were not needed for a while
        elif past > 0:
            self.times, self.values = self.times[past:], self.values[past:]
        missing = count + 1 - len(self.times)
        if missing > 0 and not self.constant:
            times, values = self._changes(float(self.times[-1]), max(missing, count // 2, MANY))
            self.times = np.concatenate((self.times, times))
            self.values = np.concatenate((self.values, np.minimum(values, MOST)))
        return math.inf if self.constant else float(self.times[-1])

    def _now(self, t: float) -> tuple[Floats, Floats]:
        return np.array([t]), np.array([min(self._rate.at(t), MOST)])

    def _changes(self, t: float, count: int) -> tuple[Floats, Floats]:
        times, values = self._rate.ahead(t, count)
        self.constant = len(times) < count
        return times[times > t], values[times > t]


@dataclass(frozen=True)
class Course:
    """The rates of all flows from now until a horizon, and the bytes that they carry."""

    edges: Floats  # (instants + 1,) s, from now to the horizon
    rates: Floats  # (instants, flows) bytes/s
    carried: Floats  # (instants + 1, flows) bytes since now
    ends: Floats  # (flows,) s; inf if not before the horizon
    free: bool  # all run at their bounds, also without the others

    @property
    def due(self) -> float:
        return min(float(self.ends.min(initial=math.inf)), float(self.edges[-1]))

    def forget(self, column: int) -> None:
        """Removes the flow in a column; the rates of the others stay as they are."""
        self.rates[:, column], self.carried[:, column], self.ends[column] = 0.0, 0.0, math.inf

    def place(self, t: float) -> int:
        """Returns the index of the interval between `edges` that holds `t`."""
        return min(max(int(np.searchsorted(self.edges, t, side="right")) - 1, 0), len(self.rates) - 1)

    def carried_by(self, t: float) -> Floats:
        i = self.place(t)
        found: Floats = self.carried[i] + self.rates[i] * (t - self.edges[i])
        return found


def edges_of(aheads: Sequence[Ahead], t: float, instants: int) -> Floats:
    """Returns the times at which one of the rates changes: `t`, then up to `instants` changes after it.  The last is
    the horizon, up to which all rates are known, inf if none changes any more."""
    if not aheads:
        return np.array([t, math.inf])
    count = max(FEW, 2 * instants // len(aheads))  # for each trace; some may change more often than others
    horizon = min([ahead.look(t, count) for ahead in aheads])
    times = np.concatenate([ahead.times[1:] for ahead in aheads])
    times = times[(times > t) & (times < horizon)]
    times.sort()
    edges = np.concatenate(([t], times, [horizon]))
    return edges[np.concatenate(([True], edges[1:] > edges[:-1]))][: instants + 1]


def spread(row: Floats, varying: Mapping[int, Ahead], starts: Floats) -> Floats:
    """Returns `row`, one value for each column, repeated for each start, (starts, columns); the columns in `varying`
    have the values that their rates have at that start."""
    found = np.repeat(row[None, :], len(starts), axis=0)
    if varying:
        found[:, list(varying)] = _values(list(varying.values()), starts)
    return found


def _values(aheads: Sequence[Ahead], starts: Floats) -> Floats:
    """Returns the value of each rate just after each start, (starts, aheads)."""
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


def course(edges: Floats, rates: Floats, left: Floats, rounding: Floats, free: bool) -> Course:
    """Returns the course for given rates between edges, (edges - 1, flows) bytes/s; `left`: the bytes that each flow
    has left.

    `rounding`: the bytes of each flow that may be mere rounding: a flow with no more bytes left has ended, so that it
    does not wait for them through an outage.
    """
    spans = np.diff(edges)[:, None]
    carried = np.zeros((len(edges), rates.shape[1]))
    np.multiply(rates, np.minimum(spans, MOST), out=carried[1:])  # 0 bytes/s forever are 0 bytes
    if len(rates) > 1:  # for one row it would take as long as all the rest
        np.cumsum(carried, axis=0, out=carried)
    ends = np.full(rates.shape[1], np.inf)
    enough = left - rounding
    column = np.flatnonzero(carried[-1] >= enough)
    if len(column):
        row = (carried[1:, column] >= enough[column]).argmax(axis=0)
        wait = np.maximum(left[column] - carried[row, column], 0.0)
        speed = rates[row, column]
        wait = np.divide(wait, speed, out=np.zeros_like(wait), where=(wait > 0) & (speed > 0))
        ends[column] = np.minimum(edges[row] + wait, edges[row + 1])
    return Course(edges, rates, carried, ends, free)
