"""The rate of a link as a function of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from network.links.trace import Floats, Trace

NEVER = np.zeros(0)


class Rate(Protocol):
    """Bytes/s as a piecewise constant function of time; answers do not depend on earlier questions.

    Times are seconds since the run began.  Every bound of a flow is a Rate: a constant, a trace, a trace under the ramp
    of slow start.
    """

    @property
    def peak(self) -> float:
        """An upper bound of the rate, bytes/s; inf if none is known."""

    def at(self, t: float) -> float:
        """Returns the rate just after `t`, bytes/s."""

    def change(self, t: float) -> float:
        """Returns the first time after `t` at which the rate changes, s; inf if it never does."""

    def carried(self, begin: float, end: float) -> float:
        """Returns the bytes carried between two times: the integral of the rate."""

    def finish(self, begin: float, nbytes: float) -> float:
        """Returns the time at which `nbytes` bytes that start at `begin` have been carried, s; inf if never."""

    def ahead(self, t: float, count: int) -> tuple[Floats, Floats]:
        """Returns the next `count` possible changes after `t`, s, and the rates from each on, bytes/s.

        There are fewer only if the rate stops changing.  The answers equal repeated calls of `change` and `at`, for
        callers that share a link and need all of them.
        """

    def under(self, ceiling: float) -> Rate:
        """Returns min(rate, ceiling), bytes/s, the latter positive: the rate itself if the ceiling binds nowhere."""


@dataclass(frozen=True)
class Constant:
    """A rate that never changes (see Rate); inf means no bound.  Raises ValueError unless it is positive."""

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
    """Returns the mean rate over the long run, bytes/s: a recording's over its length, any other rate's at its best."""
    if isinstance(rate, (int, float)):
        return float(rate)
    return rate.mean if isinstance(rate, Trace) else rate.peak
