"""The rate of a link as a function of time: its interface, and the constant rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from network.links.trace import Floats, Trace

NEVER = np.zeros(0)


class Rate(Protocol):
    """Bytes/s as a piecewise constant function of time; the results do not depend on earlier calls.

    Times are seconds since the run began.  Every bound of a flow is a Rate: a constant, a trace, or a trace under the
    ramp of slow start.
    """

    @property
    def peak(self) -> float:
        """An upper bound of the rate, bytes/s; inf if none is known."""

    def at(self, t: float) -> float:
        """Returns the rate just after `t`, bytes/s."""

    def change(self, t: float) -> float:
        """Returns the first time after `t` at which the rate changes, s; inf if it never does."""

    def carried(self, begin: float, end: float) -> float:
        """Returns the bytes carried between two times, s: the integral of the rate."""

    def finish(self, begin: float, nbytes: float) -> float:
        """Returns the time at which `nbytes` bytes that start at `begin` have been carried, s; inf if never."""

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        """Returns two arrays: the next `count` possible changes after `t`, s, and the rate from each change on,
        bytes/s.

        They are shorter only if the rate stops changing.  The values equal those of repeated calls of `change` and
        `at`, but one call is faster for callers that need many.
        """

    def under(self, ceiling: float) -> Rate:
        """Returns min(rate, ceiling) as a Rate; the ceiling is positive, bytes/s.  Returns this rate itself if it never
        exceeds the ceiling."""


@dataclass(frozen=True)
class Constant:
    """A rate that never changes (see Rate), bytes/s; inf means no bound.  Raises ValueError unless the rate is
    positive."""

    peak: float

    def __post_init__(self) -> None:
        if not self.peak > 0:
            raise ValueError(f"the rate is {self.peak} bytes/s; it must be positive")

    def at(self, t: float) -> float:  # noqa: ARG002  of every Rate
        return self.peak

    def change(self, t: float) -> float:  # noqa: ARG002
        return math.inf

    def carried(self, begin: float, end: float) -> float:
        return self.peak * (end - begin)

    def finish(self, begin: float, nbytes: float) -> float:
        return begin + nbytes / self.peak

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:  # noqa: ARG002
        return NEVER, NEVER

    def under(self, ceiling: float) -> Constant:
        return self if ceiling >= self.peak else Constant(ceiling)


def mean(rate: float | Rate) -> float:
    """Returns the mean rate over the long run, bytes/s: of a trace its mean over one period, of any other rate its
    peak."""
    if isinstance(rate, (int, float)):
        return float(rate)
    return rate.mean if isinstance(rate, Trace) else rate.peak
