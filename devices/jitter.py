"""Jitter: random variation of the time of batches."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

SIGMAS = 7.0


def factor(cv: float, steps: float, rng: np.random.Generator) -> float:
    """Returns a random factor of mean 1 for the time of a phase of `steps` batches: its time relative to its expected
    time.

    The factor of a single batch is lognormal with mean 1 and coefficient of variation `cv`.  The mean of `steps`
    independent factors has mean 1 and coefficient of variation cv / sqrt(steps); its distribution has no closed form
    and is approximated by the lognormal with these two moments (Fenton 1960).  This is exact for one step; for more
    steps the first two moments are exact, so a phase in two pieces varies as in one.  At cv 0.18, the largest measured,
    the sum of two has skewness 0.386, and 0.384 here.  Raises ValueError for a negative or infinite cv, and for fewer
    than 0 steps.  Source: docs/design/devices.md §2 (cv 0.02-0.06).
    """
    drawn = _distribution(cv, steps)
    return float(rng.lognormal(*drawn)) if drawn else 1.0


@lru_cache(maxsize=256)
def _distribution(cv: float, steps: float) -> tuple[float, float] | None:
    """Returns mu and sigma of the factor's logarithm; None if the factor is always 1. Raises ValueError as `factor`
    does."""
    if not 0 <= cv < math.inf:
        raise ValueError(f"cv is {cv}; a coefficient of variation must be 0 or more, and finite")
    if not 0 <= steps < math.inf:
        raise ValueError(f"steps is {steps}; it must be 0 or more, and finite")
    return parameters(1.0, cv / math.sqrt(steps)) if cv and steps else None


def least(cv: float) -> float:
    """Returns a practical lower bound of `factor`: SIGMAS standard deviations of the logarithm below the mean of a
    single batch, which one phase in 10^12 falls below."""
    mu, sigma = parameters(1.0, cv)
    return math.exp(mu - SIGMAS * sigma)


def parameters(mean: float, cv: float) -> tuple[float, float]:
    """Returns mu and sigma of the lognormal distribution with this mean and coefficient of variation."""
    variance = math.log1p(cv * cv)
    return math.log(mean) - variance / 2, math.sqrt(variance)
