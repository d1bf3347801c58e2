"""Water levels of shared links, for many instants at once: weighted max-min.

Links of bytes form one tree for each direction.  One pass from the devices to the root solves a tree: the level of a
link is found as if no link above it were full, and above it its flows count as bounded by that level.  The rate of a
flow is then the smaller of its cap and its weight times the lowest level on its way.

Links of airtime are below all others, and the directions meet there: what flows of one leave of the time, those of the
other have.  They need more than one pass (see `_on_air`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

FEW = 100  # instants times flows that are worked out one by one
STEPS = 200  # of levels on air; a few are usual
NEAR = 2.0**-50  # levels that differ by no more, relatively, are one
IDLE = 2.0  # s of sending in a second: nobody has as much, so that a level of time that is as high bounds nobody


@dataclass(frozen=True)
class Pool:
    """A shared link: the columns of its flows, and its capacity at each instant.

    All flows of a link of airtime must have one weight: each gets the same airtime, or less if it needs less.
    """

    flows: Places
    capacity: Floats  # (instants,) bytes/s, or of airtime s/s
    airtime: bool = False


def shares(caps: Floats, weights: Floats, radios: Floats, pools: Sequence[Pool]) -> Floats:
    """The rates of all flows at each instant, (instants, flows), from caps and radios of this shape.

    Pools are ordered from the devices to the roots, of which there may be several.  A pool of airtime has no pool below
    it, and a flow is in at most one of them.
    """
    air = [pool for pool in pools if pool.airtime]
    if air:
        wires = [pool for pool in pools if not pool.airtime]
        return _on_air(caps, weights, radios, wires, air)
    if caps.size <= FEW:
        each = weights.tolist()
        return np.array([_shares_at(i, row, each, pools) for i, row in enumerate(caps.tolist())])
    return _on_wires(caps, weights, pools)


def _on_wires(caps: Floats, weights: Floats, pools: Sequence[Pool]) -> Floats:
    """Rates without airtime: each link lowers the bounds of its flows to its level."""
    bounds = caps.copy()
    for pool in pools:
        there = bounds[:, pool.flows]
        level = fill(there, weights[pool.flows], pool.capacity)
        if level is not None:
            bounds[:, pool.flows] = np.minimum(there, weights[pool.flows] * level[:, None])
    return bounds


def _shares_at(instant: int, bounds: list[float], weights: list[float], pools: Sequence[Pool]) -> list[float]:
    """The same at one instant, in place; on ten numbers a list is ten times as fast as an array."""
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

    None if all bounds fit at every instant.
    """
    full = bounds.sum(axis=1) > capacity
    if not full.any():
        return None
    level = np.full(len(full), np.inf)
    level[full] = _fill(bounds[full], weights, capacity[full])
    return level


def _fill(bounds: Floats, weights: Floats, capacity: Floats) -> Floats:
    """The level where not all bounds fit: set by the first flow, by bound/weight, that wants more than its share."""
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


def _on_air(caps: Floats, weights: Floats, radios: Floats, wires: Sequence[Pool], air: Sequence[Pool]) -> Floats:
    """Rates with equal airtime on each air, below links of bytes of one direction or both.

    The level of an air is the time that each of its flows may have.  With more of it they take more of the links of
    bytes; these leave less to flows on other air, or to faster ones on the same, who then need less time, so that
    levels there rise: none ever falls as another rises.  From levels that are too low, one round after the other so
    leads up to the right ones, and no link is ever above its capacity.  As all is linear in pieces, a Newton step from
    the right piece is the last.
    """
    bounds = caps.copy()
    for pool in air:
        bounds[:, pool.flows] = np.minimum(caps, radios)[:, pool.flows]
    levels = _times(bounds, radios, air)
    most, by = _ceilings(_below(bounds, levels, radios, air), weights, wires)
    for _ in range(STEPS if (by >= 0).any() else 0):
        higher = _times(np.minimum(bounds, most), radios, air)
        if (higher <= levels * (1 + NEAR)).all():
            break
        levels = np.fmax(higher, _newton(bounds, most, by, higher, radios, wires, air))
        most, by = _ceilings(_below(bounds, levels, radios, air), weights, wires)
        over = np.any(_times(np.minimum(bounds, most), radios, air) < levels * (1 - NEAR), axis=1)
        if over.any():  # it was another piece
            levels[over] = higher[over]
            most, by = _ceilings(_below(bounds, levels, radios, air), weights, wires)
    return np.minimum(_below(bounds, levels, radios, air), most)


