"""Max-min sharing from nothing but its definition: exact, O(n^2), an event at a time.  And a rate of steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from network.links.rate import Rate
from network.sharing.flow import SharedLink
from network.sharing.fluid import Back

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """values[i] from times[i] on, s and bytes/s; times[0] is 0, and the last value holds for ever."""

    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def peak(self) -> float:
        return max(self.values)

    def at(self, t: float) -> float:
        return self.values[bisect_right(self.times, t) - 1]

    def change(self, t: float) -> float:
        later = bisect_right(self.times, t)
        return self.times[later] if later < len(self.times) else math.inf

    def carried(self, begin: float, end: float) -> float:
        total = 0.0
        while begin < end:
            until = min(self.change(begin), end)
            total += self.at(begin) * (until - begin)
            begin = until
        return total

    def finish(self, begin: float, nbytes: float) -> float:
        while nbytes > 0:
            until, rate = self.change(begin), self.at(begin)
            if rate > 0 and nbytes <= rate * (until - begin):
                return begin + nbytes / rate
            if until == math.inf:
                return math.inf
            nbytes, begin = nbytes - rate * (until - begin), until
        return begin

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        place = bisect_right(self.times, t)
        return np.array(self.times[place : place + count]), np.array(self.values[place : place + count])

    def under(self, ceiling: float) -> Steps:
        return Steps(self.times, tuple(min(value, ceiling) for value in self.values))


class Opening(NamedTuple):
    t: float
    nbytes: float
    cap: float | Rate
    weight: float = 1.0
    via: str | None = None
    radio: float | Rate | None = None
    back: bool = False


class Act(NamedTuple):
    """An action on a flow, which is named by the number of its opening: the flow is closed."""

    t: float
    what: str
    flow: int


def value(rate: float | Rate, t: float) -> float:
    return rate if isinstance(rate, int | float) else rate.at(t)


def change(rate: float | Rate, t: float) -> float:
    return math.inf if isinstance(rate, int | float) else rate.change(t)


Place = tuple[bool, str | None]  # whether a link is of those that go back, and its name; None is the root


def route(opening: Opening, shared: Mapping[str, SharedLink]) -> list[Place]:
    """The places of an opening's route.  An airtime link has one place for both ways."""
    names = [opening.via]
    while names[-1] is not None:
        names.append(shared[names[-1]].parent)
    return [(opening.back and not (name and shared[name].airtime), name) for name in names]


def links_of(
    capacity: float | Rate, shared: Mapping[str, SharedLink], back: Back | None = None
) -> dict[Place, SharedLink]:
    """All links by their place, each way."""
    found: dict[Place, SharedLink] = {(False, None): SharedLink(capacity)}
    found.update(((False, name), each) for name, each in shared.items())
    if back is not None:
        found[True, None] = SharedLink(back[0])
        found.update(((True, name), each) for name, each in back[1].items() if not each.airtime)
    return found


def filling(
    caps: Mapping[int, Fraction],
    weights: Mapping[int, Fraction],
    routes: Mapping[int, Sequence[Place]],
    capacities: Mapping[Place, Fraction | float],
) -> dict[int, Fraction]:
    """Progressive filling: all rise together, by weight; who reaches its cap, or is on a link that is full, stays."""
    fixed: dict[int, Fraction] = {}
    while len(fixed) < len(caps):
        rising = [flow for flow in caps if flow not in fixed]
        levels = [caps[flow] / weights[flow] for flow in rising]
        full: dict[Place, Fraction] = {}
        for link, capacity in capacities.items():
            there = [weights[flow] for flow in rising if link in routes[flow]]
            if there and capacity < math.inf:
                taken = sum(rate for flow, rate in fixed.items() if link in routes[flow])
                full[link] = (Fraction(capacity) - taken) / sum(there)
        level = min([*levels, *full.values()])
        for flow in rising:
            if caps[flow] / weights[flow] == level or any(full.get(link) == level for link in routes[flow]):
                fixed[flow] = level * weights[flow]
    return fixed


@dataclass
class Naive:
    """Plays openings and acts; `ends` of those that end, and what those that were closed had carried.

    On one air all must have one radio and one weight: equal time is then equal bytes, and air a link like others.
    """

    openings: Sequence[Opening]
    capacity: float | Rate
    shared: Mapping[str, SharedLink]
    back: Back | None = None

    def play(self, acts: Sequence[Act] = ()) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
        todo = sorted([*acts, *(Act(each.t, "open", i) for i, each in enumerate(self.openings))], key=lambda act: act.t)
        left: dict[int, Fraction] = {}
        ends: dict[int, Fraction] = {}
        closed: dict[int, Fraction] = {}
        now = Fraction(0)
        while todo or left:
            rates = self.rates(list(left), float(now))
            later = [Fraction(act.t) for act in todo[:1]]
            later += [now + left[flow] / rate for flow, rate in rates.items() if rate > 0]
            later += [now for nbytes in left.values() if nbytes == 0]
            later += [Fraction(t) for t in self.changes(list(left), now) if t < math.inf]
            if not later:
                break
            left = {flow: nbytes - rates[flow] * (min(later) - now) for flow, nbytes in left.items()}
            now = min(later)
            for flow in [flow for flow, nbytes in left.items() if nbytes == 0]:
                ends[flow] = now
                del left[flow]
            while todo and todo[0].t == now:
                _, what, flow = todo.pop(0)
                if what == "open":
                    left[flow] = Fraction(self.openings[flow].nbytes)
                elif what == "close" and flow in left:
                    closed[flow] = Fraction(self.openings[flow].nbytes) - left.pop(flow)
        return ends, closed

    def changes(self, flows: Sequence[int], now: Fraction) -> list[float]:
        """The next ones; `now` may be no float, so that the one just before it is asked."""
        t = math.nextafter(float(now), -math.inf) if Fraction(float(now)) > now else float(now)
        rates = [self.openings[flow].cap for flow in flows]
        links = links_of(self.capacity, self.shared, self.back).values()
        return [change(rate, t) for rate in rates + [link.capacity for link in links]]

    def rates(self, flows: Sequence[int], t: float) -> dict[int, Fraction]:
        return filling(
            {flow: Fraction(value(self.openings[flow].cap, t)) for flow in flows},
            {flow: Fraction(self.openings[flow].weight) for flow in flows},
            {flow: route(self.openings[flow], self.shared) for flow in flows},
            {
                (back, name): self._of(link, name, t)
                for (back, name), link in links_of(self.capacity, self.shared, self.back).items()
            },
        )

    def _of(self, link: SharedLink, name: str | None, t: float) -> Fraction | float:
        """Its capacity, bytes/s."""
        now = value(link.capacity, t)
        radios = {each.radio for each in self.openings if link.airtime and each.via == name}
        for radio in radios:
            assert isinstance(radio, float)
            assert len(radios) == 1
            return Fraction(now) * Fraction(radio)
        return Fraction(now) if now < math.inf else math.inf
