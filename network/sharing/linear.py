"""The levels of links in a tree if the link that bounds each flow is known: linear equations.

The level of a link is the rate per weight, or the airtime, of the flows that it bounds.  A flow's use of the links on
its way grows with the level of the link that bounds it, and is fixed if none does.  Each link that bounds flows is
full: this is its row of the equations, and its level is the unknown of its column.  A link's flows are bounded by links
below or above it, so rows and columns have entries only there.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from network.sharing.flow import MOST
from network.sharing.level import Floats, FlowLayout, Places

Bools = NDArray[np.bool_]


def solved(laid: FlowLayout, by: Places, used: Floats, capacities: Floats) -> Floats:
    """Returns the levels of the links, (instants, links + 1); MOST for links that bound no flow.

    `by`: the place (see FlowLayout) of the link that bounds each flow, (instants, columns), -1 if none does.  `used`:
    each flow's use of the links on its way, (instants, places, columns), at a level of 1 or, if no link bounds the
    flow, in all.

    The method is Gauss's elimination from the devices to the roots, in plain steps: LAPACK's results would depend on
    the machine, and with them the ends of flows.
    """
    sums = _sums(laid, by, used)
    sums[:, :-1, 0] -= capacities
    holds = sums[:, laid.numbers, 1 + laid.places] > 0
    sums[:, laid.numbers, 1 + laid.places] += ~holds  # the level of a link that bounds no flow does not matter
    rows = [_eliminated(sums, laid, place) for place in reversed(range(len(laid.ways)))]
    levels = np.zeros(holds.shape)
    for place, (links, row) in enumerate(zip(laid.links, reversed(rows), strict=True)):
        known = row[:, :, 1 : 1 + place] * levels[:, laid.over[links, :place]]
        levels[:, links] = -(row[:, :, 0] + known.sum(axis=2)) / row[:, :, 1 + place]
    return np.where(holds, np.minimum(levels, MOST), MOST)


def _sums(laid: FlowLayout, by: Places, used: Floats) -> Floats:
    """Returns the entries of the equations, (instants, links + 1, 1 + 2 * places).

    For each link these are: the fixed part of its row; then its row, by the places of the links above it, with its own
    entry last; then its column, by the places of the links above it, in whose rows these entries are.
    """
    places, columns = laid.ways.shape
    size, place = 1 + 2 * places, np.arange(places)[:, None]
    of_row = laid.ways * size + (1 + by)[:, None]
    of_column = (laid.ways[by, np.arange(columns)] * size + 1 + places)[:, None] + place
    return totals(np.where(by[:, None] <= place, of_row, of_column), used, (len(laid.places), size))


def _eliminated(sums: Floats, laid: FlowLayout, place: int) -> Floats:
    """Eliminates the levels of the links at a place from the rows of the links above them, in place; returns the rows
    of the links at that place."""
    row: Floats = sums[:, laid.links[place]]
    if place:
        column = row[:, :, 1 + len(laid.ways) :][:, :, :place]
        factor = column / row[:, :, 1 + place, None]
        values = factor[:, :, :, None] * row[:, :, None, : 1 + place]  # (instants, links, places above, entries)
        sums -= totals(laid.targets[place], values, sums.shape[1:])
    return row


def totals(keys: Places, values: Floats, shape: tuple[int, ...]) -> Floats:
    """Returns the sums of all values that have the same key, (instants, *shape).  A key is a flat index into `shape`;
    keys are the same at each instant."""
    size, instants = math.prod(shape), len(values)
    if instants > 1:
        keys = keys.reshape(-1, values[0].size) + size * np.arange(instants)[:, None]
    found = np.bincount(keys.ravel(), values.ravel(), instants * size)
    return np.asarray(found, dtype=np.float64).reshape(instants, *shape)
