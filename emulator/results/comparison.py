"""Compares two algorithms by the ratio of their mean times to a target.  Sentences, tables, orders and colours in
reports are made from this comparison.  Pure.

A time is the restricted mean over seeds (docs/design/statistics.md).  The ratio of two such means exists even if there
are too few seeds for an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from emulator.record.targets import Target
from emulator.results.holm import holm
from emulator.results.observed import Observed
from emulator.results.resampling import Bound, as_bound, seeds_needed
from emulator.results.restricted import Contrast, contrast
from emulator.results.times import Values, values

LEVEL = 0.05
SOME = 3  # seeds of either algorithm that must reach the target before a ratio is shown
OWN = "own links"

Seen = Mapping[str, Mapping[int, Observed]]


@dataclass(frozen=True)
class Comparison:
    """A comparison of two algorithms, `mine` and `theirs`, by their times to one target on one link, up to one
    horizon."""

    mine: Values
    theirs: Values
    contrast: Contrast | None  # None: below 5 shared seeds, or nothing is known
    adjusted: float | None = None  # p-value after Holm's adjustment
    together: int = 1  # comparisons that are adjusted together, this one included

    @property
    def label(self) -> str:
        return self.mine.label

    @property
    def base(self) -> str:
        return self.theirs.label

    @property
    def link(self) -> str:
        return self.mine.link

    @property
    def target(self) -> Target:
        return self.mine.target

    @property
    def ratio(self) -> float | None:
        """The mean time of `mine` over that of `theirs`; None if the latter is 0."""
        if self.contrast:
            return self.contrast.ratio
        return self.mine.mean / self.theirs.mean if self.theirs.mean else None

    @property
    def bound(self) -> Bound | None:
        """The side on which the true ratio may lie, if runs were cut off at the horizon; None if none was."""
        return self.contrast.bound if self.contrast else as_bound(self.mine.cut, self.theirs.cut)

    @property
    def too_few(self) -> bool:
        """True if there are too few seeds for an interval, or if each algorithm reached the target with fewer than SOME
        seeds."""
        return self.contrast is None or max(self.contrast.reached, self.contrast.base_reached) < SOME

    @property
    def decidable(self) -> bool:
        """True if there are enough seeds for a significant difference, given how many comparisons are adjusted
        together."""
        return self.contrast is not None and self.contrast.seeds >= seeds_needed(self.together)

    @property
    def significant(self) -> bool:
        """True if the difference of the times is significant after Holm's adjustment for several comparisons."""
        return self.adjusted is not None and self.adjusted < LEVEL

    @property
    def faster(self) -> str | None:
        """The label of the faster algorithm; None if the difference is not significant."""
        if not self.significant or self.contrast is None:
            return None
        return self.label if self.contrast.ratio < 1 else self.base

    @property
    def apart(self) -> bool:
        """True if every seed of `mine` takes longer than every seed of `theirs`.  A seed of `mine` that missed the
        target counts with the time until which it certainly had not reached it, one of `theirs` as infinite."""
        latest = max(inf if each.time is None else each.time for each in self.theirs.times.values())
        return latest < min(each.end if each.time is None else each.time for each in self.mine.times.values())

    @property
    def plain(self) -> dict[str, Any]:
        """This comparison as an entry of summary.json."""
        found = self.contrast
        return {
            "label": self.label,
            "seconds": self.mine.mean,
            "ratio": self.ratio,
            "bound": self.bound,
            "low": found and found.low,
            "high": found and found.high,
            "p": found and found.p,
            "adjusted_p": self.adjusted,
            "significant": self.significant,
            "reached": self.mine.reached,
            "of": len(self.mine.times),
        }


