"""Ratios of means over seeds, with the 95 % interval and the p-value of a paired bootstrap.  Pure.

A column holds one measure of each seed.  The estimate is θ, a product of powers of the columns' means,

    log θ = Σ c_j · log mean(x_j)

so (time, time of the base) with the powers (1, -1) is a ratio of times, and (time, rounds, the base's time, its rounds)
with (1, -1, -1, 1) a ratio of seconds per round. docs/design/statistics.md §2 gives the reasons for this interval and
its measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
SEED = 20_000  # seed of the random draws; fixed, so that results can be repeated
LEAST_ERROR = 0.25  # lower limit of a resample's standard error, over that of the seeds
ROUNDING = 1e-12  # of log θ: smaller differences count as none
SLIGHT = 0.01  # a significant ratio nearer to 1 than this is called slight
EXACT = 8  # seeds; with fewer, no p-value is smaller than those of an exact test

Bound = Literal["low", "high", "neither"]
SIGNS = {"low": "≥ ", "high": "≤ "}


@dataclass(frozen=True)
class Interval:
    """A product of powers of means, its 95 % interval, and the two-sided p-value of the hypothesis that it is 1.

    The interval excludes 1 exactly if p < 0.05. p is never below `least_p` of the number of seeds.  `bound` says how
    the ratio compares with the true one, if runs were cut off (`as_bound`); None if no run was.
    """

    ratio: float
    low: float
    high: float
    p: float
    bound: Bound | None = field(default=None, kw_only=True)

    @property
    def decided(self) -> bool:
        """True if the interval excludes 1."""
        return self.low > 1 or self.high < 1

    def __str__(self) -> str:
        return self.text()

    def text(self, times: str = "") -> str:
        """Returns `1.20 [1.10, 1.31]`, with more digits if the interval excludes 1 but is close to it; as a bound,
        `≥ 1.20 [1.10, ∞]` or `≤ 0.80 [0, 0.95]`.  `times` follows the ratio."""
        values = (self.ratio, self.low, self.high)
        shown = [figure(value) for value in values]
        if self.decided and ("1.00" in shown[1:] or abs(self.ratio - 1) < SLIGHT):
            longer = ([f"{value:.{digits}g}" for value in values] for digits in range(4, 18))
            shown = next(texts for texts in longer if "1" not in texts)
        low, high = "0" if self.bound == "high" else shown[1], "∞" if self.bound == "low" else shown[2]
        return bounded(f"{shown[0]}{times} [{low}, {high}]", self.bound)


def figure(value: float) -> str:
    """Returns a ratio as text, with two digits after the point if it is below 10, and one otherwise."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def as_bound(cut: bool, base_cut: bool) -> Bound | None:
    """Returns how a ratio of restricted means compares with the true ratio, if runs of the first algorithm were cut
    off at the horizon (`cut`), or runs of the second (`base_cut`).

    A run that was cut off would have taken longer, so the true ratio is at least as large ("low") or at most as large
    ("high"); if runs of both were, it may be either ("neither").
    """
    if cut and base_cut:
        return "neither"
    return "low" if cut else "high" if base_cut else None


def bounded(shown: str, bound: Bound | None) -> str:
    """Returns a ratio's text as a bound: `≥ 1.20`, `≤ 0.80`, or `1.20 (both cut off)`."""
    return f"{shown} (both cut off)" if bound == "neither" else f"{SIGNS.get(bound or '', '')}{shown}"


def in_cell(ratio: float, bound: Bound | None) -> str:
    """Returns a ratio for a map's cell, where there is little room: `≥ 1.20`, or `(1.20)` if both were cut off."""
    return f"({figure(ratio)})" if bound == "neither" else bounded(figure(ratio), bound)


def least_p(seeds: int) -> float:
    """Returns the smallest p-value that so many seeds can give.

    An exact test swaps the two algorithms within seeds, which flips the signs of the seeds' log ratios.  Of the 2^n
    ways to do so, the two in which all signs agree are the most extreme, so its p-value is at least 2 / 2^n.  Below
    eight seeds this is the limit here too; from eight on, the number of resamples is.
    """
    return 2.0 ** (1 - seeds) if seeds < EXACT else 1 / (RESAMPLES + 1)


def seeds_needed(comparisons: int) -> int:
    """Returns the smallest number of seeds with which a difference can be significant, if Holm's method adjusts the
    p-values of so many comparisons together: 6 for one comparison, 7 for up to three, 8 for more (up to 500)."""
    return next((seeds for seeds in range(2, EXACT) if comparisons * least_p(seeds) < 1 - LEVEL), EXACT)


