"""The ratio of two algorithms' mean times to a target, from which sentences, tables, order and colours are made.  Pure.

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
from emulator.results.restricted import Contrast, contrast
from emulator.results.times import Values, values

LEVEL = 0.05
SOME = 3  # seeds of either algorithm that must reach the target before a ratio is shown
OWN = "own links"

Seen = Mapping[str, Mapping[int, Observed]]


@dataclass(frozen=True)
class Comparison:
    """The time of `mine` over that of `theirs`, to one target on one link, up to one horizon."""

    mine: Values
    theirs: Values
    contrast: Contrast | None  # None: below 5 shared seeds, or nothing is known
    adjusted: float | None = None  # p-value after Holm's adjustment

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
        """The ratio of means; None if the base takes no time or a time is unknown."""
        if self.contrast:
            return self.contrast.ratio
        return self.mine.mean / self.theirs.mean if self.theirs.mean else None

    @property
    def too_few(self) -> bool:
        """True if there is no contrast, or neither algorithm reached the target with SOME seeds."""
        return self.contrast is None or max(self.contrast.reached, self.contrast.base_reached) < SOME

    @property
    def significant(self) -> bool:
        """True if the difference remains significant after Holm's adjustment."""
        return self.adjusted is not None and self.adjusted < LEVEL

    @property
    def faster(self) -> str | None:
        """The label of the faster algorithm; None if the difference is not significant."""
        if not self.significant or self.contrast is None:
            return None
        return self.label if self.contrast.ratio < 1 else self.base

    @property
    def apart(self) -> bool:
        """True if every seed of `mine` takes longer than every seed of `theirs`; a seed that missed the target counts
        with its lower bound."""
        latest = max(inf if each.time is None else each.time for each in self.theirs.times.values())
        return latest < min(each.end if each.time is None else each.time for each in self.mine.times.values())

    @property
    def plain(self) -> dict[str, Any]:
        """This comparison in the form of summary.json."""
        found = self.contrast
        return {
            "label": self.label,
            "seconds": self.mine.mean,
            "ratio": self.ratio,
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
    """The algorithm with the least mean time to a target, and the comparisons of all others with it, in order of mean
    time."""

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
    def tested(self) -> bool:
        """True if at least one comparison has an interval."""
        return any(each.contrast for each in self.others)

    @property
    def slower(self) -> list[Comparison]:
        """The comparisons with algorithms that take significantly longer than the best one."""
        return [each for each in self.others if each.faster == self.best.label]

    @property
    def fastest(self) -> str | None:
        """The label of the best algorithm if all others take significantly longer; else None."""
        return self.best.label if self.others and len(self.slower) == len(self.others) else None

    @property
    def plain(self) -> dict[str, Any]:
        """This ranking in the form of summary.json; `horizon_s` is None if all runs reached the target."""
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
    """Ranks times to one target on one link, over one horizon; p-values are adjusted over all comparisons.

    Ties go to the algorithm with the larger share of seeds that reached the target, then to the one whose successful
    seeds were faster on average.
    """
    best, *others = sorted(found, key=place)
    return Ranking(best, adjusted([compared(each, best, each.tau) for each in others]))


def place(each: Values) -> tuple[float, float, float]:
    """Returns a sort key, fastest first: mean time, s; minus the share of seeds that got there; their mean time, s."""
    known = [found.time for found in each.times.values() if found.time is not None]
    return each.mean, -len(known) / len(each.times), sum(known) / len(known) if known else inf


def compared(mine: Values, theirs: Values, tau: float) -> Comparison:
    """The comparison of two algorithms up to the horizon `tau`, s, without adjustment."""
    found = contrast(mine.times, theirs.times, tau) if tau > 0 else None
    return Comparison(replace(mine, tau=tau), replace(theirs, tau=tau), found)


def adjusted(found: Sequence[Comparison]) -> list[Comparison]:
    """These comparisons with p-values adjusted over all of them (Holm 1979)."""
    ps = holm({number: each.contrast.p for number, each in enumerate(found) if each.contrast})
    return [replace(each, adjusted=ps.get(number)) for number, each in enumerate(found)]


def observed(runs: Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]]) -> dict[str, dict[int, Observed]]:
    """The runs as played so far, by label and seed; runs without a completed round are left out."""
    found = {
        label: {seed: Observed(rows, tuple(float(row["time_s"]) for row in rows)) for seed, rows in of.items() if rows}
        for label, of in runs.items()
    }
    return {label: of for label, of in found.items() if of}


def rankings(seen: Seen, targets: Iterable[Target]) -> list[Ranking]:
    """The rankings for the targets that at least one run reached, hardest target first."""
    ordered = sorted(targets, key=lambda target: (target.value, target.hold), reverse=True)
    each = ([*values(OWN, target, seen, None)] for target in ordered)
    return [ranking(found) for found in each if any(t.time is not None for one in found for t in one.times.values())]
