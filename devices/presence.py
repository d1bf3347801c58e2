"""Presence: the times at which a device is online."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Interval = tuple[float, float]
SESSIONS = 2000  # sessions over which a share is computed
HOPS = 10_000  # sessions that AllOf examines before it answers "never"
SHORTEST, LATEST = 1e-3, 1e11  # s: within them, a float separates neighbouring changes of a recording


class Availability(Protocol):
    """The times at which a device is online; answers never depend on earlier calls.

    Times are seconds since the run began.  All methods raise ValueError for a time that is not a number.
    """

    @property
    def always(self) -> bool:
        """True if the device never goes offline."""

    def on(self, t: float) -> bool:
        """Returns true if the device is online at `t`."""

    def next_on(self, t: float) -> float:
        """Returns the first instant from `t` on at which the device is online: `t` itself if it is; inf if never."""

    def next_off(self, t: float) -> float:
        """Returns the first instant from `t` on at which the device is offline: `t` itself if it is; inf if never."""


def share_online(presence: Availability, until: float) -> float:
    """Returns the share of the first `until` seconds in which a device is online.  If these have more than 2,000
    sessions, returns the share of the time up to the end of the 2,000th."""
    online = now = 0.0
    for _ in range(SESSIONS):
        begins = min(presence.next_on(now), until)
        now = min(presence.next_off(begins), until)
        online += now - begins
        if now >= until:
            break
    return online / now


@dataclass(frozen=True)
class StatedPresence:
    """Online except in the `off` intervals [t0, t1), in seconds since the run began.

    Intervals may be given in any order; touching or overlapping ones are merged, and t1 may be infinite.  Raises
    ValueError unless 0 <= t0 < t1 in each.  Source: docs/design/devices.md §4.
    """

    off: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        for start, end in self.off:
            if not 0 <= start < end:  # nan fails as well
                raise ValueError(f"the off interval is [{start}, {end}); it must satisfy 0 <= start < end")
        object.__setattr__(self, "off", _merged(self.off))

    @property
    def always(self) -> bool:
        return not self.off

    def on(self, t: float) -> bool:
        return self._around(t) is None

    def next_on(self, t: float) -> float:
        around = self._around(t)
        return t if around is None else around[1]

    def next_off(self, t: float) -> float:
        if self._around(t) is not None:
            return t
        following = bisect_right(self.off, t, key=_start)
        return self.off[following][0] if following < len(self.off) else math.inf

    def _around(self, t: float) -> Interval | None:
        """Returns the off interval that contains `t`, None if the device is online; an interval without end contains
        inf, too."""
        if math.isnan(t):
            raise ValueError("t is nan; it must be a time in seconds")
        last = bisect_right(self.off, t, key=_start) - 1
        if last >= 0 and (t < self.off[last][1] or self.off[last][1] == math.inf):
            return self.off[last]
        return None


@dataclass(frozen=True)
class RecordedPresence:
    """A recording of `period` seconds that repeats: online in the intervals [t0, t1) of the recording, otherwise
    offline.

    The run begins `offset` seconds into the recording.  FedScale reads its behaviour traces in the same way: the state
    at t is the one recorded at t mod finish_time (docs/design/network.md §4).  Intervals that overlap, or are less than
    SHORTEST apart, are merged.  Raises ValueError unless 0 <= t0 < t1 <= period in each, and t1 - t0 is at least
    SHORTEST.
    """

    intervals: tuple[Interval, ...]
    period: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.period <= LATEST and abs(self.offset) <= LATEST):
            raise ValueError(
                f"period is {self.period} and offset {self.offset}; a period is above 0 s, both below 1e11"
            )
        for start, end in self.intervals:
            if not 0 <= start < end <= self.period:
                raise ValueError(f"the interval is [{start}, {end}); it must satisfy 0 <= start < end <= {self.period}")
            if end - start < SHORTEST:
                raise ValueError(f"the interval is [{start}, {end}); it must last {SHORTEST} s at least")
        object.__setattr__(self, "intervals", _merged(self.intervals, SHORTEST))

    @property
    def always(self) -> bool:
        return self.intervals == ((0.0, self.period),)

    def on(self, t: float) -> bool:
        phase = self._phase(t)
        return any(start <= phase < end for start, end in self._before(phase))

    def next_on(self, t: float) -> float:
        if not self.intervals or t == math.inf:
            return math.inf
        if self.on(t):
            return t
        phase = self._phase(t)
        following = bisect_right(self.intervals, phase, key=_start)
        wait = self.intervals[following][0] if following < len(self.intervals) else self.period + self.intervals[0][0]
        return self._settled(t + (wait - phase), True)

    def next_off(self, t: float) -> float:
        if self.always or t == math.inf:
            return math.inf
        if not self.on(t):
            return t
        phase = self._phase(t)
        [(_, end)] = self._before(phase)
        if end == self.period and self.intervals[0][0] == 0:  # continues where the recording begins again
            end += self.intervals[0][1]
        return self._settled(t + (end - phase), False)

    def _phase(self, t: float) -> float:
        if not abs(t) <= LATEST:
            raise ValueError(f"t is {t}; it must be a time in seconds, and {LATEST:g} at most")
        return (t + self.offset) % self.period

    def _before(self, phase: float) -> tuple[Interval, ...]:
        """Returns the last interval that begins at or before `phase`, in a tuple; () if there is none."""
        last = bisect_right(self.intervals, phase, key=_start)
        return self.intervals[max(0, last - 1) : last]

    def _settled(self, t: float, on: bool) -> float:
        """Returns `t`, a change to online (`on`) or offline, or the next floats after it if rounding has put it before
        the change."""
        while self.on(t) != on:
            t += max(math.ulp(t), math.ulp(t + self.offset))
        return t


@dataclass(frozen=True)
class AllOf:
    """Online while all `parts` are online, such as a phone that must be charging, idle and on an unmetered link.

    If no common time is found within HOPS sessions, `next_on` returns inf.
    """

    parts: tuple[Availability, ...]

    @property
    def always(self) -> bool:
        return all(part.always for part in self.parts)

    def on(self, t: float) -> bool:
        return all(part.on(t) for part in self.parts)

    def next_on(self, t: float) -> float:
        for _ in range(HOPS):
            following = max((part.next_on(t) for part in self.parts), default=t)
            if following == t or following == math.inf:
                return following
            t = following
        return math.inf

    def next_off(self, t: float) -> float:
        return min((part.next_off(t) for part in self.parts), default=math.inf)


def together(parts: Sequence[Availability]) -> Availability:
    """Returns one availability that is online while all parts are.  Parts that are always online are left out; a single
    remaining one is returned as it is."""
    needed = [part for part in parts if not part.always]
    return needed[0] if len(needed) == 1 else AllOf(tuple(needed)) if needed else StatedPresence()


def _start(interval: Interval) -> float:
    return interval[0]


def _merged(intervals: tuple[Interval, ...], gap: float = 0.0) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)
