"""The division of shared links that divide airtime equally (here: air), below links that divide bytes/s by weight
(links of bytes) of one direction or both, for many instants together.

Each link has a level.  The level of an air is the share of time that each of its flows gets; the level of a link of
bytes is the rate per weight of the flows that it bounds.  If the link that bounds each flow were known, all levels
would follow from linear equations.  The levels before the last event usually tell these links, and the resulting rates
show if they were right.

Otherwise: with more time on air, flows take more of the links of bytes; these leave less to flows on other air, or to
faster ones on the same, which then need less time, so levels there rise: no level ever falls as another rises. So from
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
    """Returns the rates of all flows, (instants, columns) in bytes/s, and the levels of all links, (instants, links +
    1).

    `caps` and `radios` (a flow's rate with all the airtime) are (instants, columns), in bytes/s.  `capacities` of the
    links are (instants, links), in bytes/s, or in s/s for airtime.  `guess`: levels at another instant or before a
    change, of the shape of the result; only its last row is used.
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

    Levels (see the top of this file) are arrays (instants, links + 1); the level of a link that bounds no flow is MOST.
    """

    bounds: Floats  # (instants, columns) bytes/s
    weights: Floats  # (columns,)
    radios: Floats  # (instants, columns) bytes/s
    laid: FlowLayout
    capacities: Floats  # (instants, links)
    cost: Floats  # (instants, places, columns) use of each link on a flow's way per byte/s; 0 without a link

    def held(self, levels: Floats) -> tuple[Floats, Places]:
        """Returns the rate of each flow at these levels, and the place on its way (see FlowLayout) of the link that
        holds it below its bound, -1 if no link does; both (instants, columns)."""
        rates, by, last = self.bounds, np.full(self.bounds.shape, -1), len(self.laid.ways) - 1
        for place, links in enumerate(self.laid.ways):
            mine = levels[:, links] * (self.radios if place == last else self.weights)
            by = np.where(mine < rates, place, by)
            rates = np.minimum(rates, mine)
        return rates, by

    def alone(self) -> tuple[Floats, Floats]:
        """Returns the rates and the levels if all links are air, so that each link is solved by itself."""
        levels = self.times(self.bounds)
        return self.held(levels)[0], levels

    # --- from levels that are near --------------------------------------------------------------------------

    def from_near(self, levels: Floats) -> tuple[Floats, Floats] | None:
        """Returns the rates and the levels, found from levels that are near the solution; None if BOLD steps do not
        find them."""
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
        """Lowers, in place, the levels of links whose flows use more than the capacity; `over` marks these, (instants,
        links)."""
        for each in self.laid.pools:
            if over[:, each.links].any():
                level = self._level(each, rates)
                levels[:, each.links] = np.minimum(levels[:, each.links], level)

    # --- from levels that are too low -----------------------------------------------------------------------

    def from_below(self) -> tuple[Floats, Floats]:
        """Returns the rates and the levels, found by raising levels of the air that are too low."""
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
        """Returns levels with those of the air computed as if each flow ran at most at its bound; MOST for links of
        bytes."""
        levels = np.full((len(bounds), len(self.laid.places)), MOST)
        for each in self.laid.pools:
            if each.airtime:
                levels[:, each.links] = self._level(each, bounds)
        return levels

    def wires(self, bounds: Floats) -> Floats:
        """Returns levels with those of the links of bytes computed as if each flow ran at most at its bound; MOST for
        air."""
        levels, bounds = np.full((len(bounds), len(self.laid.places)), MOST), bounds.copy()
        for each in self.laid.pools:
            if not each.airtime:
                level = levels[:, each.links] = self._level(each, bounds)
                lowered = self.weights[each.flows] * level[:, :, None]
                bounds[:, each.flows] = np.minimum(bounds[:, each.flows], lowered)
        return levels

    def _level(self, each: Pools, bounds: Floats) -> Floats:
        """Returns the levels of the links in `each`, (instants, links), if their flows run at most at these bounds."""
        weights = None if each.airtime else self.weights[each.flows]
        used = bounds * self.cost[:, each.place] if each.airtime else bounds
        capacities = self.capacities[:, each.links]
        level = fill(used[:, each.flows], weights, capacities)
        return np.full(capacities.shape, MOST) if level is None else np.minimum(level, MOST)

    # --- equations ------------------------------------------------------------------------------------------

    def solved(self, by: Places) -> Floats:
        """Returns the levels that follow if `by` is right: the place on each flow's way of the link that bounds it, -1
        if none does."""
        scale = np.where(by < len(self.laid.ways) - 1, self.weights, self.radios)
        known = np.where(by < 0, self.bounds, scale)  # of flows that are held: at a level of 1
        return solved(self.laid, by, known[:, None] * self.cost, self.capacities)
