"""Thermal throttling: a device that computes for minutes slows down, and recovers while it is idle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

DONE = 1e-14  # relative error at which Newton's method stops


class Heat(NamedTuple):
    """The heat `level` of a device at the time `at`, s: 0 is cold, 1 is the limit under endless load."""

    level: float = 0.0
    at: float = 0.0


COLD = Heat()


@dataclass(frozen=True)
class Throttle:
    """A thermal model with one time constant: heat approaches 1 under load, and 0 when idle, with time constant
    `heating`, s.

    The speed falls linearly with heat, from full speed at heat 0 to the share `sustained` of it at heat 1.  With
    sustained 1 there is no throttling.  Raises ValueError unless 0 < sustained <= 1 and heating > 0.  Source:
    docs/design/devices.md §2.
    """

    sustained: float = 1.0  # share of the full speed; phones 0.5-0.7
    heating: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.sustained <= 1:
            raise ValueError(f"sustained is {self.sustained}; it must be above 0 and at most 1, of the full speed")
        if not self.heating > 0:
            raise ValueError(f"heating is {self.heating}; the time constant must be above 0 s")

    def speed(self, level: float) -> float:
        """Returns the speed at this level of heat, from 0 (cold) to 1, as a share of full speed."""
        return 1 - (1 - self.sustained) * level

    def rested(self, heat: Heat, t: float) -> Heat:
        """Returns the heat at `t` of a device that has idled since `heat.at`. Raises ValueError if `t` is before
        `heat.at`."""
        return Heat(heat.level * math.exp(-_since(heat, t) / self.heating), t)

    def loaded(self, heat: Heat, t: float) -> Heat:
        """Returns the heat at `t` of a device that has computed since `heat.at`. Raises ValueError if `t` is before
        `heat.at`."""
        return Heat(1 - (1 - heat.level) * math.exp(-_since(heat, t) / self.heating), t)

    def done(self, heat: Heat, seconds: float) -> float:
        """Returns the work that a device does in `seconds` of load that begin with this heat.  The unit of work is a
        second at full speed."""
        if self._never():
            return seconds
        beyond = (1 - self.sustained) * (1 - heat.level) * self.heating  # work beyond the sustained speed, in the limit
        return self.sustained * seconds - beyond * math.expm1(-seconds / self.heating)

    def load(self, heat: Heat, start: float, work: float) -> tuple[float, Heat]:
        """Returns the seconds that `work` takes from `start` on, and the heat at the end.  The unit of work is a second
        at full speed.

        The device idles until `start`.  Raises ValueError for work that is negative or not finite.
        """
        warm = self.rested(heat, start)
        seconds = self.seconds(warm, work)
        return seconds, self.loaded(warm, start + seconds)

    def seconds(self, heat: Heat, work: float) -> float:
        """Returns the seconds of load after which `done` equals `work`, beginning with this heat.

        `done` is concave and increasing, so Newton's steps from the left never overshoot.  Raises ValueError as `load`
        does.
        """
        if not 0 <= work < math.inf:
            raise ValueError(f"work is {work}; it must be 0 s or more, and finite")
        if self._never():
            return work
        seconds = work
        while True:
            level = 1 - (1 - heat.level) * math.exp(-seconds / self.heating)
            step = (work - self.done(heat, seconds)) / self.speed(level)
            if step <= DONE * seconds:
                return seconds
            seconds += step

    def _never(self) -> bool:
        return self.sustained == 1 or self.heating == math.inf


def _since(heat: Heat, t: float) -> float:
    if not t >= heat.at:
        raise ValueError(f"t is {t}; the state is known from {heat.at} s on")
    return t - heat.at
