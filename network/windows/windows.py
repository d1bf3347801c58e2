"""Shared links with TCP's dynamics: flows on a full link (the crowd) are simulated from acknowledgement to
acknowledgement.

Flows whose shared links are all fast enough are bounded by their own device's link alone, and the fluid model carries
them in closed form.  When a link becomes full, the flows on it join the crowd, with the windows that they have reached,
and stay there until they end.  Flows with BBR or with random losses are in the crowd from the start, because their
windows have no closed form.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from network.links.ramp import Ramp
from network.links.rate import Constant, Rate, mean
from network.links.tcp import RTTS, Sender, Sending
from network.sharing.flow import MOST, SharedLink, as_rate, whole
from network.sharing.fluid import Back, Fluid
from network.windows.crowd import Crowd, Newcomer, Queue

# Default size of a queue: the bytes of 100 ms, a common round trip (Villamizar and Song, "High performance TCP in
# ANSNET", 1994: a bandwidth-delay product), and at least some packets.
BUFFER, LEAST_BUFFER = 0.1, 64e3  # s; bytes


@dataclass(eq=False)
class Meeting:
    """A shared link in one direction, with an upper bound of the rate of each flow on it, as whole numbers
    (flow.whole)."""

    queue: Queue
    loads: dict[Hashable, int] = field(default_factory=dict)
    load: int = 0  # their sum, independent of the order
    lone: dict[Hashable, None] = field(default_factory=dict)  # flows that the fluid model carries

    def add(self, flow: Hashable, most: float) -> None:
        """Adds a flow with a rate of at most `most`, bytes/s."""
        self.loads[flow] = whole(most)
        self.load += self.loads[flow]

    def drop(self, flow: Hashable) -> None:
        """Removes a flow from this link."""
        self.load -= self.loads.pop(flow)
        self.lone.pop(flow, None)

    @property
    def full(self) -> bool:
        """True if the flows on the link could exceed its capacity, and for any capacity that varies."""
        capacity = self.queue.capacity
        return not isinstance(capacity, Constant) or self.load > whole(capacity.peak)


@dataclass(frozen=True)
class Lone:
    """A flow outside the crowd, which the fluid model carries at its cap since `start`, s."""

    new: Newcomer
    cap: Rate
    start: float

    def passed(self, t: float) -> float:
        """Returns the bytes that have passed its links by `t`; some of an upload's are not at the receiver yet."""
        return self.cap.carried(self.start, t + self.new.ahead)

    @property
    def end(self) -> float:
        """The time at which its last byte has passed the links, s."""
        return self.cap.finish(self.start, self.new.nbytes) - self.new.ahead


