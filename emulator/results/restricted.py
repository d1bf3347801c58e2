"""Ratios of two algorithms' times to a target if some runs did not reach it.  Pure.

A run that stopped before it reached the target shows only that it would have taken longer.  So times are compared up to
a horizon τ for which all runs of the comparison were observed: the *restricted* time is the smaller of the time to the
target and τ, and its mean is the restricted mean survival time (Royston and Parmar 2013).  It is known for every run,
and needs no assumption about what a run would have done later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from emulator.results.resampling import Floats, Interval, interval
from emulator.results.summary import FEW

Amounts = Mapping[int, float]  # {seed: seconds, rounds, bytes or joules}


@dataclass(frozen=True)
class Timed:
    """One run: its seconds to the target, or None if it did not reach the target in the `end` seconds that it
    lasted."""

    time: float | None
    end: float


@dataclass(frozen=True)
class Contrast(Interval):
    """The restricted mean time of one algorithm over that of another, over the seeds that both have.

    The horizon `tau` is in seconds; it is infinite if every run reached the target.
    """

    seeds: int  # pairs
    reached: int  # seeds of the algorithm that reached the target within the horizon
    base_reached: int  # seeds of the base that reached it
    tau: float

    @property
    def counts(self) -> tuple[str, str]:
        """`9 of 10`: the seeds that reached the target within the horizon, of the algorithm and of the base."""
        return f"{self.reached} of {self.seeds}", f"{self.base_reached} of {self.seeds}"


@dataclass(frozen=True)
class TimeRatio:
    """A ratio of times as a product: time = rounds · pace, where pace is the ratio of seconds per round."""

    time: Interval
    rounds: Interval
    pace: Interval


def horizon(times: Iterable[Timed], wanted: float | None = None) -> float:
    """The seconds for which all of these runs are known: the end of the first run that stopped without the target.

    Infinity if every run reached it.  Never more than `wanted`.
    """
    known = min((each.end for each in times if each.time is None), default=inf)
    return known if wanted is None else min(known, wanted)


def restricted(times: Sequence[Timed], tau: float) -> Floats:
    """The seconds to the target or to τ, whichever comes first, in the order of `times`."""
    if tau > horizon(times):
        raise ValueError(f"a run ended before the horizon of {tau} s without the target, and no one knows the rest")
    return np.array([tau if each.time is None else min(each.time, tau) for each in times])


def contrast(one: Mapping[int, Timed], base: Mapping[int, Timed], tau: float) -> Contrast | None:
    """The restricted mean time of `one` over that of `base`, over the seeds that both have.

    None below 5 shared seeds, where only values are shown, and if a time is 0.  A mean restricted to τ is at most τ, so
    the interval is cut at τ over the base's least time, and at the algorithm's own least time over τ.  These bounds lie
    on either side of 1, so they never affect significance.
    """
    seeds = sorted(one.keys() & base.keys())
    if len(seeds) < FEW:
        return None
    over, under = ([times[seed] for seed in seeds] for times in (one, base))
    x, y = restricted(over, tau), restricted(under, tau)
    found = interval((x, y), (1, -1))
    if found is None:
        return None
    low = min(found.ratio, max(found.low, float(x.min()) / tau))
    high = max(found.ratio, min(found.high, tau / float(y.min())))
    return Contrast(found.ratio, low, high, found.p, len(seeds), _within(over, tau), _within(under, tau), tau)


def ratio(one: Amounts, base: Amounts) -> Interval | None:
    """The mean of `one` over the mean of `base`, for example of rounds, bytes or joules, over the seeds that both have.

    None below 5 such seeds, and if a value is 0.
    """
    return _over_seeds((one, base), (1, -1))


def ratio_of_rates(one: Amounts, one_per: Amounts, base: Amounts, base_per: Amounts) -> Interval | None:
    """The rate `one` / `one_per` over the rate `base` / `base_per`, for example of seconds per round.

    A rate is the sum over all seeds divided by the other sum, so seeds with more rounds weigh more.  None as in
    `ratio`.
    """
    return _over_seeds((one, one_per, base, base_per), (1, -1, -1, 1))


def split(times: tuple[Amounts, Amounts], rounds: tuple[Amounts, Amounts]) -> TimeRatio | None:
    """Splits a ratio of times into a ratio of rounds and a ratio of seconds per round.  Each pair is (algorithm, base).

    Both are counted over the same stretch of each run, up to its restricted time, and for the same seeds.  None below 5
    seeds, and if a value is 0.
    """
    if any(each.keys() != times[0].keys() for each in (*times, *rounds)):
        raise ValueError("times and rounds must be those of the same seeds")
    whole, more = ratio(*times), ratio(*rounds)
    longer = ratio_of_rates(times[0], rounds[0], times[1], rounds[1])
    return TimeRatio(whole, more, longer) if whole and more and longer else None


def _over_seeds(each: Sequence[Amounts], powers: Sequence[float]) -> Interval | None:
    seeds = sorted(set.intersection(*(set(amounts) for amounts in each)))
    if len(seeds) < FEW:
        return None
    return interval([[amounts[seed] for seed in seeds] for amounts in each], powers)


def _within(times: Iterable[Timed], tau: float) -> int:
    return sum(each.time is not None and each.time <= tau for each in times)
