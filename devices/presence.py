"""When a device is on line."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True)
class Presence:
    """A device is on line except in the `off` intervals [t0, t1), in seconds since the run began.

    They may be given in any order; those that touch or overlap are merged, and t1 may be infinite.  Asking
    never changes the answer.  Raises ValueError unless 0 <= t0 < t1 in each.  Source: network.md §5.
    """

    off: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        for start, end in self.off:
            if not 0 <= start < end:  # nan fails as well
                raise ValueError(f"the off interval is [{start}, {end}); it must satisfy 0 <= start < end")
        object.__setattr__(self, "off", _merged(self.off))

    def on(self, t: float) -> bool:
        """Whether the device is on line at `t`; raises ValueError if `t` is not a number."""
        return self._around(t) is None

    def next_on(self, t: float) -> float:
        """The first instant from `t` on at which the device is on line: `t` itself if it is; inf if never."""
        around = self._around(t)
        return t if around is None else around[1]

    def next_off(self, t: float) -> float:
        """The first instant from `t` on at which the device is off: `t` itself if it is off; inf if never."""
        if self._around(t) is not None:
            return t
        following = bisect_right(self.off, t, key=_start)
        return self.off[following][0] if following < len(self.off) else math.inf

    def _around(self, t: float) -> Interval | None:
        """The off interval that contains `t`; one that ends at inf contains inf too."""
        if math.isnan(t):
            raise ValueError("t is nan; it must be a time in seconds")
        last = bisect_right(self.off, t, key=_start) - 1
        if last >= 0 and (t < self.off[last][1] or self.off[last][1] == math.inf):
            return self.off[last]
        return None


def _start(interval: Interval) -> float:
    return interval[0]


def _merged(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)
