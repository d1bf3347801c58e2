"""A full link and the flows that it bounds: a water level, and a clock that runs as fast as the level.

Each flow has a cap, the rate that its device's link allows.  What the capped flows leave of the full link's capacity is
divided by weight: flows whose cap is below the level times their weight run at their cap, all others at the level. A
capped flow ends at a known time; a flow at the level ends when the level's integral V has grown by its bytes over its
weight, so a change of the level reschedules no flow.

Full links below this link bound flows of their own, and take their capacity from this link.  Links below it that are
not full carry flows that this link bounds, and know the use of these flows at any level.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeVar

from network.links.rate import Constant
from network.sharing.flow import UNIT, Flow, LinkState, whole

Due = tuple[float, int, Flow]  # its end on its clock and its number, both negative
Rank = tuple[float, int, Flow]  # cap/weight and number; both negative where the highest comes first
Mark = tuple[float, int, "Bottleneck"]  # a level and its number; the level negative where the highest comes first
Item = TypeVar("Item", Flow, "Bottleneck")


class Bottleneck:
    """A link of a hierarchy (hierarchy.py), in one direction; it bounds flows while it is `full`.

    `reserved` and `weight` are sums over the flows that pass this link and are bounded by the same full link, which is
    this link or one above it.  `reserved` sums the caps of the capped ones and the capacities of full links below;
    `weight` sums the weights of all others.  These sums are exact, so rates depend neither on the past nor on the order
    of opening.  The end of a flow does depend on the past in its last bits, because its bytes are updated when it
    changes its group.
    """

    def __init__(self, link: LinkState, number: int, t: float) -> None:
        self.link, self.number = link, number
        self.above: tuple[Bottleneck, ...] = ()  # this bottleneck and all above it, up to the root
        self.below: list[Bottleneck] = []
        self.over: Bottleneck | None = None  # the next full link above; the root has none
        self.full = False
        self.total = whole(link.capacity.peak)  # its capacity now, whole
        self.asleep = not isinstance(link.capacity, Constant)  # it varies, and its value has not been needed yet
        self.reserved = self.weight = 0  # whole
        self.clear(t)

    def clear(self, t: float) -> None:
        """Prepares the link to bound flows from `t` on: no flow is at its level or capped yet."""
        self.level: list[Due] = []  # sorted, the next to end last; due in V
        self.volume = 0.0  # V: bytes per weight of a flow at the level, up to the last change of the sharing
        self.changed = t  # time of that change; V grows from there, so that frequent looks do not accumulate rounding
        self.room = 0.0  # bytes/s that all flows at the level share
        self.shares = 0.0  # their weights
        self.due = math.inf  # time at which the first of them ends
        self.height = math.inf  # the level
        self.capped = 0  # flows that run at their cap
        self._highest: list[Rank] = []  # a heap of the capped flows, some entries outdated
        self._lowest: list[Rank] = []  # a heap of the flows at the level, some entries outdated
        self._filling: list[Mark] = []  # a heap of links below, by the level that would fill them
        self._levels: list[Mark] = []  # a heap of full links below, by their levels
        self.stirred: dict[Bottleneck, None] = {}  # links below that are not full, whose sums have changed
        self.filled_at = math.nan  # the level that would fill it, as entered at the link over it

    # --- time -----------------------------------------------------------------------------------------------

    def volume_at(self, t: float) -> float:
        """Returns V at `t`: the bytes per weight that a flow at the level has carried since V was last 0."""
        if t == self.changed or not self.level:
            return self.volume
        return self.volume + (t - self.changed) * self.room / self.shares

    def settle(self, t: float) -> None:
        """Stores V as of `t`; must be called before the level changes, because V then grows at another rate."""
        if self.changed != t:
            self.volume, self.changed = self.volume_at(t), t

    def solved(self) -> None:
        """Computes the level, and the time at which the next flow at the level ends; requires that `reserved` and
        `weight` are final."""
        if not self.level:
            self.volume = 0.0  # keeps V small, hence exact
            self.due = self.height = math.inf
            return
        self.room, self.shares = (self.total - self.reserved) / UNIT, self.weight / UNIT
        self.height = self.room / self.shares
        if self.room <= 0:
            self.due = math.inf if -self.level[-1][0] > self.volume else self.changed
        else:
            # one division, last: n flows of b bytes take exactly n times b/capacity
            self.due = self.changed + (-self.level[-1][0] - self.volume) * self.shares / self.room

    def ended(self) -> list[Flow]:
        """Returns the flows at the level that have no bytes left, in the order of their ends."""
        count = 0
        while count < len(self.level) and -self.level[-1 - count][0] <= self.volume:
            count += 1
        return [flow for _, _, flow in reversed(self.level[len(self.level) - count :])]

    # --- flows ----------------------------------------------------------------------------------------------

    def raise_level(self, flow: Flow) -> None:
        """Adds the flow to those that run at the water level; from now on its progress is measured in V."""
        flow.since = self.volume
        flow.due = self.volume + flow.left / flow.weight
        insort(self.level, (-flow.due, -flow.number, flow))

    def lower_level(self, flow: Flow) -> None:
        """Removes the flow from those that run at the water level."""
        del self.level[bisect_left(self.level, (-flow.due, -flow.number))]

    def order(self, flow: Flow) -> None:
        """Enters the flow, with its current cap over its weight, into the heap of its group: the capped flows, or those
        at the level."""
        ratio, number = flow.rank
        if flow.capped:
            self._highest = _pushed(self._highest, (-ratio, -number, flow), self.capped, self._stands)
        else:
            self._lowest = _pushed(self._lowest, (ratio, number, flow), len(self.level), self._stands)

    def first(self, capped: bool) -> Flow | None:
        """Returns the flow with the highest cap over weight of the capped flows, or with the lowest of those at the
        level; None if the group is empty."""
        return _top(self._highest if capped else self._lowest, self._stands)

    def fits(self, flow: Flow, counted: int) -> bool:
        """Returns true if the flow's cap is at most its share by weight of the capacity that other capped flows leave.
        `counted`: 1 if the flow is capped now, so that its cap is part of `reserved`, else 0."""
        rest = self.weight + counted * flow.heft
        return flow.wide * rest <= (self.total - self.reserved + counted * flow.wide) * flow.heft

    def _stands(self, rank: Rank) -> bool:
        ratio, number, flow = rank
        return flow.bottleneck is self and flow.capped == (number < 0) and abs(ratio) == flow.rank[0]

    # --- links below ----------------------------------------------------------------------------------------

    def fullest(self) -> Bottleneck | None:
        """Returns the link below that a rising level would fill first, of those that are not full and carry flows of
        this link; None if there is none."""
        for link in self.stirred:
            if self._carries_flows_of(link):
                link.filled_at = _ratio(link.total - link.reserved, link.weight)
                mark = link.filled_at, link.number, link
                self._filling = _pushed(self._filling, mark, len(self.below), self._would_fill)
        self.stirred.clear()
        return _top(self._filling, self._would_fill)

    def _carries_flows_of(self, link: Bottleneck) -> bool:
        return link.over is self and not link.full

    def _would_fill(self, mark: Mark) -> bool:
        at, _, link = mark
        return link.filled_at == at and self._carries_flows_of(link)

    def overfills(self, link: Bottleneck) -> bool:
        """Returns true if a link below cannot carry the rates that its flows have at this link's level."""
        if not self.weight:
            return link.reserved > link.total
        room = self.total - self.reserved
        return link.reserved * self.weight + room * link.weight > link.total * self.weight

    def highest_level(self) -> Bottleneck | None:
        """Returns the link with the highest level of the full links directly under this one; None if there is none."""
        return _top(self._levels, self._is_level)

    def note_level(self, link: Bottleneck) -> None:
        """Enters the new level of a full link below into the heap that `highest_level` reads."""
        self._levels = _pushed(self._levels, (-link.height, link.number, link), len(self.below), self._is_level)

    def _is_level(self, mark: Mark) -> bool:
        height, _, link = mark
        return link.full and link.over is self and link.height == -height

    def exceeded_by(self, link: Bottleneck) -> bool:
        """Returns true if the level of a full link below is higher than this link's level: then the link below is not
        full in truth."""
        if not link.weight:
            return True
        return (link.total - link.reserved) * self.weight > (self.total - self.reserved) * link.weight


def _ratio(room: int, weight: int) -> float:
    if weight:
        return room / weight
    return math.inf if room >= 0 else -math.inf


def _top(heap: list[tuple[float, int, Item]], stands: Callable[[tuple[float, int, Item]], bool]) -> Item | None:
    """Returns the item of the first entry of the heap for which `stands` is true, None if there is none; removes the
    outdated entries before it."""
    while heap:
        if stands(heap[0]):
            return heap[0][2]
        heappop(heap)
    return None


def _pushed(
    heap: list[tuple[float, int, Item]],
    entry: tuple[float, int, Item],
    valid: int,
    stands: Callable[[tuple[float, int, Item]], bool],
) -> list[tuple[float, int, Item]]:
    """Returns the heap with this entry.  If it has grown to more than twice `valid`, the number of current entries, it
    is rebuilt without outdated ones."""
    heappush(heap, entry)
    if len(heap) > 2 * valid + 64:
        heap = list({each[1]: each for each in heap if stands(each)}.values())
        heapify(heap)
    return heap
