"""Generated presence: the times at which a device is online, drawn from a seed without end and on demand.

A generator remembers its changes between online and offline, 8 bytes each, up to the latest time that was asked for.
They are drawn in order from its seed, so that answers do not depend on earlier calls.  A worker process gets only the
seed.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from devices.jitter import parameters

DAY, HOUR = 86_400.0, 3600.0
MOST = 200_000  # changes that one generator draws: months of sessions of a minute; half a second of real time


class Undrawn(ValueError):  # noqa: N818 - shown to a user
    """The error for a time after the first MOST changes, which are all that one generator draws."""


@dataclass(frozen=True)
class Sessions:
    """The base of the generators, an Availability: it answers from an endless series of changes between online and
    offline, which subclasses generate in `_first` and `_changes`."""

    seed: int
    _state: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def always(self) -> bool:
        """False, because a generated device goes offline again and again."""
        return False

    def on(self, t: float) -> bool:
        """Returns true if the device is online at `t`.

        Raises ValueError for a time that is not finite or before 0, and Undrawn for a time after the first MOST
        changes.
        """
        return self._on_after(self._passed(t))

    def next_on(self, t: float) -> float:
        return self._next(t, True)

    def next_off(self, t: float) -> float:
        return self._next(t, False)

    @property
    def pace(self) -> float:
        """The mean number of changes per second."""
        raise NotImplementedError

    def _next(self, t: float, on: bool) -> float:
        if t == math.inf:
            return t
        passed = self._passed(t)
        return t if self._on_after(passed) == on else float(self._state["changes"][passed])

    def _on_after(self, changes: int) -> bool:
        return bool(self._state["first"]) == (changes % 2 == 0)

    def _passed(self, t: float) -> int:
        """Returns the number of changes until `t`; draws changes until the next one after `t` is known, too."""
        if not 0 <= t < math.inf:
            raise ValueError(f"t is {t}; it must be a time in seconds since the run began")
        changes = self._known()
        while not changes or changes[-1] <= t:
            if len(changes) == MOST:
                raise Undrawn(
                    f"presence is drawn for {MOST} comings and goings, which end at {changes[-1]:g} s, and second "
                    f"{t:g} is asked for; give longer sessions"
                )
            following, last = next(self._state["rest"]), changes[-1] if changes else 0.0
            changes.append(max(following, math.nextafter(last, math.inf)))  # no session is empty
        return bisect_right(changes, t)

    def _known(self) -> array[float]:
        if not self._state:
            rng = np.random.default_rng(self.seed)
            self._state["first"] = self._first(rng)
            self._state["rest"] = self._changes(rng, self._state["first"])
            self._state["changes"] = array("d")
        changes: array[float] = self._state["changes"]
        return changes

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": {}}

    def _first(self, rng: np.random.Generator) -> bool:
        """Returns true if the device is online when the run begins."""
        raise NotImplementedError

    def _changes(self, rng: np.random.Generator, on: bool) -> Iterator[float]:
        """Yields the times of all changes in order, s, without end; `on`: the device is online at the start."""
        raise NotImplementedError


@dataclass(frozen=True)
class RenewalSessions(Sessions):
    """Alternating sessions online and offline of lognormal length, given by means in seconds and coefficients of
    variation (cv).

    The run begins at a random instant of a stationary process: online with the probability of the share of time online,
    in a session drawn in proportion to its length.  Raises ValueError for a mean that is not positive or a negative cv.
    Source: docs/design/devices.md §4; the beginning: Cox 1962, Renewal Theory, §5.4.
    """

    mean_on: float
    mean_off: float
    cv_on: float = 1.0
    cv_off: float = 1.0

    def __post_init__(self) -> None:
        for what in ("mean_on", "mean_off"):
            if not 0 < getattr(self, what) < math.inf:
                raise ValueError(f"{what} is {getattr(self, what)}; it must be above 0 s, and finite")
        for what in ("cv_on", "cv_off"):
            if not 0 <= getattr(self, what) < math.inf:
                raise ValueError(f"{what} is {getattr(self, what)}; it must be 0 or more, and finite")

    @property
    def pace(self) -> float:
        return 2 / (self.mean_on + self.mean_off)

    def _first(self, rng: np.random.Generator) -> bool:
        return bool(rng.random() < self.mean_on / (self.mean_on + self.mean_off))

    def _changes(self, rng: np.random.Generator, on: bool) -> Iterator[float]:
        laws = {True: parameters(self.mean_on, self.cv_on), False: parameters(self.mean_off, self.cv_off)}
        mu, sigma = laws[on]
        # The session at a random instant: weighted by its length, with a uniform part of it left.
        t = rng.random() * float(rng.lognormal(mu + sigma * sigma, sigma))
        while True:
            yield t
            on = not on
            t += float(rng.lognormal(*laws[on]))


EVENING = {22, 23, 0, 1, 2, 3, 4, 5, 6}  # hours, from 22 to 7 o'clock
NIGHT = (  # comings and goings per hour, assumed
    tuple(1.0 if hour in EVENING else 0.05 for hour in range(24)),
    tuple(0.05 if hour in EVENING else 1.0 for hour in range(24)),
)


@dataclass(frozen=True)
class DiurnalSessions(Sessions):
    """Sessions that begin and end at random, with rates that depend on the hour of the local day.

    `arrive` and `leave` have 24 values, the expected changes per hour: `arrive` of a device that is offline, `leave` of
    one that is online.  `local` is the hour of the device's day, with its fraction, at which the run begins.  Within an
    hour the rate is constant, so waits are exact: a change comes when the integrated rate reaches an exponential draw.
    The run begins in the stationary state of that hour.  Raises ValueError for rates that are negative, or that never
    change anything.  Source: docs/design/devices.md §4 (charging and on wifi at night).
    """

    arrive: tuple[float, ...]
    leave: tuple[float, ...]
    local: float

    def __post_init__(self) -> None:
        for what in ("arrive", "leave"):
            rates = getattr(self, what)
            if len(rates) != 24 or not all(0 <= rate < math.inf for rate in rates) or sum(rates) == 0:
                raise ValueError(f"{what} is {rates}; it must be 24 rates of 0 or more, and not all 0")
        if not math.isfinite(self.local):
            raise ValueError(f"local is {self.local}; it must be an hour of the day")

    def share(self, hour: float) -> float:
        """Returns the stationary probability p that the device is online at this hour of its day.

        p changes by p' = arrive (1 - p) - leave p.  A whole day therefore maps p to a p + b, and the fixed point of
        this line is the probability at midnight.
        """
        a, b = _day(self.arrive, self.leave, hour % 24)
        return a * _at_midnight(self.arrive, self.leave) + b

    @property
    def pace(self) -> float:
        """The mean number of changes per second over a day; arrivals and departures are equally frequent."""
        comings = 0.0
        for hour, (coming, going) in enumerate(zip(self.arrive, self.leave, strict=True)):
            if both := coming + going:
                level = coming / both  # the limit of p, which approaches it exponentially (see share)
                comings += coming * (1 - level + (self.share(hour) - level) * math.expm1(-both) / both)
        return 2 * comings / DAY

    def _first(self, rng: np.random.Generator) -> bool:
        return bool(rng.random() < self.share(self.local))

    def _changes(self, rng: np.random.Generator, on: bool) -> Iterator[float]:
        begun = self.local % 24 * HOUR  # after midnight
        clock = begun
        summed = {on: list(accumulate(rates, initial=0.0)) for on, rates in ((True, self.leave), (False, self.arrive))}
        while True:
            clock = _reached(summed[on], clock, float(rng.exponential()))
            yield clock - begun
            on = not on


def night(seed: int, local: float = 0.0) -> DiurnalSessions:
    """Returns the presence of a phone that charges on Wi-Fi at night: online mostly from 22 to 7 o'clock. The rates are
    assumed."""
    return DiurnalSessions(seed, *NIGHT, local)


def _reached(sums: list[float], clock: float, more: float) -> float:
    """Returns the time at which the integral of the rate since `clock` reaches `more` changes; both times are in
    seconds after the first midnight.  `sums`: the integrals of the rate from midnight to each full hour, 0 to 24."""
    days, hours = divmod(clock / HOUR, 24)
    hour = min(int(hours), 23)
    total = sums[hour] + (hours - hour) * (sums[hour + 1] - sums[hour]) + more
    whole, rest = divmod(total, sums[-1])
    # The first hour at whose end the sum is reached; hours of rate 0 are skipped.
    after = min(bisect_right(sums, rest), 24)
    rate = sums[after] - sums[after - 1]
    part = (rest - sums[after - 1]) / rate if rate else 1.0
    return ((days + whole) * 24 + after - 1 + part) * HOUR


@lru_cache(maxsize=64)
def _at_midnight(arrive: tuple[float, ...], leave: tuple[float, ...]) -> float:
    """Returns the stationary probability that a device with these hourly rates is online at midnight."""
    a, b = _day(arrive, leave, 24.0)
    return b / (1 - a)


def _day(arrive: Sequence[float], leave: Sequence[float], hours: float) -> tuple[float, float]:
    """Returns a and b of the line p -> a p + b that maps the probability to be online at midnight to that `hours`
    later."""
    a, b = 1.0, 0.0
    for start, (coming, going) in enumerate(zip(arrive, leave, strict=True)):
        length, both = min(1.0, max(0.0, hours - start)), coming + going
        if both and length:
            shrunk = math.exp(-both * length)
            a, b = a * shrunk, b * shrunk + coming / both * (1 - shrunk)
    return a, b
