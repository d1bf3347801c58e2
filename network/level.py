"""Water levels of a tree of shared links, for many instants at once: weighted max-min by one pass from below.

A link's own level is found as if nothing above it were full; its flows then count above as bounded by it.  A flow's
rate is so the least of its cap and its weight times the lowest level on its way, and no link is looked at twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

FEW = 100  # instants times flows that are worked out one by one
STEPS = 200  # every other one halves the bracket; a few are usual


@dataclass(frozen=True)
class Pool:
    """A shared link: the columns of its flows, and what it has at each instant.

    The flows of one of airtime must have one weight: else what it passes up could fall as they get more from above.
    """

    flows: Places
    capacity: Floats  # (instants,) bytes/s, or of airtime s/s
    airtime: bool = False


def shares(caps: Floats, weights: Floats, radios: Floats, pools: Sequence[Pool]) -> Floats:
    """The rates of all flows at each instant, (instants, flows), from caps and radios of this shape.

    Pools come in order from the devices to the root; one of airtime has no pool below it.
    """
    if caps.size <= FEW and not any(pool.airtime for pool in pools):
        return np.array([_shares_at(i, row, weights.tolist(), pools) for i, row in enumerate(caps.tolist())])
    bounds = caps.copy()
    below: list[Pool] = []  # pools of airtime
    for pool in pools:
        if pool.airtime:
            below.append(pool)
            continue
        there = bounds[:, pool.flows]
        if (there.sum(axis=1) <= pool.capacity).all():
            continue
        inside = [air for air in below if np.isin(air.flows, pool.flows).all()]
        if inside:
            level = _level_above(bounds, weights, radios, pool, inside)
        else:
            level = fill(there, weights[pool.flows], pool.capacity)
        if level is not None:
            bounds[:, pool.flows] = np.minimum(there, weights[pool.flows] * level[:, None])
    for air in below:
        bounds[:, air.flows] = _on_air(bounds[:, air.flows], weights[air.flows], radios[:, air.flows], air.capacity)
    return bounds


def _shares_at(instant: int, bounds: list[float], weights: list[float], pools: Sequence[Pool]) -> list[float]:
    """The same at one instant, in place: an array of ten numbers is ten times as slow as a list."""
    for pool in pools:
        columns, room = pool.flows.tolist(), float(pool.capacity[instant])
        if sum([bounds[i] for i in columns]) > room:
            columns.sort(key=lambda i: bounds[i] / weights[i])
            rests = list(accumulate([weights[i] for i in reversed(columns)]))
            level = 0.0
            for i, rest in zip(columns, reversed(rests), strict=True):
                level = room / rest
                if bounds[i] > weights[i] * level:
                    break
                room = max(room - bounds[i], 0.0)
            for i in columns:
                bounds[i] = min(bounds[i], weights[i] * level)
    return bounds


def fill(bounds: Floats, weights: Floats, capacity: Floats) -> Floats | None:
    """The level at which sum(min(bound, weight * level)) is the capacity at each instant; inf where all bounds fit.

    None if they fit at each instant.
    """
    full = bounds.sum(axis=1) > capacity
    if not full.any():
        return None
    level = np.full(len(full), np.inf)
    level[full] = _fill(bounds[full], weights, capacity[full])
    return level


def _fill(bounds: Floats, weights: Floats, capacity: Floats) -> Floats:
    """The same where not all bounds fit: the first, by rising bound/weight, that is more than an equal share."""
    if weights.min() == weights.max():
        ordered = np.sort(bounds, axis=1)
        ratio, rest = ordered / weights[0], weights[0] * np.arange(len(weights), 0, -1)
    else:
        order = (bounds / weights).argsort(axis=1, kind="stable")
        ordered = np.take_along_axis(bounds, order, axis=1)
        ratio, rest = ordered / weights[order], weights[order][:, ::-1].cumsum(axis=1)[:, ::-1]
    before = np.zeros_like(ordered)
    ordered[:, :-1].cumsum(axis=1, out=before[:, 1:])
    beyond = ratio * rest > capacity[:, None] - before
    beyond[:, -1] = True  # by their sum; here it could be lost in rounding
    first = (np.arange(len(bounds)), beyond.argmax(axis=1))
    found: Floats = np.maximum(capacity - before[first], 0.0) / np.broadcast_to(rest, ratio.shape)[first]
    return found


def _on_air(bounds: Floats, weights: Floats, radios: Floats, capacity: Floats) -> Floats:
    """Rates with equal airtime: a radio that hears nothing sends nothing, and takes no time."""
    hears = radios > 0
    times = np.divide(np.minimum(bounds, radios), radios, out=np.zeros_like(bounds), where=hears)
    level = fill(times, weights, capacity)
    if level is None:
        return times * radios if not hears.all() else bounds
    return np.minimum(times, weights * level[:, None]) * radios


def _level_above(bounds: Floats, weights: Floats, radios: Floats, pool: Pool, inside: Sequence[Pool]) -> Floats | None:
    """The level of a link above links of airtime, by a bracket; inf where it is not full.

    What a link of airtime passes up never falls as the level rises: as its flows have one weight, the level binds the
    fast radios and the air the slow ones, so that time goes from slow to fast.  And it is linear in pieces: the secant
    is exact as soon as the bracket lies in one piece.
    """

    def excess(level: Floats, at: NDArray[np.bool_]) -> Floats:
        rates = np.minimum(bounds[at], weights * level[:, None])
        for air in inside:
            some = air.flows
            rates[:, some] = _on_air(rates[:, some], weights[some], radios[at][:, some], air.capacity[at])
        over: Floats = rates[:, pool.flows].sum(axis=1) - pool.capacity[at]
        return over

    most = np.minimum(bounds, 2 * pool.capacity[:, None])  # nobody has more, unless time limits it
    for air in inside:
        most[:, air.flows] = np.minimum(bounds, radios)[:, air.flows]
    reach = (most / weights)[:, pool.flows].max(axis=1)
    full = excess(reach, np.ones(len(bounds), dtype=bool)) > 0
    if not full.any():
        return None
    level = np.full(len(bounds), np.inf)
    level[full] = _root(lambda x: excess(x, full), reach[full], 1e-15 * pool.capacity[full])
    return level


def _root(excess: Callable[[Floats], Floats], high: Floats, tolerance: Floats) -> Floats:
    """Where each excess, negative at 0 and positive at `high`, is 0: secant and bisection in turn."""
    low = np.zeros_like(high)
    under, over = excess(low), excess(high)
    for step in range(STEPS):
        if (high - low <= 2**-52 * high).all():
            break
        slope = np.divide(under, under - over, out=np.full_like(low, 0.5), where=under != over)
        x = low + (high - low) * (slope if step % 2 == 0 else 0.5)
        value = excess(x)
        found = np.abs(value) <= tolerance
        low, under = np.where(found | (value < 0), x, low), np.where(found | (value < 0), value, under)
        high, over = np.where(found | (value > 0), x, high), np.where(found | (value > 0), value, over)
    return low
