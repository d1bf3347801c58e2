"""Water levels of shared links, for many instants together: weighted max-min.

Links of bytes (which divide bytes/s by weight) form one tree for each direction.  One pass from the devices to the root
solves a tree: the level of a link is found as if no link above it were full, and in the links above it its flows are
bounded by that level.  The rate of a flow is then the smaller of its cap and its weight times the lowest level on its
way.

Links of airtime are below all others, and need more than one pass (air.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

FEW = 100  # instants times flows up to which plain Python is used


@dataclass(frozen=True)
class Pools:
    """Shared links of similar numbers of flows that can be solved together: they have the same place on the ways of
    their flows (see FlowLayout), and no two have a flow in common.

    All flows of an airtime link must have one weight: each gets the same airtime, or less if it needs less.
    """

    links: Places  # (links,) their numbers
    flows: Places  # (links, flows) columns, padded with column 0, which has no flow
    airtime: bool
    place: int


@dataclass(frozen=True)
class FlowLayout:
    """The links on each flow's way as index arrays.  A flow is a column of the arrays of rates, and a link is a number.

    The place of a link is the number of links above it; airtime links have the last place, as if all other links were
    above them.  Where a way has no link at a place, the arrays hold the number after the last link.
    """

    pools: tuple[Pools, ...]  # from the devices to the roots
    ways: Places  # (places, columns): the links that a flow uses
    over: Places  # (links + 1, places): the links above a link, also of the other direction
    links: tuple[Places, ...]  # the links at each place
    places: Places  # (links + 1,): the place of each link

    @cached_property
    def numbers(self) -> Places:
        return np.arange(len(self.places))

    @cached_property
    def targets(self) -> list[Places]:
        """For each place an array (links at the place, places above, 1 + places above): the flat indices of the entries
        in linear.py's sums that eliminating these links changes.

        For each link above, these are the fixed part of its row and its entries with the other links above; an entry
        with a link below is stored in the column of the lower link.
        """
        places, found = len(self.ways), list[Places]()
        for place, links in enumerate(self.links):
            over = self.over[links, :place] * (1 + 2 * places)
            row, entry = np.arange(place)[:, None], np.arange(place)
            square = np.where(entry <= row, over[:, :, None] + 1 + entry, over[:, None] + 1 + places + row)
            found.append(np.concatenate((over[:, :, None], square), axis=2))
        return found

    @cached_property
    def there(self) -> Floats:
        """An array (places, columns): 1 where a flow has a link at the place, else 0."""
        return (self.ways < len(self.places) - 1).astype(float)


def layout(
    columns: Sequence[Sequence[int]], above: Sequence[Sequence[int]], airtime: Sequence[bool], width: int
) -> FlowLayout:
    """Returns the layout of `width` columns for flows; the first has no flow.

    `columns`: for each link, the columns of the flows on it; `above`: for each link, the numbers of the links above it;
    `airtime`: for each link, whether it divides airtime.
    """
    none = len(columns)
    air = 1 + max((len(over) for over, time in zip(above, airtime, strict=True) if not time), default=-1)
    places = [air if time else len(over) for over, time in zip(above, airtime, strict=True)]
    ways, over = np.full((air + 1, width), none), np.full((none + 1, air + 1), none)
    alike: dict[tuple[int, int], list[int]] = {}
    for i, there in enumerate(columns):
        ways[places[i], there] = i
        over[i, [places[j] for j in above[i]]] = above[i]
        if there:
            alike.setdefault((places[i], len(there).bit_length()), []).append(i)
    pools = [_pools(columns, links, place == air, place) for (place, _), links in sorted(alike.items(), reverse=True)]
    where = np.array([*places, 0])
    return FlowLayout(tuple(pools), ways, over, tuple(np.flatnonzero(where[:-1] == k) for k in range(air + 1)), where)


def _pools(columns: Sequence[Sequence[int]], links: Sequence[int], airtime: bool, place: int) -> Pools:
    flows = np.zeros((len(links), max(len(columns[i]) for i in links)), dtype=np.intp)
    for row, i in zip(flows, links, strict=True):
        row[: len(columns[i])] = columns[i]
    return Pools(np.array(links), flows, airtime, place)


def on_wires(caps: Floats, weights: Floats, pools: Sequence[Pools], capacities: Floats) -> Floats:
    """Returns the rates of all flows at each instant, bytes/s, (instants, columns), if no link divides airtime.

    `caps` are the flows' upper bounds, (instants, columns), and `capacities` those of the links, (instants, links), in
    bytes/s.
    """
    if caps.size <= FEW:
        rows = zip(caps.tolist(), capacities.tolist(), strict=True)
        return np.array([_shares_at(row, weights.tolist(), pools, room) for row, room in rows])
    bounds = caps.copy()
    for each in pools:
        there = bounds[:, each.flows]
        level = fill(there, weights[each.flows], capacities[:, each.links])
        if level is not None:
            bounds[:, each.flows] = np.minimum(there, weights[each.flows] * level[:, :, None])
    return bounds


def _shares_at(
    bounds: list[float], weights: list[float], pools: Sequence[Pools], capacities: list[float]
) -> list[float]:
    """Lowers `bounds`, the caps of the flows at one instant, to their rates, and returns that list; for ten numbers a
    list is ten times as fast as an array."""
    for each in pools:
        for link, columns in zip(each.links.tolist(), each.flows.tolist(), strict=True):
            _lower(bounds, weights, columns, capacities[link])
    return bounds


def _lower(bounds: list[float], weights: list[float], columns: list[int], room: float) -> None:
    """Lowers the bounds of the flows in these columns, in place, so that their sum fits `room`, the capacity of the
    link that they share."""
    if sum([bounds[i] for i in columns]) <= room:
        return
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


def fill(bounds: Floats, weights: Floats | None, capacities: Floats) -> Floats | None:
    """Returns the level of each link, (instants, links), at which sum(min(bound, weight * level)) over its flows is its
    capacity.

    The level is inf where the sum of the bounds fits; the result is None if it fits on all links at every instant.
    Bounds are (instants, links, flows), weights (links, flows), None for all 1.
    """
    full = bounds.sum(axis=2) > capacities
    if not full.any():
        return None
    level = np.full(full.shape, np.inf)
    there = None if weights is None else weights[full.nonzero()[1]]
    level[full] = _fill(bounds[full], there, capacities[full])
    return level


def _fill(bounds: Floats, weights: Floats | None, capacities: Floats) -> Floats:
    """Returns the level of each link, (links,); bounds are (links, flows), and their sum exceeds the capacity.  In the
    order of bound/weight, the first flow whose bound is above its share determines the level."""
    if weights is None or weights.min() == weights.max():
        each = 1.0 if weights is None else weights[0, 0]
        ordered = np.sort(bounds, axis=1)
        ratio, rest = ordered / each, each * np.arange(bounds.shape[1], 0, -1)
    else:
        order = (bounds / weights).argsort(axis=1, kind="stable")
        ordered, sorted_ = np.take_along_axis(bounds, order, axis=1), np.take_along_axis(weights, order, axis=1)
        ratio, rest = ordered / sorted_, sorted_[:, ::-1].cumsum(axis=1)[:, ::-1]
    before = np.zeros_like(ordered)
    ordered[:, :-1].cumsum(axis=1, out=before[:, 1:])
    beyond = ratio * rest > capacities[:, None] - before
    beyond[:, -1] = True  # by their sum, in which it could be lost to rounding here
    first = (np.arange(len(bounds)), beyond.argmax(axis=1))
    found: Floats = np.maximum(capacities - before[first], 0.0) / np.broadcast_to(rest, ratio.shape)[first]
    return found
