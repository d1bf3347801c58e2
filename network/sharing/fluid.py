"""Flows on shared links, weighted max-min fair: a state machine without a clock.

The links are a tree: device, access point or cell, backhaul, server (docs/design/network.md §3).  Flows are grouped by
the uppermost link on their way that they could saturate.  Each group has an engine: flows without such a link have
`alone`, a link that can be saturated has `hierarchy` for itself and all links below it, and links with airtime have
`tree`.

Where flows of both directions share the air, their groups are merged: the links of one direction are then directly
above the links of the other, in one tree, though a flow uses only the links of its own direction.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from network.links.rate import Constant, Rate
from network.sharing.alone import AloneEngine
from network.sharing.flow import NUMBER, WEIGHTS, Flow, LinkState, SharedLink, Sharing, as_rate
from network.sharing.hierarchy import Hierarchy
from network.sharing.link_tree import Routes, doubled, find_ways, links_of, routes_of
from network.sharing.tree import Tree

SLACK = 0.5  # share of a link's capacity, below which its flows run alone; above, they would only return


Back = tuple[float | Rate, Mapping[str, SharedLink]]  # the root and the links below it, in the other direction


class Fluid:
    """Shared links in one direction, and the flows on them; `capacity` is that of the root, in bytes/s, inf for no
    bound.

    `shared`: the links below the root, by name.  `back`: the other direction, with links of the same names and parents;
    airtime links carry both directions on one air.  The caller gives the time, in s, which must not go back.  A flow's
    name is free again when `advance` has reported its end or `close` has removed it.  Raises ValueError for a capacity
    that is not positive, for links that are not a tree or airtime links with links below them, and for directions that
    do not match.
    """

    def __init__(
        self, capacity: float | Rate, shared: Mapping[str, SharedLink] | None = None, back: Back | None = None
    ) -> None:
        forth = links_of(capacity, shared or {})
        self._root = forth[None]
        self._routes: dict[bool, Routes] = {False: routes_of(forth)}  # by True for flows that go back
        self._links = list(forth.values())
        if back is not None:
            self._routes[True], others = doubled(forth, links_of(*back))
            self._links += others
        find_ways(self._links)
        self._star = not shared and isinstance(self._root.capacity, Constant)
        self._now = 0.0
        self._opened = 0
        self._flows: dict[Hashable, Flow] = {}
        self._varying = 0  # flows whose cap is not constant
        self._on_air = any(link.airtime for link in self._links)
        self._alone = AloneEngine()
        self._agenda = Agenda()
        self._agenda.add(self._alone)
        self._ended: dict[Hashable, tuple[float, int, float]] = {}  # by name: time, number, bytes; not yet reported

    @property
    def now(self) -> float:
        """The time of the last call, in s."""
        return self._now

    def open(
        self,
        t: float,
        flow: Hashable,
        nbytes: float,
        cap: float | Rate,
        weight: float = 1.0,
        via: str | None = None,
        radio: float | Rate | None = None,
        back: bool = False,
    ) -> None:
        """Starts a flow of `nbytes` bytes at `t` that never runs faster than `cap`, in bytes/s.

        `via`: the shared link of its device; None is the root.  `radio`: the flow's rate with all the airtime of the
        link `via`, in bytes/s; None means `cap`.  With `back` it goes in the other direction.  Raises ValueError if t
        is before now, the name is in use, via or that direction unknown, nbytes not finite and at least 0, cap or radio
        not finite and positive, or weight not from 1e-3 to 1e9.
        """
        if not 0 <= nbytes < math.inf:
            raise ValueError(f"flow {flow!r} has {nbytes} bytes; it must be finite and at least 0")
        if isinstance(cap, NUMBER) and not 0 < cap < math.inf:
            raise ValueError(f"flow {flow!r} has a cap of {cap} bytes/s; it must be positive and finite")
        if isinstance(radio, NUMBER) and not 0 < radio < math.inf:
            raise ValueError(f"flow {flow!r} has a radio of {radio} bytes/s; it must be positive and finite")
        if not WEIGHTS[0] <= weight <= WEIGHTS[1]:
            raise ValueError(f"flow {flow!r} has a weight of {weight}; it must be from {WEIGHTS[0]} to {WEIGHTS[1]:g}")
        if back not in self._routes:
            raise ValueError(f"flow {flow!r} goes back; these links have one direction")
        if via not in self._routes[back]:
            names = sorted(filter(None, self._routes[back]))
            raise ValueError(f"flow {flow!r} is via {via!r}; the shared links are {names}")
        self.reach(t)
        if flow in self._flows or flow in self._ended:
            raise ValueError(f"flow {flow!r} is open already; each flow needs a name of its own")
        self._opened += 1
        route = self._routes[back][via]
        speed = as_rate(radio) if radio is not None and route[0].airtime else None
        self._flows[flow] = new = Flow(flow, self._opened, nbytes, as_rate(cap), weight, speed, route, nbytes)
        self._join(new)

    def close(self, t: float, flow: Hashable) -> float:
        """Removes a flow at `t`, ended or not, and returns the bytes that it has carried.  Raises ValueError for an
        unknown flow."""
        self.reach(t)
        carried = self._carried(flow)
        if self._ended.pop(flow, None) is None:
            self._quit(self._flows.pop(flow))
        return carried

    def carried(self, t: float, flow: Hashable) -> float:
        """Returns the bytes that the flow will have carried by `t` if no flow is opened or closed before; changes
        nothing."""
        return self._at(t)._carried(flow)

    def rates(self, t: float) -> dict[Hashable, float]:
        """Returns the rate of each flow just after `t`, in bytes/s, by name, if no flow is opened or closed before;
        changes nothing."""
        then = self._at(t)
        then._move(t)
        found: dict[Hashable, float] = {}
        for sharing in then._agenda.sharings:
            found.update((flow.name, rate) for flow, rate in sharing.rates(t).items())
        return found

    def next_finish(self) -> float:
        """Returns the next time at which a flow may end or a rate may change, in s, if no flow is opened or closed
        before: the caller should call `advance` then.

        Never before `now`; inf if nothing will happen.  `advance` then reports the flows that have ended, if any.
        """
        return self._now if self._ended else max(self._now, self._agenda.first()[0])

    def advance(self, t: float) -> list[Hashable]:
        """Lets time pass until `t`; returns the flows that have ended by then, in order of time and of opening."""
        self._forward(t)
        self._move(t)
        if not self._ended:
            return []
        ended = sorted(self._ended, key=self._ended.__getitem__)
        self._ended.clear()
        return ended

    def reach(self, t: float) -> None:
        """Lets time pass until `t`; the next `advance` reports the flows that have ended meanwhile.  Rates are computed
        only once for several changes at one instant."""
        self._forward(t)
        if t > self._now:
            self._move(t)

    # --- time -----------------------------------------------------------------------------------------------

    def _forward(self, t: float) -> None:
        if not self._now <= t < math.inf:
            raise ValueError(f"t is {t} s and the last call was at {self._now} s; time must not go back")

    def _at(self, t: float) -> Fluid:
        self._forward(t)
        if t == self._now:
            return self
        rates: list[Any] = [link.capacity for link in self._links]
        for flow in self._flows.values():
            rates += (flow.name, flow.cap, flow.radio)
        then = copy.deepcopy(self, {id(each): each for each in rates})  # traces are large, and never change
        then._move(t)
        return then

    def _move(self, t: float) -> None:
        """Handles everything due in (now, t], in order, and then sets the time to `t`."""
        done: list[Sharing] = []  # of which nothing else is due by then; who follows at `t` shall cost no solve more
        while True:
            due, sharing = self._agenda.first(done)
            if due > t:
                break
            self._now = max(due, self._now)
            self._agenda.stir(sharing)
            ended = sharing.step(self._now)
            if self._now == t and isinstance(sharing, Tree):
                done.append(sharing)
            for flow in ended:
                self._ended[flow.name] = (self._now, flow.number, flow.nbytes)
                del self._flows[flow.name]
            self._unload(ended)
        self._now = t

    def _carried(self, name: Hashable) -> float:
        if name in self._ended:
            return self._ended[name][2]
        if name not in self._flows:
            raise ValueError(f"flow {name!r} is not open; it has ended and been reported, or never began")
        flow = self._flows[name]
        left = flow.left if flow.home is None else flow.home.left(flow, self._now)
        return min(max(flow.nbytes - left, 0.0), flow.nbytes)

    # --- who shares with whom -------------------------------------------------------------------------------

    def _join(self, flow: Flow) -> None:
        for link in flow.route:
            link.add(flow)
        self._varying += flow.varies
        fresh = self._filled_by(flow)
        if fresh:
            self._fill(_uppermost(flow, fresh), fresh)
        elif flow.varies and self._varying == 1 and self._star and self._root.bound and not self._crowded(self._root):
            self._regroup(self._root)
        else:
            self._enter(flow)

    def _filled_by(self, flow: Flow) -> list[LinkState]:
        """Returns the links on the flow's way that this flow may fill and that are not part of an engine yet, from the
        root down."""
        found = []
        for link in reversed(flow.route):
            if link.bound and not self._on_air:
                break  # its engine knows all links below it
            if not link.bound and self._crowded(link):
                found.append(link)
        return found

    def _fill(self, top: LinkState, fresh: Sequence[LinkState]) -> None:
        """Adds the links `fresh`, which may be full from now on, to an engine; `top` is the uppermost of them or a
        bound link above them."""
        if not isinstance(top.sharing, Tree):
            self._regroup(top)
            return
        for link in fresh:
            link.bound = True
        there = {flow.number: flow for link in fresh for flow in link.flows.values() if flow.home is not top.sharing}
        for number in sorted(there):
            self._leave(there[number])
            self._enter(there[number])

    def _quit(self, flow: Flow) -> None:
        if flow.home is not None:
            self._leave(flow)
            self._unload([flow])

    def _leave(self, flow: Flow) -> None:
        if flow.home is not None:
            self._agenda.stir(flow.home)
            flow.home.leave(flow, self._now)

    def _unload(self, flows: Sequence[Flow]) -> None:
        """Takes flows that have left their engine off the links on their way, and regroups links that can no longer be
        saturated."""
        for flow in flows:
            self._varying -= flow.varies
            for link in flow.route:
                link.drop(flow)
        for flow in flows:
            for link in flow.route:
                if link.sharing is not None and not self._crowded(link, SLACK):
                    self._regroup(link)

    def _crowded(self, link: LinkState, room: float = 1.0) -> bool:
        """Returns true if the link's flows could use more than the share `room` of it.  If there is only the root and
        nothing varies, true with any flow: an engine for the root then costs no more events."""
        if link is self._root and self._star and self._varying == 0:
            return bool(link.flows) or room < 1
        return link.crowded(room)

    def _regroup(self, top: LinkState) -> None:
        """Determines again, for `top` and all links below it, which links may be saturated, and moves their flows to
        suitable engines."""
        there = top.flows if top.twin is None else top.flows | top.twin.flows
        flows = sorted(there.values(), key=lambda flow: flow.number)
        for flow in flows:
            self._leave(flow)
        for link in top.below:
            link.bound = self._crowded(link)
            if link.sharing is not None:
                self._agenda.drop(link.sharing)
                link.sharing = None
        for flow in flows:
            self._enter(flow)

    def _enter(self, flow: Flow) -> None:
        sharing: Sharing = self._alone
        for link in flow.route:
            if link.bound:
                sharing = self._sharing(_uppermost(flow))
                break
        self._agenda.stir(sharing)
        sharing.enter(flow, self._now)

    def _sharing(self, top: LinkState) -> Sharing:
        """Returns the engine of the link `top` and of all links below it; makes one if there is none."""
        if top.sharing is None:
            top.sharing = self._engine(top)
            self._agenda.add(top.sharing)
        return top.sharing

    def _engine(self, top: LinkState) -> Sharing:
        """Returns a new engine that fits the links that may be saturated among `top` and the links below it."""
        if top.airtime or (self._on_air and sum([link.bound for link in top.below]) > 1):
            return Tree(top.below, self._now)
        return Hierarchy([top] if self._on_air else top.below, self._now)


class Agenda:
    """The engines in use, ordered by their due times."""

    def __init__(self) -> None:
        self.sharings: dict[Sharing, float] = {}  # due time of each, as in the heap
        self._numbers: dict[Sharing, int] = {}
        self._count = 0
        self._heap: list[tuple[float, int, Sharing]] = []  # some entries outdated
        self._stirred: dict[Sharing, None] = {}  # engines whose due time may have changed
        self._first: tuple[float, Sharing] | None = None  # as last found; None: something has changed

    def add(self, sharing: Sharing) -> None:
        self._count += 1
        self.sharings[sharing], self._numbers[sharing] = math.nan, self._count
        self.stir(sharing)

    def drop(self, sharing: Sharing) -> None:
        del self.sharings[sharing], self._numbers[sharing]
        self._stirred.pop(sharing, None)
        self._first = None

    def stir(self, sharing: Sharing) -> None:
        """Notes that something in an engine changes, so that its due time must be read again."""
        if sharing in self.sharings:
            self._stirred[sharing], self._first = None, None

    def first(self, but: Collection[Sharing] = ()) -> tuple[float, Sharing]:
        """Returns the earliest due time of all engines and the engine that is due then, the oldest if several are.
        `but`: engines to skip."""
        if self._first is not None and not but:
            return self._first
        self._ask(but)
        due, _, sharing = self._heap[0]
        self._first = None if but else (due, sharing)
        return due, sharing

    def _ask(self, but: Collection[Sharing]) -> None:
        """Reads the due times of engines that may have changed, without those in `but`, and removes outdated entries
        until the top of the heap is the earliest."""
        for sharing in self._stirred:
            if sharing in but:
                self.sharings[sharing] = math.nan
            elif (due := sharing.due()) != self.sharings[sharing]:
                self.sharings[sharing] = due
                of_its_own = self._heap and self._heap[0][2] is sharing  # the top entry is outdated
                (heapreplace if of_its_own else heappush)(self._heap, (due, self._numbers[sharing], sharing))
        self._stirred.clear()
        for sharing in but:
            self.stir(sharing)
        while self.sharings.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        if len(self._heap) > 2 * len(self.sharings) + 64:
            known = [(due, self._numbers[sharing], sharing) for sharing, due in self.sharings.items()]
            self._heap = [each for each in known if each[0] == each[0]]  # no nan
            heapify(self._heap)


def _uppermost(flow: Flow, fresh: Collection[LinkState] = ()) -> LinkState:
    """Returns the uppermost link above the flow's device that is bound (may be saturated) or in `fresh`.  Raises
    LookupError if there is none."""
    for link in reversed(flow.above):
        if link.bound or link in fresh:
            return link
    raise LookupError(f"no link of flow {flow.name!r} is bound")