def interval(columns: Sequence[Sequence[float] | Floats], powers: Sequence[float]) -> Interval | None:
    """Returns mean(columns[0]) ** powers[0] · mean(columns[1]) ** powers[1] · ... with its interval; None if a value is
    0.

    Each column has one value for each seed, in the same order of seeds.  The method is the symmetric bootstrap-t on log
    θ (Hall 1988), where θ is that product.  Whole seeds are drawn with replacement, with all of their columns.  For
    each resample, its distance from the seeds' log θ is divided by its own standard error.  The 95 % quantile of these
    distances, times the standard error of the seeds, is half of the interval.  Standard errors follow from the delta
    method.  If the powers add up to 0, θ has no unit and 1 means no difference; then `least_p` limits the p-value.
    """
    values = np.array(columns, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("columns must hold as many finite values each, at least two, and none below 0")
    c = np.array(powers, dtype=np.float64)
    if c.shape != (len(values),):
        raise ValueError(f"{len(values)} columns need as many powers, not {len(powers)}")
    if not values.all():
        return None
    ratio = math.prod(float(mean**power) for mean, power in zip(values.mean(axis=1), c, strict=True))
    error, least = _error(values, c), least_p(EXACT if c.sum() else values.shape[1])
    return _around(ratio, _reach(values, c, error), least) if error > ROUNDING else _certain(ratio, least)


def _around(ratio: float, reach: Floats, least: float) -> Interval:
    """Returns the interval and its p-value from `reach`: for each resample, its distance from the seeds' log θ, scaled
    as `_reach` does.  `least`: the smallest p-value that the seeds can give.

    Half of the interval is the smallest distance that fewer than 5 % of the resamples, the seeds themselves included,
    exceed.  The p-value uses the same count, so the two cannot disagree.
    """
    rank = round(LEVEL * RESAMPLES)
    p = (1 + int((reach >= abs(math.log(ratio))).sum())) / (RESAMPLES + 1)
    return _agreeing(ratio, math.exp(float(np.partition(reach, rank)[rank])), max(least, p))


def _certain(ratio: float, least: float) -> Interval:
    """Returns the interval if all seeds have the same ratio, so that every resample has it too."""
    if abs(math.log(ratio)) < ROUNDING:
        return Interval(1.0, 1.0, 1.0, 1.0)
    return _agreeing(ratio, 1.0, least)


def _agreeing(ratio: float, factor: float, p: float) -> Interval:
    """Returns the interval from `ratio` / `factor` to `ratio` · `factor`, with a larger factor if it must reach 1,
    because p is not below 0.05."""
    if p < 1 - LEVEL:
        return Interval(ratio, ratio / factor, ratio * factor, p)
    wide = max(factor, ratio, 1 / ratio)
    return Interval(ratio, min(1.0, ratio / wide), max(1.0, ratio * wide), p)


def _error(values: Floats, c: Floats) -> float:
    """Returns the standard error of log θ over seeds by the delta method: a seed's share in log θ is Σ c_j · x_j /
    mean(x_j)."""
    shares = (c / values.mean(axis=1)) @ values - c.sum()
    n = len(shares)
    return math.sqrt(float(shares @ shares) / (n * (n - 1)))


def _reach(values: Floats, c: Floats, error: float) -> Floats:
    """Returns, for each resample, its distance from log θ in units of the resample's standard error, times the standard
    error of the seeds; shape (resamples,).

    If the seeds of a resample are almost equal (all took two rounds, for example, or all were cut off), its own error
    is almost zero and the distance would explode.  So its error is at least a quarter of the seeds' error.
    """
    n = values.shape[1]
    counts = _counts(n)
    means = np.einsum("bi,ji->bj", counts, values) / n
    shares = np.einsum("bj,ji->bi", c / means, values) - c.sum()
    errors = np.sqrt(np.einsum("bi,bi,bi->b", counts, shares, shares) / (n * (n - 1)))
    off = np.abs(np.einsum("bj,j->b", np.log(means / values.mean(axis=1)), c))
    reach: Floats = off * (error / np.maximum(errors, LEAST_ERROR * error))
    return reach


@lru_cache(maxsize=8)
def _counts(n: int) -> Floats:
    """Returns how often each of n seeds is drawn in each resample, shape (resamples, n).  The draws are always the
    same."""
    picks = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, n))
    flat = (picks + n * np.arange(RESAMPLES)[:, None]).ravel()
    counts = np.bincount(flat, minlength=RESAMPLES * n).reshape(RESAMPLES, n).astype(np.float64)
    counts.setflags(write=False)
    return counts
