"""Flows on links that cannot be saturated: each runs independently of the others."""

from __future__ import annotations

import math
from heapq import heappop, heappush

from network.sharing.flow import Flow


class AloneEngine:
    """An engine in which each flow runs at its cap, the upper bound of its rate, until all its bytes are carried.  A
    change of the cap is no event: the end is computed with all changes when the flow enters."""

    def __init__(self) -> None:
        self._flows: dict[Flow, None] = {}
        self._ends: list[tuple[float, int, Flow]] = []  # a heap; flows that have left stay in it until they are due

    def enter(self, flow: Flow, t: float) -> None:
        flow.home, flow.since, flow.capped = self, t, True
        flow.due = flow.cap.finish(t, flow.left)
        self._flows[flow] = None
        if flow.due < math.inf:
            heappush(self._ends, (flow.due, flow.number, flow))

    def leave(self, flow: Flow, t: float) -> None:
        flow.left, flow.home = flow.carry(t), None
        del self._flows[flow]

    def left(self, flow: Flow, t: float) -> float:
        return flow.carry(t)

    def rates(self, t: float) -> dict[Flow, float]:
        return {flow: flow.cap.at(t) for flow in self._flows}

    def due(self) -> float:
        while self._ends and (self._ends[0][2].home is not self or self._ends[0][2].due != self._ends[0][0]):
            heappop(self._ends)
        return self._ends[0][0] if self._ends else math.inf

    def step(self, t: float) -> list[Flow]:
        ended = []
        while self.due() <= t:
            flow = heappop(self._ends)[2]
            flow.left, flow.home = 0.0, None
            del self._flows[flow]
            ended.append(flow)
        return ended