@dataclass(frozen=True)
class Ranking:
    """The algorithm with the least mean time to a target (`best`), and the comparisons of all others with it, in the
    order of their mean times."""

    best: Values
    others: Sequence[Comparison]

    @property
    def target(self) -> Target:
        return self.best.target

    @property
    def found(self) -> list[Values]:
        return [self.best, *(each.mine for each in self.others)]

    @property
    def seeds(self) -> int:
        """The smallest number of seeds that any algorithm has."""
        return min(len(each.times) for each in self.found)

    @property
    def needed(self) -> int:
        """The smallest number of seeds with which a difference can be significant."""
        return seeds_needed(min((each.together for each in self.others), default=1))

    @property
    def tested(self) -> bool:
        """True if the seeds are enough to make at least one difference significant."""
        return any(each.decidable for each in self.others)

    @property
    def slower(self) -> list[Comparison]:
        """The comparisons with algorithms that take significantly longer than the best one."""
        return [each for each in self.others if each.faster == self.best.label]

    @property
    def behind(self) -> list[Comparison]:
        """The comparisons with algorithms that are shown to take longer than the best one: significantly, or, if the
        seeds are too few for that, with each seed."""
        return self.slower if self.tested else [each for each in self.others if self.seeds > 1 and each.apart]

    @property
    def fastest(self) -> str | None:
        """The label of the best algorithm if all others take significantly longer; None otherwise."""
        return self.best.label if self.others and len(self.slower) == len(self.others) else None

    @property
    def plain(self) -> dict[str, Any]:
        """This ranking as summary.json holds it; `horizon_s` is None if all runs reached the target."""
        tau = self.best.tau
        return {
            "target": self.target.name,
            "least_mean": self.best.label,
            "seconds": self.best.mean,
            "horizon_s": None if tau == inf else tau,
            "fastest": self.fastest,
            "others": [each.plain for each in self.others],
        }


def ranking(found: Iterable[Values]) -> Ranking:
    """Ranks algorithms by their times to one target on one link, over one horizon. p-values are adjusted over all
    comparisons.

    Ties go to the algorithm with the larger share of seeds that reached the target, then to the one whose successful
    seeds were faster on average.
    """
    best, *others = sorted(found, key=place)
    return Ranking(best, adjusted([compared(each, best, each.tau) for each in others]))


def place(each: Values) -> tuple[float, float, float]:
    """Returns a sort key, fastest first: the mean time in s; minus the share of seeds that reached the target; the mean
    time of these seeds in s."""
    known = [found.time for found in each.times.values() if found.time is not None]
    return each.mean, -len(known) / len(each.times), sum(known) / len(known) if known else inf


def compared(mine: Values, theirs: Values, tau: float) -> Comparison:
    """Returns the comparison of two algorithms' times up to the horizon `tau` (s), with a p-value that is not yet
    adjusted."""
    found = contrast(mine.times, theirs.times, tau) if tau > 0 else None
    return Comparison(replace(mine, tau=tau), replace(theirs, tau=tau), found)


def adjusted(found: Sequence[Comparison]) -> list[Comparison]:
    """Returns these comparisons with p-values adjusted for their number by Holm's method (1979)."""
    ps = holm({number: each.contrast.p for number, each in enumerate(found) if each.contrast})
    together = len(ps) or len(found)
    return [replace(each, adjusted=ps.get(number), together=together) for number, each in enumerate(found)]


def observed(runs: Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]]) -> dict[str, dict[int, Observed]]:
    """Returns the runs as they were played up to now, by label and seed.  Runs without a completed round are left
    out."""
    found = {
        label: {seed: Observed(rows, tuple(float(row["time_s"]) for row in rows)) for seed, rows in of.items() if rows}
        for label, of in runs.items()
    }
    return {label: of for label, of in found.items() if of}


def rankings(seen: Seen, targets: Iterable[Target]) -> list[Ranking]:
    """Returns a ranking for each target that at least one run reached, hardest target first."""
    ordered = sorted(targets, key=lambda target: target.hardness, reverse=True)
    each = ([*values(OWN, target, seen, None)] for target in ordered)
    return [ranking(found) for found in each if any(t.time is not None for one in found for t in one.times.values())]
