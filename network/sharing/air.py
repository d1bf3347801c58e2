"""Rates with equal airtime on each air, below links of bytes of one direction or both, for many instants together.

The level of an air is the time of each of its flows, the level of a link of bytes the rate per weight.  If the link
that bounds each flow were known, all levels would follow from linear equations.  The levels before the last event
usually tell these links, and the resulting rates show if they were right.

Otherwise: with more time on air, flows take more of the links of bytes; these leave less to flows on other air, or to
faster ones on the same, which then need less time, so levels there rise: no level ever falls as another rises.  So from
levels of air that are too low, successive rounds lead up to the right ones, and no link ever exceeds its capacity.
Since everything is piecewise linear, the equations of the right piece are the last step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from network.sharing.flow import MOST
from network.sharing.level import Floats, FlowLayout, Places, Pools, fill
from network.sharing.linear import Bools, solved, totals

BOLD = 8  # steps from levels of another instant
STEPS = 200  # steps from levels that are too low; a few are usual
NEAR = 2.0**-42  # relative difference up to which levels, or use and capacity, count as equal


def on_air(
    caps: Floats, weights: Floats, radios: Floats, laid: FlowLayout, capacities: Floats, guess: Floats | None
) -> tuple[Floats, Floats]:
    """Returns the rates of all flows, (instants, columns) like caps and radios, and the levels, (instants, links + 1).

    `capacities` of the links are (instants, links), in bytes/s, or for airtime s/s.  `guess`: levels at another instant
    or before a change, of this shape; only its last row is used.
    """
    cost = np.repeat(laid.there[None], len(caps), axis=0)
    cost[:, -1] = np.divide(cost[:, -1], radios, out=np.zeros_like(radios), where=radios > 0)
    air = Air(np.minimum(caps, radios), weights, radios, laid, capacities, cost)
    if all(each.airtime for each in laid.pools):
        return air.alone()
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # the results of a wrong guess are checked
        found = None if guess is None else air.from_near(np.repeat(guess[-1:], len(caps), axis=0))
        return found or air.from_below()


@dataclass(frozen=True)
class Air:
    """The flows at each instant: their bounds, and the links that they share.

    Levels are (instants, links + 1); a link that bounds no flow has MOST.
    """

    bounds: Floats  # (instants, columns) bytes/s
    weights: Floats  # (columns,)
    radios: Floats  # (instants, columns) bytes/s
    laid: FlowLayout
    capacities: Floats  # (instants, links)
    cost: Floats  # (instants, places, columns) use of each link on a flow's way per byte/s; 0 without a link

    def held(self, levels: Floats) -> tuple[Floats, Places]:
        """Returns all rates, and the places of the links that hold flows below their bounds; -1 for flows that no link
        holds."""
        rates, by, last = self.bounds, np.full(self.bounds.shape, -1), len(self.laid.ways) - 1
        for place, links in enumerate(self.laid.ways):
            mine = levels[:, links] * (self.radios if place == last else self.weights)
            by = np.where(mine < rates, place, by)
            rates = np.minimum(rates, mine)
        return rates, by

    def alone(self) -> tuple[Floats, Floats]:
        """Returns the rates and levels without links of bytes."""
        levels = self.times(self.bounds)
        return self.held(levels)[0], levels

    # --- from levels that are near --------------------------------------------------------------------------

    def from_near(self, levels: Floats) -> tuple[Floats, Floats] | None:
        """Returns the rates and levels, starting from nearby levels; None if this does not find them."""
        _, by = self.held(levels)
        for _ in range(BOLD):
            levels = self.solved(by)
            rates, by = self.held(levels)
            used = totals(self.laid.ways, rates[:, None] * self.cost, levels.shape[1:])[:, :-1]
            fits = used <= self.capacities * (1 + NEAR)
            if not fits.all():
                self._fill(levels, rates, ~fits)
                _, by = self.held(levels)
            elif ((used >= self.capacities * (1 - NEAR)) | (levels[:, :-1] == MOST)).all():
                return rates, levels
        return None

    def _fill(self, levels: Floats, rates: Floats, over: Bools) -> None:
        """Lowers the levels of links that exceed their capacity."""
        for each in self.laid.pools:
            if over[:, each.links].any():
                level = self._level(each, rates)
                levels[:, each.links] = np.minimum(levels[:, each.links], level)

    # --- from levels that are too low -----------------------------------------------------------------------

    def from_below(self) -> tuple[Floats, Floats]:
        """Returns the rates and levels, from levels of the air that are too low."""
        lowest = levels = self.times(self.bounds)
        for _ in range(STEPS):
            wires = self.wires(self.held(levels)[0])
            higher = self.times(self.held(wires)[0])
            over = (higher < levels * (1 - NEAR)).any(axis=1, keepdims=True)  # the solution belongs to another piece
            if not over.any() and (higher <= levels * (1 + NEAR)).all():
                break
            lowest = np.where(over, lowest, higher)
            guess = self.solved(self.held(np.minimum(higher, wires))[1])
            levels = np.where(over, lowest, np.fmax(higher, guess))
        levels = np.minimum(levels, wires)
        return self.held(levels)[0], levels

    def times(self, bounds: Floats) -> Floats:
        """Returns the levels of the air that follow from bounds of the flows."""
        levels = np.full((len(bounds), len(self.laid.places)), MOST)
        for each in self.laid.pools:
            if each.airtime:
                levels[:, each.links] = self._level(each, bounds)
        return levels

    def wires(self, bounds: Floats) -> Floats:
        """Returns the levels of the links of bytes that follow from bounds of the flows."""
        levels, bounds = np.full((len(bounds), len(self.laid.places)), MOST), bounds.copy()
        for each in self.laid.pools:
            if not each.airtime:
                level = levels[:, each.links] = self._level(each, bounds)
                lowered = self.weights[each.flows] * level[:, :, None]
                bounds[:, each.flows] = np.minimum(bounds[:, each.flows], lowered)
        return levels

    def _level(self, each: Pools, bounds: Floats) -> Floats:
        """Returns the levels of some links, (instants, links), under these bounds of their flows."""
        weights = None if each.airtime else self.weights[each.flows]
        used = bounds * self.cost[:, each.place] if each.airtime else bounds
        capacities = self.capacities[:, each.links]
        level = fill(used[:, each.flows], weights, capacities)
        return np.full(capacities.shape, MOST) if level is None else np.minimum(level, MOST)

    # --- equations ------------------------------------------------------------------------------------------

    def solved(self, by: Places) -> Floats:
        """Returns the levels if each flow is held by the link at that place of its way, and by none for -1."""
        scale = np.where(by < len(self.laid.ways) - 1, self.weights, self.radios)
        known = np.where(by < 0, self.bounds, scale)  # of flows that are held: at a level of 1
        return solved(self.laid, by, known[:, None] * self.cost, self.capacities)
