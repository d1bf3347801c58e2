"""Flows that share one link: a water level, and a clock that runs as fast as the level.

Each flow is bounded by a cap of its own (its device's link); what the shared link cannot give to all is divided by
weight: flows whose cap lies below the level times their weight run at their cap, all others at the level.  A capped
flow ends at a time that is known; a flow at the level ends when the level's integral V has grown by its bytes over
its weight, so a change of the level reschedules nobody.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush

from network.links.rate import Rate
from network.sharing.flow import UNIT, Flow, next_change, whole

Due = tuple[float, int, Flow]  # when it ends on its group's clock and its number, both negative
Rank = tuple[float, int, Flow]  # cap/weight and number; both negative where the highest is wanted
PATIENCE = 16  # changes per flow between two openings or ends, before it calls itself restless


class Bottleneck:
    """One shared link, in one direction.

    The capped flows are those of least cap over weight.  The border moves a flow at a time, as one that comes, goes or
    changes moves it by few.  The sums on both sides of it are exact, so that rates depend neither on the past nor on
    the order of opening; when a flow ends does so in its last bits, as its bytes are brought up to date when it crosses
    the border.  A flow at the level whose cap only rises, as in slow start, is not looked at before the level could
    reach the cap that was seen last.
    """

    def __init__(self, capacity: Rate, t: float) -> None:
        self._capacity = capacity
        self._now = t
        self._total = whole(capacity.at(t))
        self._next = next_change(capacity, t)  # when the capacity changes
        self._highest: list[Rank] = []  # a heap of the capped flows, with some that are out of date
        self._lowest: list[Rank] = []  # the same of the flows at the level
        self._reserved = 0  # what the capped flows take, whole
        self._weight = 0  # of all flows at the level, whole
        self._capped: list[Due] = []  # sorted, the next to end last; due in time
        self._level: list[Due] = []  # sorted, the next to end last; due in V
        self._volume = 0.0  # V: bytes per weight that a flow at the level had carried when the sharing last changed
        self._changed = t  # when that was; V grows from there, so that looking often rounds nothing away
        self._room = 0.0  # bytes/s that all flows at the level share
        self._shares = 0.0  # their weights
        self._changes: list[tuple[float, int, Flow]] = []  # of caps; a heap, with some that are out of date
        self._stirred = 0  # changes since a flow came or went
        self._due = math.inf
        self._solved = True

    @property
    def restless(self) -> bool:
        return self._stirred > PATIENCE * (len(self._capped) + len(self._level))

    def enter(self, flow: Flow, t: float) -> None:
        self._now, self._stirred = t, 0
        self._settle()
        flow.home = self
        self._look(flow)
        first = self._first(capped=False)
        self._join(flow, first is None or flow.rank < first.rank)  # a guess, which _solve puts right
        self._solved = False

    def leave(self, flow: Flow, t: float) -> None:
        self._now = t
        flow.left = self.left(flow, t)
        self._remove(flow)

    def left(self, flow: Flow, t: float) -> float:
        if flow.capped:
            return flow.carry(t)
        return flow.rest(flow.left - (self._volume_at(t) - flow.since) * flow.weight, flow.varies)

    def rates(self, t: float) -> dict[Flow, float]:  # noqa: ARG002
        self.due()
        share = self._room / self._shares if self._level else math.inf
        return {flow: min(flow.rate, share * flow.weight) for _, _, flow in self._capped + self._level}

    def due(self) -> float:
        if not self._solved:
            self._solve()
        return self._due

    def step(self, t: float) -> list[Flow]:
        self._now = t
        ended = self._end() if self._ends() <= t else []
        while self._change() <= t:
            self._recap(heappop(self._changes)[2])
        if self._next <= t:
            ended += self._resize()
        return ended

    # --- time -----------------------------------------------------------------------------------------------

    def _ends(self) -> float:
        return min(-self._capped[-1][0] if self._capped else math.inf, self._level_due())

    def _change(self) -> float:
        """When a cap changes next."""
        changes = self._changes
        while changes:
            change, _, flow = changes[0]
            # of a flow at the level no rise matters
            if flow.change == change and flow.home is self and (flow.capped or not flow.rises):
                return change
            heappop(changes)
        return math.inf

    def _level_due(self) -> float:
        if not self._level:
            return math.inf
        if self._room <= 0:
            return math.inf if -self._level[-1][0] > self._volume else self._changed
        # one division, last: n flows of b bytes take exactly n times b/capacity
        return self._changed + (-self._level[-1][0] - self._volume) * self._shares / self._room

    def _volume_at(self, t: float) -> float:
        """V at `t`."""
        if t == self._changed or not self._level:
            return self._volume
        return self._volume + (t - self._changed) * self._room / self._shares

    def _settle(self) -> None:
        """Before any change of the sharing: V grows at another rate from now on."""
        if self._changed != self._now:
            self._volume, self._changed = self._volume_at(self._now), self._now

    def _end(self) -> list[Flow]:
        """Removes what ends now."""
        if self._level_due() <= self._now:  # V is known exactly, so that flows of equal bytes end together
            self._volume, self._changed = -self._level[-1][0], self._now
        ended = []
        for group, clock in ((self._capped, self._now), (self._level, self._volume)):
            while group and -group[-1][0] <= clock:
                flow = group[-1][2]
                self._remove(flow)
                flow.left = 0.0
                ended.append(flow)
        return ended

    def _resize(self) -> list[Flow]:
        """The capacity is another one from now on; ends what it would only keep for the sake of rounding."""
        self._settle()
        if self._level and not self._level[-1][2].rest(self.left(self._level[-1][2], self._now), varies=True):
            self._volume = -self._level[-1][0]
        ended = self._end()
        self._total = whole(self._capacity.at(self._now))
        self._next = next_change(self._capacity, self._now)
        self._stirred, self._solved = self._stirred + 1, False
        return ended

    # --- sharing --------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Moves the border to where each capped flow fits, and no other."""
        while (flow := self._first(capped=False)) and self._fits(flow, 0):
            if flow.change <= self._now:  # nobody looked while it rose
                self._look(flow)
                self._order(flow)
            else:
                self._shift(flow, capped=True)
        while (flow := self._first(capped=True)) and not self._fits(flow, 1):
            self._shift(flow, capped=False)
        self._room, self._shares = (self._total - self._reserved) / UNIT, self._weight / UNIT
        if not self._level:
            self._volume = 0.0  # keeps it small, hence exact
        self._due = max(self._now, min(self._ends(), self._next, self._change()))
        self._solved = True

    def _fits(self, flow: Flow, counted: int) -> bool:
        """Whether its cap is at most its share of what the flows before it leave; `counted` if it is capped now."""
        rest = self._weight + counted * flow.heft
        return flow.wide * rest <= (self._total - self._reserved + counted * flow.wide) * flow.heft

    def _shift(self, flow: Flow, capped: bool) -> None:
        left = self.left(flow, self._now)
        self._quit(flow)
        flow.left = left
        self._join(flow, capped)
        if capped and flow.rises and flow.change < math.inf:
            heappush(self._changes, (flow.change, flow.number, flow))  # it may have been passed over since

    def _join(self, flow: Flow, capped: bool) -> None:
        """Puts it in its group; its clock starts now."""
        flow.capped = capped
        if capped:
            flow.since = self._now
            flow.due = flow.cap.finish(self._now, flow.left)
            insort(self._capped, (-flow.due, -flow.number, flow))
            self._reserved += flow.wide
        else:
            flow.since = self._volume
            flow.due = self._volume + flow.left / flow.weight
            insort(self._level, (-flow.due, -flow.number, flow))
            self._weight += flow.heft
        self._order(flow)

    def _quit(self, flow: Flow) -> None:
        group = self._capped if flow.capped else self._level
        del group[bisect_left(group, (-flow.due, -flow.number))]
        if flow.capped:
            self._reserved -= flow.wide
        else:
            self._weight -= flow.heft

    def _remove(self, flow: Flow) -> None:
        self._settle()
        self._quit(flow)
        flow.home = None
        self._stirred, self._solved = 0, False

    # --- caps -----------------------------------------------------------------------------------------------

    def _look(self, flow: Flow) -> None:
        """Its cap now, and when that changes."""
        if flow.varies:
            flow.rate = flow.cap.at(self._now)
            flow.change, flow.wide = next_change(flow.cap, self._now), whole(flow.rate)
        else:
            flow.rate, flow.change, flow.wide = flow.cap.peak, math.inf, flow.most
        flow.rank = (flow.rate / flow.weight, flow.number)
        if flow.change < math.inf:
            heappush(self._changes, (flow.change, flow.number, flow))

    def _recap(self, flow: Flow) -> None:
        """The flow's cap changed: re-rank it, and move it across the border only if the order of caps demands it."""
        self._settle()
        self._reserved -= flow.wide * flow.capped
        self._look(flow)
        self._reserved += flow.wide * flow.capped
        self._order(flow)
        other = self._first(not flow.capped)
        if other is not None and (flow.rank > other.rank) == flow.capped:
            self._shift(flow, not flow.capped)
        self._stirred, self._solved = self._stirred + 1, False

    def _order(self, flow: Flow) -> None:
        """Where it stands in its group by its cap now."""
        ratio, number = flow.rank
        if flow.capped:
            self._highest = self._push(self._highest, (-ratio, -number, flow), len(self._capped))
        else:
            self._lowest = self._push(self._lowest, (ratio, number, flow), len(self._level))

    def _push(self, heap: list[Rank], rank: Rank, valid: int) -> list[Rank]:
        heappush(heap, rank)
        if len(heap) > 2 * valid + 64:  # most are out of date
            heap = list({each[1]: each for each in heap if self._stands(each)}.values())
            heapify(heap)
        return heap

    def _first(self, capped: bool) -> Flow | None:
        """The highest of the capped flows, or the lowest of the others."""
        heap = self._highest if capped else self._lowest
        while heap:
            if self._stands(heap[0]):
                return heap[0][2]
            heappop(heap)
        return None

    def _stands(self, rank: Rank) -> bool:
        ratio, number, flow = rank
        return flow.home is self and flow.capped == (number < 0) and abs(ratio) == flow.rank[0]
