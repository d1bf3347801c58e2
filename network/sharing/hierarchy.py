"""Flows on a tree of links, weighted max-min fair, one event at a time.

Each flow that is not bounded by its cap is bounded by one link on its way, its bottleneck: a full link on which no
other flow has a higher level (rate over weight).  So of two full links on a way, the upper one has the higher level. An
event changes the sums of the links on one way.  From there flows move to their cap or to the level, and links become
full or not full, until all conditions hold; other parts of the tree are not examined.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

from network.sharing.bottleneck import Bottleneck, Due
from network.sharing.flow import Flow, LinkState, next_change, whole


class Hierarchy:
    """An engine for links of bytes (not of airtime) that form a tree, in one direction, or for a single link.

    The search for the rates ends, because each step raises the level of one full link and lowers at most the levels of
    links below it that the step fills.  A flow at a level whose cap only rises, as in slow start, is not examined
    before the level could reach its last known cap.
    """

    def __init__(self, links: Sequence[LinkState], t: float) -> None:
        """Takes `links` ordered from the devices to the root, which is the last."""
        self._now = t
        nodes = {link: Bottleneck(link, number, t) for number, link in enumerate(links)}
        self._nodes = nodes
        for link, node in nodes.items():
            node.above = tuple(nodes[each] for each in link.above if each in nodes)
            node.below = [nodes[each] for each in link.below if each in nodes and each is not link]
            node.over = nodes[links[-1]]
        self._root = nodes[links[-1]]
        self._root.full, self._root.over = True, None
        self._ways: dict[LinkState, tuple[Bottleneck, ...]] = {}  # by the link of a device
        self._capped: list[Due] = []  # flows at their caps, sorted, the next to end last; due in time
        self._ends: list[tuple[float, int, Bottleneck]] = []  # ends of flows at levels; a heap, some entries outdated
        self._changes: list[tuple[float, int, Flow]] = []  # changes of caps; a heap, some entries outdated
        self._turns: list[tuple[float, int, Bottleneck]] = []  # changes of the capacities of links with flows; a heap
        self._dirty: dict[Bottleneck, None] = {}  # full links whose sums have changed
        self._due = math.inf
        self._solved = True

    def enter(self, flow: Flow, t: float) -> None:
        self._now, self._solved = t, False
        flow.home = self
        for each in self._way(flow):
            if each.asleep:
                self._recapacitate(each)
        node = self._full(flow)
        node.settle(t)
        self._look(flow)
        first = node.first(capped=False)
        self._join(flow, node, first is None or flow.rank < first.rank)  # a guess, which _solve corrects

    def leave(self, flow: Flow, t: float) -> None:
        self._now = t
        flow.left = self.left(flow, t)
        self._remove(flow)

    def left(self, flow: Flow, t: float) -> float:
        if flow.capped:
            return flow.carry(t)
        node: Bottleneck = flow.bottleneck
        return flow.rest(flow.left - (node.volume_at(t) - flow.since) * flow.weight, flow.varies)

    def rates(self, t: float) -> dict[Flow, float]:  # noqa: ARG002
        self.due()
        found = {flow: flow.rate for _, _, flow in self._capped}
        for node in self._nodes.values():
            if node.full and node.level:
                found.update((flow, min(flow.rate, node.height * flow.weight)) for _, _, flow in node.level)
        return found

    def due(self) -> float:
        if not self._solved:
            self._solve()
            end = -self._capped[-1][0] if self._capped else math.inf
            self._due = max(self._now, min(end, self._level_end(), self._change(), self._turn()))
            self._solved = True
        return self._due

    def step(self, t: float) -> list[Flow]:
        self._now, self._solved = t, False
        ended: list[Flow] = []
        while self._level_end() <= t:
            node = heappop(self._ends)[2]
            # V is known exactly, so that flows of equal bytes end together; the next end is not known yet
            node.volume, node.changed, node.due = -node.level[-1][0], t, math.inf
            ended += self._done(node.ended())
        while self._capped and -self._capped[-1][0] <= t:
            ended += self._done([self._capped[-1][2]])
        while self._change() <= t:
            self._recap(heappop(self._changes)[2])
        while self._turn() <= t:
            ended += self._resize(heappop(self._turns)[2])
        return ended

    # --- time -----------------------------------------------------------------------------------------------

    def _level_end(self) -> float:
        ends = self._ends
        while ends:
            due, _, node = ends[0]
            if node.full and node.due == due and node.level:
                return due
            heappop(ends)
        return math.inf

    def _change(self) -> float:
        """Returns the time of the next change of a flow's cap that matters, s; inf if there is none."""
        changes = self._changes
        while changes:
            change, _, flow = changes[0]
            # for a flow at the level rises do not matter
            if flow.change == change and flow.home is self and (flow.capped or not flow.rises):
                return change
            heappop(changes)
        return math.inf

    def _turn(self) -> float:
        """Returns the time of the next change of a link's capacity, s; inf if there is none."""
        return self._turns[0][0] if self._turns else math.inf

    def _done(self, flows: Sequence[Flow]) -> Sequence[Flow]:
        for flow in flows:
            self._remove(flow)
            flow.left = 0.0
        return flows

    def _resize(self, node: Bottleneck) -> Sequence[Flow]:
        """Applies the link's new capacity; ends and returns the flows whose remaining bytes are only rounding."""
        ended: Sequence[Flow] = ()
        if not node.link.flows:
            node.asleep = True  # its capacity is not needed
            return ended
        if node.full:
            node.settle(self._now)
            if node.level:
                last = node.level[-1][2]
                if not last.rest(self.left(last, self._now), varies=True):
                    node.volume = -node.level[-1][0]
                ended = self._done(node.ended())
        self._recapacitate(node)
        return ended

    def _recapacitate(self, node: Bottleneck) -> None:
        """Reads the link's current capacity, schedules the next change of it, and updates the sums of the links
        above."""
        before, node.total, node.asleep = node.total, whole(node.link.capacity.at(self._now)), False
        turn = next_change(node.link.capacity, self._now)
        if turn < math.inf:
            heappush(self._turns, (turn, node.number, node))
        if node.full:
            self._dirty[node] = None
            self._add(node.above[1:], node.total - before, 0)
        else:
            self._add(node.above, 0, 0)

    # --- sharing --------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Balances the full links whose sums have changed, each after all such links below it, until none is left."""
        dirty = self._dirty
        while dirty:
            node = min(dirty, key=_number) if len(dirty) > 1 else next(iter(dirty))
            del dirty[node]
            if node.full:
                self._balance(node)

    def _balance(self, node: Bottleneck) -> None:
        node.settle(self._now)
        if node.level or node.below or node.reserved > node.total:  # otherwise all run at their caps, and fit
            while self._improved(node):
                pass
            self._dirty.pop(node, None)
        node.solved()
        if node.due < math.inf:
            heappush(self._ends, (node.due, node.number, node))
        if node.over is not None:
            node.over.note_level(node)
            if node.over.exceeded_by(node):
                self._dirty[node.over] = None

    def _improved(self, node: Bottleneck) -> bool:
        """Makes one move towards the solution at a full link: moves a flow to its cap or to the level, or makes a link
        below full or not full.  Returns false if no move is necessary."""
        if (flow := node.first(capped=False)) and node.fits(flow, 0):
            if flow.change <= self._now:  # not examined while it rose
                self._look(flow)
                node.order(flow)
            else:
                self._shift(flow, capped=True)
        elif (flow := node.first(capped=True)) and not node.fits(flow, 1):
            self._shift(flow, capped=False)
        elif node.below and (link := node.fullest()) and node.overfills(link):
            self._fill(link, node)
        elif node.below and (link := node.highest_level()) and node.exceeded_by(link):
            self._empty(link)
        else:
            return False
        return True

    def _fill(self, link: Bottleneck, over: Bottleneck) -> None:
        """Makes `link` full: from now on it bounds the flows through it that the full link `over` above it has
        bounded."""
        over.settle(self._now)
        link.clear(self._now)
        link.full = True
        self._add(link.above[1:], link.total - link.reserved, -link.weight)
        self._hand_over(link, over, link)
        self._dirty[link] = None

    def _empty(self, link: Bottleneck) -> None:
        """Makes `link` not full: the next full link above it bounds its flows from now on."""
        over = link.over
        assert over is not None
        over.settle(self._now)
        link.full = False
        self._add(link.above[1:], link.reserved - link.total, link.weight)
        self._hand_over(link, link, over)
        over.stirred[link] = None

    def _hand_over(self, link: Bottleneck, old: Bottleneck, new: Bottleneck) -> None:
        """Moves the flows on `link` that the full link `old` bounds, and the links below it that belong to `old`, to
        the full link `new`."""
        for flow in link.link.flows.values():
            if flow.bottleneck is old:
                if flow.capped:
                    old.capped -= 1
                    new.capped += 1
                    flow.bottleneck = new
                else:
                    flow.left = self.left(flow, self._now)
                    old.lower_level(flow)
                    flow.bottleneck = new
                    new.raise_level(flow)
                new.order(flow)
        for each in link.below:
            if each.over is old:
                each.over = new
                if each.full:
                    new.note_level(each)
                else:
                    new.stirred[each] = None

    def _shift(self, flow: Flow, capped: bool) -> None:
        node: Bottleneck = flow.bottleneck
        left = self.left(flow, self._now)
        self._quit(flow, node)
        flow.left = left
        self._join(flow, node, capped)
        if capped and flow.rises and flow.change < math.inf:
            heappush(self._changes, (flow.change, flow.number, flow))  # its entry may have been skipped meanwhile

    def _join(self, flow: Flow, node: Bottleneck, capped: bool) -> None:
        """Adds the flow to the capped flows of `node` or to those at its level, with its progress measured from now
        on."""
        flow.bottleneck, flow.capped = node, capped
        if capped:
            flow.since = self._now
            flow.due = flow.cap.finish(self._now, flow.left)
            insort(self._capped, (-flow.due, -flow.number, flow))
            node.capped += 1
            self._add(self._way(flow), flow.wide, 0)
        else:
            node.raise_level(flow)
            self._add(self._way(flow), 0, flow.heft)
        node.order(flow)

    def _quit(self, flow: Flow, node: Bottleneck) -> None:
        if flow.capped:
            del self._capped[bisect_left(self._capped, (-flow.due, -flow.number))]
            node.capped -= 1
            self._add(self._way(flow), -flow.wide, 0)
        else:
            node.lower_level(flow)
            self._add(self._way(flow), 0, -flow.heft)

    def _add(self, way: Sequence[Bottleneck], reserved: int, weight: int) -> None:
        """Adds to `reserved` and `weight` (see Bottleneck) of the links on a way, up to and with the first full
        link."""
        for node in way:
            node.reserved += reserved
            node.weight += weight
            if node.full:
                self._dirty[node] = None
                return
            assert node.over is not None
            node.over.stirred[node] = None

    def _remove(self, flow: Flow) -> None:
        node: Bottleneck = flow.bottleneck
        node.settle(self._now)
        self._quit(flow, node)
        flow.home = flow.bottleneck = None
        self._solved = False

    def _way(self, flow: Flow) -> tuple[Bottleneck, ...]:
        """Returns those links on the flow's way that this engine has, from the device to the root."""
        at = flow.route[0]
        if at not in self._ways:
            self._ways[at] = tuple(self._nodes[link] for link in flow.route if link in self._nodes)
        return self._ways[at]

    def _full(self, flow: Flow) -> Bottleneck:
        """Returns the first full link on the flow's way, from the device on.  Raises LookupError if there is none."""
        for node in self._way(flow):
            if node.full:
                return node
        raise LookupError(f"flow {flow.name!r} is on no link of this tree")

    # --- caps -----------------------------------------------------------------------------------------------

    def _look(self, flow: Flow) -> None:
        """Sets the flow's current cap, its rank by cap over weight, and the time of the cap's next change."""
        if flow.varies:
            flow.rate = flow.cap.at(self._now)
            flow.change, flow.wide = next_change(flow.cap, self._now), whole(flow.rate)
        else:
            flow.rate, flow.change, flow.wide = flow.cap.peak, math.inf, flow.most
        flow.rank = (flow.rate / flow.weight, flow.number)
        if flow.change < math.inf:
            heappush(self._changes, (flow.change, flow.number, flow))

    def _recap(self, flow: Flow) -> None:
        """Applies a change of the flow's cap to the flow and to the sums of the links on its way."""
        node: Bottleneck = flow.bottleneck
        before = flow.wide
        node.settle(self._now)
        self._look(flow)
        self._add(self._way(flow), flow.wide - before if flow.capped else 0, 0)
        node.order(flow)


def _number(node: Bottleneck) -> int:
    return node.number