class Windows:
    """Shared links in both directions and the flows on them, with Fluid's methods `open`, `close`, `carried`,
    `next_finish` and `advance`.

    `down` and `up` are each the root's capacity and the shared links below it, with their buffers; flows with `back` go
    up.  Raises ValueError for airtime links, which windows cannot model.
    """

    def __init__(self, down: Back, up: Back, buffers: tuple[float, float] = (0.0, 0.0), chance: Hashable = 0) -> None:
        """Takes the links; `buffers`: the bytes that may wait at the root, down and up, 0 for a default size.  Losses,
        and delays of acknowledgements within the time of a segment, are drawn from `chance` and the flows' names."""
        self._fluids = {False: Fluid(*down), True: Fluid(*up)}
        self._meetings: dict[bool, dict[str | None, Meeting]] = {}
        self._routes: dict[bool, dict[str | None, tuple[Meeting, ...]]] = {}
        queues: list[Queue] = []
        for back, (root, shared), buffer in ((False, down, buffers[0]), (True, up, buffers[1])):
            links: dict[str | None, SharedLink] = {None: SharedLink(root, buffer=buffer)}
            self._meetings[back] = _meetings(links | dict(shared.items()), queues)
            self._routes[back] = {via: self._route(back, shared, via) for via in (None, *shared)}
        self._paths = {back: {via: self._path(back, via) for via in of} for back, of in self._routes.items()}
        self._crowd = Crowd(queues, chance)
        self._lone: dict[Hashable, Lone] = {}
        self._ways: dict[Hashable, tuple[Meeting, ...]] = {}
        self._left: dict[Hashable, Sender] = {}
        self._before: dict[Hashable, float] = {}  # bytes that a flow of the crowd had carried while it was alone
        self._now = 0.0
        # Next due times of the fluids, down and up; None: a flow has come or gone. Time advances in a fluid only when
        # something happens in it, or its state is read.
        self._dues: tuple[float, float] | None = None

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
        sending: Sending | None = None,
        begin: float | None = None,
    ) -> None:
        """Starts a flow as Fluid.open does; `radio`: the rate of its device's own link without TCP's bounds; `sending`:
        TCP's state; `begin`: when its first byte would be at its receiver if nothing waited, s, by default `t`: before
        it come handshakes.  Raises ValueError without `sending`."""
        if sending is None:
            raise ValueError(f"flow {flow!r} is not sent by TCP; windows are TCP's")
        if via not in self._routes[back]:
            names = sorted(filter(None, self._routes[back]))
            raise ValueError(f"flow {flow!r} is via {via!r}; the shared links are {names}")
        if flow in self._ways:
            raise ValueError(f"flow {flow!r} is open already; each flow needs a name of its own")
        self._reach(t)
        way = self._routes[back][via]
        bound = as_rate(cap)
        own = bound if radio is None else as_rate(radio)
        begin = t if begin is None else begin
        new = Newcomer(flow, nbytes, sending, *self._paths[back][via], own, back, begin)
        self._ways[flow] = way
        for meeting in way:
            meeting.add(flow, bound.peak)
        crowded = any(meeting.full for meeting in way)
        if crowded or sending.tcp.congestion == "bbr" or sending.way.loss > 0:
            self._crowd.open(t, new)
            self._gather(t, way)
            return
        late = bound if begin == t or isinstance(bound, Ramp) else Ramp(bound, begin, 1.0, MOST)
        self._lone[flow] = Lone(new, late, t)
        self._fluid(back).open(t, flow, nbytes, late, weight, via)
        for meeting in way:
            meeting.lone[flow] = None

    def close(self, t: float, flow: Hashable) -> float:
        """Removes a flow at `t`, and returns the bytes that it has carried."""
        self._reach(t)
        if flow in self._lone:
            carried = self._fluid(self._lone.pop(flow).new.up).close(t, flow)
        else:
            carried = self.carried(t, flow)
            self._crowd.close(t, flow)
            self._before.pop(flow, None)
        self._leave(flow)
        return carried

    def carried(self, t: float, flow: Hashable) -> float:
        """Returns the bytes that the flow has carried by `t`."""
        self._reach(t)
        if flow in self._lone:
            fluid = self._fluids[self._lone[flow].new.up]
            fluid.reach(t)  # otherwise the fluid would be copied to look ahead
            return fluid.carried(t, flow)
        return self._before.get(flow, 0.0) + self._crowd.carried(t, flow)

    def next_finish(self) -> float:
        """Returns the next time at which `advance` must be called if no flow is opened or closed before, in s;
        `advance` then reports the flows that have ended, if any."""
        return max(self._now, min(self._due()))

    def advance(self, t: float) -> list[Hashable]:
        """Lets time pass until `t`; returns the flows that have ended by then, in order of time."""
        ended: list[Hashable] = []
        while min(dues := self._due()) <= t:
            which = dues.index(min(dues))
            if which == 2:
                ended += self._end_in_crowd()
            else:
                ended += self._end_alone(which == 1, dues[which])
        self._reach(t)
        return ended

    def left_with(self, flow: Hashable) -> Sender | None:
        """Returns the sender's final state of a flow that has ended in the crowd, once; None if the flow was outside
        the crowd."""
        return self._left.pop(flow, None)

    # --- time -----------------------------------------------------------------------------------------------

    def _due(self) -> tuple[float, float, float]:
        if self._dues is None:
            self._dues = self._fluids[False].next_finish(), self._fluids[True].next_finish()
        return (*self._dues, self._crowd.due())

    def _fluid(self, back: bool) -> Fluid:
        """Returns the fluid model of a direction in which a flow starts or ends now, and forgets the due times of both
        fluids."""
        self._dues = None
        return self._fluids[back]

    def _reach(self, t: float) -> None:
        if t < self._now:
            raise ValueError(f"t is {t} s and the last call was at {self._now} s; time must not go back")
        if t > self._now:
            self._now = t
            self._crowd.move(t)

    def _end_in_crowd(self) -> list[Hashable]:
        self._now = max(self._now, self._crowd.due())
        found = self._crowd.end()
        if found is None:
            return []
        flow, self._left[flow] = found[0], found[1]
        self._before.pop(flow, None)
        self._leave(flow)
        return [flow]

    def _end_alone(self, back: bool, t: float) -> list[Hashable]:
        self._now = max(self._now, t)
        ended = self._fluid(back).advance(self._now)
        for flow in ended:
            del self._lone[flow]
            self._leave(flow)
        return ended

    # --- who meets whom -------------------------------------------------------------------------------------

    def _gather(self, t: float, way: tuple[Meeting, ...]) -> None:
        """Moves the flows outside the crowd on links of this way that are now full into the crowd."""
        for meeting in way:
            if meeting.full:
                for flow in list(meeting.lone):
                    if self._lone[flow].end > t:
                        self._join(t, flow)

    def _join(self, t: float, flow: Hashable) -> None:
        lone = self._lone.pop(flow)
        for meeting in self._ways[flow]:
            del meeting.lone[flow]
        new, carried = lone.new, lone.passed(t)
        self._fluid(new.up).close(t, flow)
        self._before[flow] = carried
        self._crowd.open(t, replace(new, nbytes=new.nbytes - carried), _grown(lone, t) if carried else None)

    def _leave(self, flow: Hashable) -> None:
        for meeting in self._ways.pop(flow):
            meeting.drop(flow)

    def _path(self, back: bool, via: str | None) -> tuple[tuple[Queue, ...], tuple[Queue, ...]]:
        """Returns the queues that a flow's data pass, from its sender on, and those that its acknowledgements pass."""
        way, homeward = self._routes[back][via], self._routes[not back].get(via, ())
        up = tuple(meeting.queue for meeting in (way if back else homeward))
        down = tuple(meeting.queue for meeting in reversed(homeward if back else way))
        return (up, down) if back else (down, up)

    def _route(self, back: bool, shared: Mapping[str, SharedLink], via: str | None) -> tuple[Meeting, ...]:
        """Returns those links on a device's way to the server that could be full, from the device on."""
        names = []
        while via is not None:
            names.append(via)
            via = shared[via].parent
        return tuple(self._meetings[back][name] for name in (*names, None) if name in self._meetings[back])


def _meetings(links: Mapping[str | None, SharedLink], queues: list[Queue]) -> dict[str | None, Meeting]:
    found = {}
    for name, link in links.items():
        if link.airtime:
            raise ValueError(f"{name} has airtime, which windows do not share; use the fluid model")
        capacity = as_rate(link.capacity)
        if capacity.peak < math.inf:
            buffer = link.buffer or max(LEAST_BUFFER, BUFFER * mean(capacity))
            queues.append(Queue(len(queues), capacity, buffer))
            found[name] = Meeting(queues[-1])
    return found


def _grown(lone: Lone, t: float) -> Sender:
    """Returns the sender's state of a flow that was outside the crowd until `t`: its window is the one that slow start
    has reached, or what fills its link."""
    sending, tcp = lone.new.sending, lone.new.sending.tcp
    held = max(1.0, lone.cap.at(t) * max(sending.way.rtt, RTTS[0]) / tcp.segment)
    climbing = isinstance(lone.cap, Ramp) and t < lone.cap.end
    held = min(held, float(sending.limit))
    return Sender(held, t, math.inf if climbing else held)
