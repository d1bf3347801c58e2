"""Ratios of two algorithms' times to a target if some runs did not reach it.  Pure.

A run that stopped before it reached the target shows only that it would have taken longer.  So times are compared up to
a horizon τ for which all runs of the comparison were observed: the *restricted* time is the smaller of the time to the
target and τ, and its mean is the restricted mean survival time (Royston and Parmar 2013).  It is known for every run,
and needs no assumption about what a run would have done later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from emulator.results.resampling import Bound, Floats, Interval, as_bound, interval
from emulator.results.summary import FEW

Amounts = Mapping[int, float]  # {seed: seconds, rounds, bytes or joules}


@dataclass(frozen=True)
class Timed:
    """One run: its seconds to the target, None if it did not reach it; and `end`, the seconds for which it was
    observed."""

    time: float | None
    end: float


@dataclass(frozen=True)
class Contrast(Interval):
    """The mean of one algorithm's times over the mean of another's, with its interval, over the seeds that both have.
    Each time is restricted: it counts as at most the horizon `tau`.

    `tau` is in seconds; it is infinite if every run reached the target.
    """

    seeds: int  # pairs
    reached: int  # seeds of the algorithm that reached the target within the horizon
    base_reached: int  # seeds of the base that reached it
    tau: float

    @property
    def counts(self) -> tuple[str, str]:
        """Returns as text, such as `9 of 10`, the number of seeds that reached the target within the horizon: of the
        algorithm, and of the base."""
        return f"{self.reached} of {self.seeds}", f"{self.base_reached} of {self.seeds}"


@dataclass(frozen=True)
class TimeRatio:
    """A ratio of two algorithms' times as a product: time = rounds · pace, where `rounds` is the ratio of their numbers
    of rounds and `pace` that of their seconds per round."""

    time: Interval
    rounds: Interval
    pace: Interval


def horizon(times: Iterable[Timed], wanted: float | None = None) -> float:
    """Returns the seconds for which all of these runs were observed: the end of the first run that stopped without
    reaching the target, or infinity if every run reached it; at most `wanted`."""
    known = min((each.end for each in times if each.time is None), default=inf)
    return known if wanted is None else min(known, wanted)


def restricted(times: Sequence[Timed], tau: float) -> Floats:
    """Returns, in s and in the order of `times`, the time to the target or τ, whichever comes first."""
    if tau > horizon(times):
        raise ValueError(f"a run ended before the horizon of {tau} s without the target, and no one knows the rest")
    return np.array([tau if each.time is None else min(each.time, tau) for each in times])


def contrast(one: Mapping[int, Timed], base: Mapping[int, Timed], tau: float) -> Contrast | None:
    """Returns the restricted mean time of `one` over that of `base`, over the seeds that both have, with its interval.

    None if they share fewer than 5 seeds, and if a time is 0.  A mean restricted to τ is at most τ, so the interval
    ends at most at τ over the base's least time, and begins at least at the algorithm's own least time over τ.  These
    bounds lie on either side of 1, so they never affect significance.
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
    reached, base_reached, of = _within(over, tau), _within(under, tau), len(seeds)
    cut = as_bound(reached < of, base_reached < of)
    return Contrast(found.ratio, low, high, found.p, of, reached, base_reached, tau, bound=cut)


def ratio(one: Amounts, base: Amounts, bound: Bound | None = None) -> Interval | None:
    """Returns the mean of `one` over the mean of `base`, for example of rounds, bytes or joules, over the seeds that
    both have, with its interval.

    `bound`: what the result gets, if amounts were counted only up to a horizon.  None if they share fewer than 5 seeds,
    and if a value is 0.
    """
    found = _over_seeds((one, base), (1, -1))
    return found and replace(found, bound=bound)


def ratio_of_rates(one: Amounts, one_per: Amounts, base: Amounts, base_per: Amounts) -> Interval | None:
    """Returns the rate `one` / `one_per` over the rate `base` / `base_per`, for example of seconds per round, with its
    interval.

    A rate is the sum of the amounts over all seeds, divided by the sum of the rounds, so seeds with more rounds weigh
    more.  None if there are fewer than 5 seeds that all four have, and if a value is 0.
    """
    return _over_seeds((one, one_per, base, base_per), (1, -1, -1, 1))


def split(
    times: tuple[Amounts, Amounts], rounds: tuple[Amounts, Amounts], bound: Bound | None = None
) -> TimeRatio | None:
    """Splits a ratio of times into a ratio of rounds and a ratio of seconds per round.  Each pair is (algorithm, base).

    Times and rounds are counted over the same stretch of each run, up to its restricted time, and for the same seeds.
    `bound`: what their ratios get, if runs were cut off; a ratio of seconds per round is no bound.  None if there are
    fewer than 5 seeds, and if a value is 0.
    """
    if any(each.keys() != times[0].keys() for each in (*times, *rounds)):
        raise ValueError("times and rounds must be those of the same seeds")
    whole, more = ratio(*times, bound), ratio(*rounds, bound)
    longer = ratio_of_rates(times[0], rounds[0], times[1], rounds[1])
    return TimeRatio(whole, more, longer) if whole and more and longer else None


def _over_seeds(each: Sequence[Amounts], powers: Sequence[float]) -> Interval | None:
    seeds = sorted(set.intersection(*(set(amounts) for amounts in each)))
    if len(seeds) < FEW:
        return None
    return interval([[amounts[seed] for seed in seeds] for amounts in each], powers)


def _within(times: Iterable[Timed], tau: float) -> int:
    return sum(each.time is not None and each.time <= tau for each in times)
