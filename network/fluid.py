"""Flows that share one link, max-min fair: a state machine without a clock.

Each flow is bounded by a cap of its own (its device's link); what the shared link cannot give to all is
divided by a water level: flows whose cap lies below it run at their cap, all others at the level
(network.md §3, engine 2).  A capped flow ends at a time that is known; a flow at the level ends when the
level's integral V has grown by its bytes, so a change of the level reschedules nobody.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable
from itertools import accumulate
from typing import NamedTuple

Due = tuple[float, int, Hashable]  # when it ends on its group's clock, number, name


class Flow(NamedTuple):
    """A flow since it last changed group.  Its clock is the time if it runs at its cap, otherwise V."""

    number: int  # order of opening
    nbytes: float  # in all
    cap: float  # bytes/s
    capped: bool  # runs at its cap
    left: float  # bytes, when its clock showed `since`
    since: float

    @property
    def due(self) -> float:
        """What its clock will show when it ends."""
        return self.since + (self.left / self.cap if self.capped else self.left)


class Fluid:
    """One shared link, in one direction; `capacity` in bytes/s, inf if it bounds nobody.

    The caller says what time it is, in s, and must not go back.  A flow's name is free again when
    `advance` has reported its end or `close` has removed it.
    """

    def __init__(self, capacity: float) -> None:
        if not capacity > 0:
            raise ValueError(f"capacity is {capacity} bytes/s; a shared link needs a positive one")
        self._capacity = capacity
        self._now = 0.0
        self._opened = 0
        self._flows: dict[Hashable, Flow] = {}
        self._caps: list[float] = []  # of all flows, ascending
        self._order: list[tuple[float, int, Hashable]] = []  # (cap, number, name), beside _caps
        self._border = 0  # flows before it run at their cap, the others at the level
        self._capped: list[Due] = []  # sorted; due in time
        self._level: list[Due] = []  # sorted; due in V
        self._volume = 0.0  # V: bytes that a flow at the level had carried when the sharing last changed
        self._changed = 0.0  # when that was; V grows from there, so that looking often rounds nothing away
        self._room = 0.0  # bytes/s that all flows at the level share
        self._ended: list[tuple[float, int, Hashable, float]] = []  # time, number, name, bytes; not yet reported
        self._solved = True

    @property
    def now(self) -> float:
        """The time it was last told, in s."""
        return self._now

    def open(self, t: float, flow: Hashable, nbytes: float, cap: float) -> None:
        """Starts a flow of `nbytes` that never runs faster than `cap`, in bytes/s.

        Raises ValueError if t is before now, the name is in use, nbytes is not finite and at least 0, or
        cap not finite and positive.
        """
        if not 0 <= nbytes < math.inf:
            raise ValueError(f"flow {flow!r} has {nbytes} bytes; it must be finite and at least 0")
        if not 0 < cap < math.inf:
            raise ValueError(f"flow {flow!r} has a cap of {cap} bytes/s; it must be positive and finite")
        self._reach(t)
        if flow in self._flows or any(name == flow for _, _, name, _ in self._ended):
            raise ValueError(f"flow {flow!r} is open already; each flow needs a name of its own")
        self._opened += 1
        place = bisect_right(self._caps, cap)
        self._caps.insert(place, cap)
        self._order.insert(place, (cap, self._opened, flow))
        self._settle()
        capped = place <= self._border  # a guess, which _solve puts right
        self._border += capped
        self._enter(flow, self._opened, nbytes, cap, capped, nbytes)
        self._solved = False

    def close(self, t: float, flow: Hashable) -> float:
        """Removes the flow; how many bytes it has carried by `t`.  Raises ValueError if there is none."""
        self._reach(t)
        carried = self._carried(flow)
        if flow in self._flows:
            self._remove(flow)
        self._ended = [ended for ended in self._ended if ended[2] != flow]
        return carried

    def carried(self, t: float, flow: Hashable) -> float:
        """How many bytes the flow will have carried by `t` if nothing else happens; changes nothing."""
        return self._at(t)._carried(flow)

    def rates(self, t: float) -> dict[Hashable, float]:
        """What each flow runs at just after `t`, in bytes/s, if nothing else happens; changes nothing."""
        then = self._at(t)
        then._move(t)
        then._solve()
        share = then._room / len(then._level) if then._level else math.inf
        return {name: min(flow.cap, share) for name, flow in then._flows.items()}

    def next_finish(self) -> float:
        """When the next flow ends if nothing else happens, in s; inf if none is open.

        Never before `now`; if it is `now`, then `advance(now)` reports that flow.
        """
        return self._now if self._ended else self._due()

    def advance(self, t: float) -> list[Hashable]:
        """Lets time pass until `t`; the flows that have ended by then, by time and order of opening."""
        self._forward(t)
        self._move(t)
        ended = sorted(self._ended, key=lambda end: end[:2])
        self._ended = []
        return [name for _, _, name, _ in ended]

    # --- time -----------------------------------------------------------------------------------------------

    def _forward(self, t: float) -> None:
        if not self._now <= t < math.inf:
            raise ValueError(f"t is {t} s and it is {self._now} s already; time goes on, and never back")

    def _reach(self, t: float) -> None:
        """To `t`; several changes at one instant are one solve."""
        self._forward(t)
        if t > self._now:
            self._move(t)

    def _at(self, t: float) -> Fluid:
        self._forward(t)
        if t == self._now:
            return self
        then = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(then, name, value.copy())
        then._move(t)
        return then

    def _move(self, t: float) -> None:
        """Through the ends in (now, t], one after the other, and then to `t`."""
        while (due := self._due()) <= t:
            self._now = due
            self._end()
        self._now = t

    def _due(self) -> float:
        self._solve()
        due = self._capped[0][0] if self._capped else math.inf
        return max(self._now, min(due, self._level_due()))

    def _level_due(self) -> float:
        if not self._level:
            return math.inf
        # one division, last: n flows of b bytes take exactly n times b/capacity
        return self._changed + (self._level[0][0] - self._volume) * len(self._level) / self._room

    def _level_volume(self) -> float:
        """V now."""
        if not self._level or self._now == self._changed:
            return self._volume
        return self._volume + (self._now - self._changed) * self._room / len(self._level)

    def _settle(self) -> None:
        """Before any change of the sharing: V grows at another rate from now on."""
        self._volume, self._changed = self._level_volume(), self._now

    def _end(self) -> None:
        """Removes what ends now: at least one flow, as `_due` said so."""
        if self._level_due() <= self._now:  # V is known exactly, so that flows of equal bytes end together
            self._volume, self._changed = self._level[0][0], self._now
        for group, clock in ((self._capped, self._now), (self._level, self._volume)):
            while group and group[0][0] <= clock:
                _, number, name = group[0]
                self._ended.append((self._now, number, name, self._flows[name].nbytes))
                self._remove(name)

    # --- sharing --------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Finds the level: flow i of n, by rising cap, is capped if n-i of its cap fit in what is left."""
        if self._solved:
            return
        caps, n = self._caps, len(self._caps)
        before = list(accumulate(caps, initial=0.0))  # anew each time: it must not depend on the past
        border = bisect_left(range(n), True, key=lambda i: caps[i] * (n - i) > self._capacity - before[i])
        for _, _, name in self._order[min(border, self._border) : max(border, self._border)]:
            flow = self._leave(name)
            self._enter(name, flow.number, flow.nbytes, flow.cap, not flow.capped, self._left(flow))
        self._border = border
        self._room = self._capacity - before[border]
        if not self._level:
            self._volume = 0.0  # keeps it small, hence exact
        self._solved = True

    def _left(self, flow: Flow) -> float:
        if flow.capped:
            return flow.left - flow.cap * (self._now - flow.since)
        return flow.left - (self._level_volume() - flow.since)

    def _carried(self, name: Hashable) -> float:
        if name in self._flows:
            flow = self._flows[name]
            return min(max(flow.nbytes - self._left(flow), 0.0), flow.nbytes)
        for _, _, ended, nbytes in self._ended:
            if ended == name:
                return nbytes
        raise ValueError(f"flow {name!r} is not open; it has ended and been reported, or never began")

    def _enter(self, name: Hashable, number: int, nbytes: float, cap: float, capped: bool, left: float) -> None:
        flow = Flow(number, nbytes, cap, capped, left, self._now if capped else self._volume)
        self._flows[name] = flow
        insort(self._capped if capped else self._level, (flow.due, number, name))

    def _leave(self, name: Hashable) -> Flow:
        flow = self._flows[name]
        group = self._capped if flow.capped else self._level
        del group[bisect_left(group, (flow.due, flow.number))]
        return flow

    def _remove(self, name: Hashable) -> None:
        self._settle()
        flow = self._leave(name)
        del self._flows[name]
        place = bisect_left(self._order, (flow.cap, flow.number))
        del self._order[place], self._caps[place]
        self._border -= flow.capped
        self._solved = False
