"""Flows on a tree of shared links whose caps and capacities may vary.

Every cap and capacity is known in advance, so all rates from now to a horizon are computed together, and changes of
caps and capacities are not events.  The computed rates become invalid when a flow starts, leaves or ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from network.links.rate import Constant, Rate
from network.sharing.air import on_air
from network.sharing.flow import MOST, ROUNDING, Flow, LinkState
from network.sharing.level import Floats, FlowLayout, layout, on_wires
from network.sharing.lookahead import Ahead, Course, course, edges_of, spread

FEW = 8  # smallest number of instants to compute together
CELLS = 2**18  # largest number of instants times flows to compute together
ULPS = 4 * 2**-52  # relative difference of times up to which ends are simultaneous


class Tree:
    """An engine for a link that may be saturated and all links below it, in both directions if they share airtime.

    Each flow has a column of the arrays.  A column without a flow has cap 0, and is reused by a flow on the same way;
    the first column is always empty.
    """

    def __init__(self, links: Sequence[LinkState], t: float) -> None:
        """Takes `links` ordered from the devices to the root."""
        self._now = t
        self._links = list(links)
        self._on_air = any(link.airtime for link in links)
        self._capacities, self._widening = np.zeros(0), dict[int, Ahead]()
        for link in links:
            self._capacities = _with(self._capacities, self._widening, len(self._capacities), link.capacity, t)
        self._inside: dict[LinkState, list[int]] = {link: [] for link in links}  # columns
        self._layout: FlowLayout | None = None  # the layout of these columns
        self._free: dict[tuple[LinkState, ...], list[int]] = {}  # by the route of a flow
        self._column: dict[Flow, int] = {}
        self._flow: dict[int, Flow] = {}
        self._left, self._nbytes, self._weights = np.array([math.inf]), np.zeros(1), np.ones(1)
        self._caps, self._moving = np.zeros(1), dict[int, Ahead]()  # current values, and those that vary
        self._radios, self._tuning = np.zeros(1), dict[int, Ahead]()  # the same; nan is as the cap
        self._unfair: dict[LinkState, None] = {}  # air whose flows have changed
        self._levels: Floats | None = None  # of the air, at the last computation
        self._course: Course | None = None
        self._depth = FEW

    def enter(self, flow: Flow, t: float) -> None:
        self._settle(t)
        flow.home = self
        free = self._free.setdefault(flow.route, [])
        column = free.pop() if free else self._widen(flow)
        self._column[flow], self._flow[column] = column, flow
        self._left[column], self._nbytes[column] = flow.left, flow.nbytes
        self._weights[column] = flow.weight
        self._unfair.update(dict.fromkeys(link for link in flow.route if link.airtime))
        self._caps = _with(self._caps, self._moving, column, flow.cap, t)
        self._radios[column] = math.nan
        if flow.radio is not None:
            self._radios = _with(self._radios, self._tuning, column, flow.radio, t)

    def leave(self, flow: Flow, t: float) -> None:
        self._part(t)
        self._forget(flow, self.left(flow, t))

    def left(self, flow: Flow, t: float) -> float:
        left = float(self._left[self._column[flow]])
        if self._course is not None:
            left -= float(self._course.carried_by(t)[self._column[flow]])
        return flow.rest(left, varies=True)

    def rates(self, t: float) -> dict[Flow, float]:
        if not self._column:
            return {}
        known = self._known()
        rates = known.rates[known.place(t)].tolist()
        return {flow: rates[column] for flow, column in self._column.items()}

    def due(self) -> float:
        return self._known().due if self._column else math.inf

    def step(self, t: float) -> list[Flow]:
        over = np.flatnonzero(self._known().ends <= t + ULPS * t)
        self._part(t)
        ended = [self._flow[column] for column in over.tolist()]
        for flow in ended:
            self._forget(flow, 0.0)
        return ended

    # --- columns --------------------------------------------------------------------------------------------

    def _widen(self, flow: Flow) -> int:
        """Adds a column for a flow and returns its number."""
        column = len(self._left)
        for link in flow.route:
            if link in self._inside:
                self._inside[link].append(column)
        self._left, self._nbytes, self._weights, self._caps, self._radios = (
            np.append(each, 0.0) for each in (self._left, self._nbytes, self._weights, self._caps, self._radios)
        )
        self._layout = None
        return column

    def _forget(self, flow: Flow, left: float) -> None:
        column = self._column.pop(flow)
        flow.left, flow.home = left, None
        if self._course is not None:
            self._course.forget(column)
        del self._flow[column]
        self._left[column], self._caps[column], self._radios[column] = math.inf, 0.0, math.nan
        self._moving.pop(column, None)
        self._tuning.pop(column, None)
        self._free[flow.route].append(column)
        self._unfair.update(dict.fromkeys(link for link in flow.route if link.airtime))

    def _part(self, t: float) -> None:
        """Prepares for the end of a flow at `t`: keeps the rates computed ahead if no flow is slowed by another,
        because then they stay valid without it; otherwise settles."""
        if self._course is None or not self._course.free or t >= self._course.edges[-1]:
            self._settle(t)

    def _settle(self, t: float) -> None:
        """Subtracts the bytes carried by `t` and drops the rates computed ahead.  The next computation covers twice the
        part of the horizon that was used of this one."""
        if self._course is not None:
            self._left -= self._course.carried_by(t)
            self._left[self._left <= self._nbytes * ROUNDING] = 0.0  # as Flow.rest does
            used = self._course.place(math.nextafter(t, -math.inf)) + 1
            self._depth = min(max(FEW, 2 * self._depth * used // len(self._course.rates)), CELLS)
        self._course, self._now = None, t

    # --- ahead ----------------------------------------------------------------------------------------------

    def _known(self) -> Course:
        if self._course is None:
            self._course = self._plan()
        return self._course

    def _plan(self) -> Course:
        loaded = {i: ahead for i, ahead in self._widening.items() if self._links[i].flows}
        varying = [*loaded.values(), *self._moving.values(), *self._tuning.values()]
        edges = edges_of(varying, self._now, max(1, min(self._depth, CELLS // len(self._left))))
        bounds = spread(self._caps, self._moving, edges[:-1])
        radios = bounds
        if self._on_air:
            radios = spread(self._radios, self._tuning, edges[:-1])
            radios = np.where(np.isnan(radios), bounds, radios)
        capacities = spread(self._capacities, loaded, edges[:-1])
        for row, some in ((self._caps, self._moving), (self._radios, self._tuning)):
            _keep(row, some)
        laid = self._laid()
        if self._on_air:
            self._be_fair()
            rates, self._levels = on_air(bounds, self._weights, radios, laid, capacities, self._levels)
        else:
            rates = on_wires(bounds, self._weights, laid.pools, capacities)
        return course(edges, rates, self._left, self._nbytes * ROUNDING, free=bool((rates == bounds).all()))

    def _be_fair(self) -> None:
        """Gives all flows of an airtime link their mean weight, which also holds on the links above: Pools requires one
        weight.

        A radio's scheduler does not know round trips, on which weights depend.  The round trips of devices at one
        access point are similar, because the devices share the whole way except the air; the sum of their weights is
        unchanged.
        """
        for link in self._unfair:
            if link in self._inside and link.flows:
                mean = math.fsum(flow.weight for flow in link.flows.values()) / len(link.flows)
                self._weights[self._inside[link]] = mean
        self._unfair.clear()

    def _laid(self) -> FlowLayout:
        if self._layout is None:
            number = {link: i for i, link in enumerate(self._links)}
            above = [[number[over] for over in link.above[1:] if over in number] for link in self._links]
            airtime = [link.airtime for link in self._links]
            self._layout = layout(list(self._inside.values()), above, airtime, len(self._left))
        return self._layout


def _with(row: Floats, varying: dict[int, Ahead], column: int, rate: Rate, t: float) -> Floats:
    """Returns `row`, the current values, with this rate in a column, which may be a new one; a rate that varies is also
    put into `varying`."""
    if column == len(row):
        row = np.append(row, 0.0)
    row[column] = min(rate.at(t), MOST)
    if not isinstance(rate, Constant):
        varying[column] = Ahead(rate, t)
    return row


def _keep(row: Floats, varying: dict[int, Ahead]) -> None:
    """Removes rates that will not change any more from `varying`, and writes their final values into the row."""
    for column in [column for column, ahead in varying.items() if ahead.constant and len(ahead.times) == 1]:
        row[column] = varying.pop(column).values[0]
