"""The types that all engines of shared links use: a flow, a shared link, and the interface of an engine."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from network.links.ramp import Ramp
from network.links.rate import Constant, Rate, mean
from network.links.trace import Direction, begun, scaled

UNIT = 2**64  # floats from 2**-11 on times this are whole: sums of them are exact, in any order
ROUNDING = 2**-46  # share of a flow's bytes that may be left after sums of floats
MOST = 2.0**100  # bytes/s; replaces inf where rates are summed
SCALE = float(UNIT)
WEIGHTS = (1e-3, 1e9)  # smallest and largest, so that they are whole, too
NUMBER = (int, float)


def whole(value: float) -> int:
    """Returns the value as a whole number of units of 2**-64, exact for usual rates and weights; MOST in place of
    anything larger.  Sums of such numbers are exact, and Python rounds their quotients correctly."""
    return int((value if value < MOST else MOST) * SCALE)


def as_rate(value: float | Rate) -> Rate:
    return Constant(float(value)) if isinstance(value, NUMBER) else value


def next_change(rate: Rate, t: float) -> float:
    """Returns the next time at which the rate changes, s.  It is always later than `t`, also where rounding would give
    `t` itself."""
    change = rate.change(t)
    return change if change > t else math.nextafter(t, math.inf)


class SharedLink(NamedTuple):
    """A link that flows share on their way to the root of the tree (the server's link): an access point, a cell, a
    backhaul.

    `capacity` is in bytes/s; with `airtime`, it is in seconds of sending per second: a flow then uses its rate over the
    rate of its own radio, and equal weights get equal airtime.  `parent` names the next link towards the root; None is
    the root itself.  Up to `buffer` bytes may wait for the link.
    """

    capacity: float | Rate
    parent: str | None = None
    airtime: bool = False
    buffer: float = 0.0

    @property
    def queue(self) -> float:
        """The time that the link's full buffer adds to a round trip, s: buffer/C of docs/design/network.md §1; 0 for
        airtime.

        C of a recorded capacity is its mean: a flow has one weight for its whole life, and a peak is often a spike of a
        millisecond, in which no queue would drain.
        """
        return min(self.buffer / mean(self.capacity), MOST) if self.buffer and not self.airtime else 0.0

    def starting(self, share: float) -> SharedLink:
        """Returns this link with its trace, if it has one, replayed from a share of its length, from 0 to 1."""
        return self._replace(capacity=begun(self.capacity, share))

    def scaled(self, part: float) -> SharedLink:
        """Returns this link with its capacity times `part`."""
        return self._replace(capacity=scaled(self.capacity, part))


Topology = Mapping[Direction, Mapping[str, SharedLink]]  # all shared links except the root, by name, for each direction


@dataclass(slots=True, eq=False)
class Flow:
    """A flow, the bytes of one transfer, from its opening to its end; fields after `home` belong to the engine that
    carries it."""

    name: Hashable
    number: int  # order of opening
    nbytes: float  # in all
    cap: Rate  # bytes/s
    weight: float
    radio: Rate | None  # bytes/s with all the airtime; None: its cap
    route: tuple[LinkState, ...]  # from the device to the root
    left: float  # bytes, when its clock was at `since`
    home: Sharing | None = None  # None until it has joined one
    heft: int = field(init=False)  # its weight as a whole number
    varies: bool = field(init=False)
    rises: bool = field(init=False)  # its cap may change, but never falls
    most: int = field(init=False)  # upper bound of its rate, bytes/s, as a whole number

    bottleneck: Any = field(init=False, default=None)  # the full link that would bound it: a Bottleneck, or None
    since: float = field(init=False)
    due: float = field(init=False)  # its clock at its end
    capped: bool = field(init=False)  # runs at its cap; its clock is the time
    rate: float = field(init=False)  # bytes/s: its current cap
    rank: tuple[float, int] = field(init=False)  # its current cap over its weight, and its number
    change: float = field(init=False)  # next change of its cap, s
    wide: int = field(init=False)  # its current cap as a whole number

    def __post_init__(self) -> None:
        self.heft = UNIT if self.weight == 1 else whole(self.weight)
        self.varies = not isinstance(self.cap, Constant)
        self.rises = isinstance(self.cap, Ramp) and self.cap.rises
        self.most = whole(self.cap.peak)

    def carry(self, t: float) -> float:
        """Returns the bytes left at `t`, s, if the flow has run at its cap since the time `since`."""
        return self.rest(self.left - self.cap.carried(self.since, t), self.varies)

    def rest(self, left: float, varies: bool) -> float:
        """Returns `left`, the bytes left, but 0 if the rate varies and `left` can be a rounding error: a flow could
        otherwise wait through an outage for it."""
        return 0.0 if varies and left <= self.nbytes * ROUNDING else left

    @property
    def above(self) -> tuple[LinkState, ...]:
        """The links above the flow's device, up to the root; if both directions share airtime, also the links of the
        other direction."""
        return self.route[0].above

    def airtime(self) -> int:
        """Returns an upper bound of the airtime that the flow can use, in s/s as a whole number (see `whole`)."""
        if self.radio is None:
            return UNIT
        constant = isinstance(self.radio, Constant) and self.radio.peak > 0
        return whole(self.cap.peak / self.radio.peak if constant else math.inf)


@dataclass(slots=True, eq=False)
class LinkState:
    """A shared link in use, with the flows on it."""

    name: str | None  # None: the root
    capacity: Rate
    parent: LinkState | None
    airtime: bool = False
    flows: dict[int, Flow] = field(default_factory=dict)  # by number
    load: int = 0  # upper bound of their total use, as a whole number
    bound: bool = False  # may be saturated
    sharing: Sharing | None = None  # the engine of this link and all below, if it is bound and no link above is
    above: tuple[LinkState, ...] = ()  # this link and all links above it, up to the root
    below: list[LinkState] = field(default_factory=list)  # it and all links below it, the furthest from the root first
    twin: LinkState | None = None  # the same link in the other direction, if both directions share the air

    def add(self, flow: Flow) -> None:
        self.flows[flow.number] = flow
        self.load += flow.airtime() if self.airtime else flow.most

    def drop(self, flow: Flow) -> None:
        del self.flows[flow.number]
        self.load -= flow.airtime() if self.airtime else flow.most

    def crowded(self, room: float = 1.0) -> bool:
        """Returns true if the flows on the link could use more than the share `room` of its capacity; if the capacity
        varies, true if there is any flow."""
        if not isinstance(self.capacity, Constant):
            return bool(self.flows)
        if self.airtime and len(self.flows) > 1:
            return True  # their weights are equal here and above, which only `Tree` handles
        return self.capacity.peak < math.inf and self.load > whole(room * self.capacity.peak)


class Sharing(Protocol):
    """The interface of an engine, which carries flows whose rates depend on one another, and on no other flow.

    Each call gives the time, s, which never goes back.  The caller reads `due` before it lets time pass, and calls
    `step` at that time, so that no end and no change is missed.
    """

    def enter(self, flow: Flow, t: float) -> None:
        """Adds a flow that starts or continues at `t`, with flow.left bytes to carry."""

    def leave(self, flow: Flow, t: float) -> None:
        """Removes a flow at `t`, and sets flow.left to the bytes that it has left."""

    def left(self, flow: Flow, t: float) -> float:
        """Returns the bytes that the flow has left at `t`; `step` must have handled everything due before `t`."""

    def rates(self, t: float) -> dict[Flow, float]:
        """Returns the rate of each flow just after `t`, bytes/s; `step` must have handled everything due before `t`."""

    def due(self) -> float:
        """Returns the next time at which a flow ends or a cap or capacity changes, s; inf if never."""

    def step(self, t: float) -> list[Flow]:
        """Handles everything due at `t`; returns the flows that have ended."""