def _ceilings(bounds: Floats, weights: Floats, wires: Sequence[Pool]) -> tuple[Floats, Places]:
    """The rate that full links of bytes leave to each flow under these bounds, and the number of the limiting link.

    inf and -1 where none is full.
    """
    found, by = np.full_like(bounds, np.inf), np.full(bounds.shape, -1)
    for i, pool in enumerate(wires):
        there = found[:, pool.flows]
        level = fill(np.minimum(bounds[:, pool.flows], there), weights[pool.flows], pool.capacity)
        if level is not None:
            mine = weights[pool.flows] * level[:, None]
            by[:, pool.flows] = np.where(mine < there, i, by[:, pool.flows])
            found[:, pool.flows] = np.minimum(mine, there)
    return found, by


def _times(bounds: Floats, radios: Floats, air: Sequence[Pool]) -> Floats:
    """The level of each link of airtime, (instants, air), that follows from the bounds of its flows."""
    found = np.full((len(bounds), len(air)), IDLE)
    for i, pool in enumerate(air):
        level = fill(_spent(bounds, radios, pool), np.ones(len(pool.flows)), pool.capacity)
        if level is not None:
            found[:, i] = np.minimum(level, IDLE)
    return found


def _spent(rates: Floats, radios: Floats, pool: Pool) -> Floats:
    """What flows use of a pool, bytes/s, or seconds of airtime per second; a radio without a rate uses none."""
    if not pool.airtime:
        return rates[:, pool.flows]
    there = radios[:, pool.flows]
    return np.divide(rates[:, pool.flows], there, out=np.zeros_like(there), where=there > 0)


def _below(bounds: Floats, levels: Floats, radios: Floats, air: Sequence[Pool]) -> Floats:
    """The bounds of all flows, lowered to what their airtime allows."""
    found = bounds.copy()
    for i, pool in enumerate(air):
        found[:, pool.flows] = np.minimum(bounds[:, pool.flows], levels[:, i, None] * radios[:, pool.flows])
    return found


def _newton(
    bounds: Floats,
    most: Floats,
    by: Places,
    levels: Floats,
    radios: Floats,
    wires: Sequence[Pool],
    air: Sequence[Pool],
) -> Floats:
    """The levels of all airtime if each flow stays bounded as it is now, and each link that bounds one is full.

    The unknowns are by how much the level of each link grows, and with it the share of each link that goes to the flows
    that it bounds; those of links that bound nobody stay.
    """
    rates, below, own = np.minimum(bounds, most), _below(bounds, levels, radios, air), len(air) + len(wires)
    held = np.where(most < bounds, by + len(air), own)  # the number of the link that bounds a flow, or of none
    for i, pool in enumerate(air):
        held[:, pool.flows] = np.where((below < rates)[:, pool.flows], i, held[:, pool.flows])
    rates = np.minimum(rates, below)
    rows: list[dict[int, Floats]] = []
    wanted: list[Floats] = []
    for i, pool in enumerate([*air, *wires]):
        parts = _parts(rates, held, radios, pool, own + 1)
        bounding = parts[:, i] > 0
        there = np.flatnonzero(parts[:, :own].any(axis=0)).tolist()
        row = {j: np.where(bounding, parts[:, j], 0.0) for j in there}
        rows.append(row | {i: np.where(bounding, parts[:, i], 1.0)})
        wanted.append(np.where(bounding, 1 - parts[:, own], 1.0))
    with np.errstate(over="ignore", invalid="ignore"):  # no more than a guess, which will be looked at
        growth = np.stack(_solved(rows, wanted)[: len(air)], axis=1)
        return np.minimum(levels * growth, IDLE)


def _parts(rates: Floats, held: Places, radios: Floats, pool: Pool, count: int) -> Floats:
    """Share of this link that is used by the flows which each of `count` links bounds, (instants, count)."""
    keys = held[:, pool.flows] + count * np.arange(len(rates))[:, None]
    used = np.bincount(keys.ravel(), _spent(rates, radios, pool).ravel(), len(rates) * count)
    used = used.reshape(len(rates), count)
    return np.divide(used, pool.capacity[:, None], out=np.zeros_like(used), where=pool.capacity[:, None] > 0)


def _solved(rows: list[dict[int, Floats]], wanted: list[Floats]) -> list[Floats]:
    """Gauss's elimination, at each instant; rows have few entries, those of air the fewest.

    In plain steps, as LAPACK's results would depend on the machine, and with them when flows end.
    """
    for i, row in enumerate(rows):
        for k in range(i + 1, len(rows)):
            if i in rows[k]:
                factor = _ratio(rows[k].pop(i), row[i])
                wanted[k] = wanted[k] - factor * wanted[i]
                for j in row.keys() - {i}:
                    rows[k][j] = rows[k].get(j, 0.0) - factor * row[j]
    for i in reversed(range(len(rows))):
        for j in rows[i].keys() - {i}:
            wanted[i] = wanted[i] - rows[i][j] * wanted[j]
        wanted[i] = _ratio(wanted[i], rows[i][i])
    return wanted


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(below), where=below != 0)
