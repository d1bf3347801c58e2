"""Times to a target of several algorithms, over one horizon: the same number of seconds for all.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean

from emulator.record.targets import Target
from emulator.results.observed import Runs
from emulator.results.restricted import Timed, horizon, restricted


@dataclass(frozen=True)
class Values:
    """One algorithm's own times to one target on one link."""

    link: str
    target: Target
    label: str
    times: Mapping[int, Timed]  # by seed
    tau: float  # inf: all reached it
    crossings: Mapping[int, float | None] = field(default_factory=dict)  # s, of the first evaluation that is enough

    @property
    def reached(self) -> int:
        """Seeds that got there within the horizon."""
        return sum(each.time is not None and each.time <= self.tau for each in self.times.values())

    @property
    def later(self) -> int:
        """Seeds that got there after the horizon."""
        return sum(each.time is not None and each.time > self.tau for each in self.times.values())

    @property
    def mean(self) -> float:
        """Restricted mean time, s."""
        return mean(self.times, self.bound)

    @property
    def crossed(self) -> Values:
        """The same with first crossings in place of the times from which on the target was held."""
        first = {seed: Timed(self.crossings.get(seed), each.end) for seed, each in self.times.items()}
        return replace(self, times=first)

    @property
    def bound(self) -> float:
        """The horizon, or the latest time where all reached the target."""
        return bound(self.times.values(), self.tau)


def values(link: str, target: Target, runs: Runs, wanted: float | None, aside: Collection[str] = ()) -> list[Values]:
    """Of all algorithms that are known on this link, over one horizon: the same number of seconds for all.

    Those `aside` are only shown beside the others: their runs cut no times but their own.
    """
    times = {label: {seed: run.timed(target) for seed, run in sorted(of.items())} for label, of in runs.items()}
    others = [each for label, of in times.items() if label not in aside for each in of.values()]
    tau = common(others, wanted)
    own = {label: min(tau, horizon(of.values(), wanted)) for label, of in times.items() if label in aside}
    crossed = {label: {seed: run.crossing(target) for seed, run in sorted(of.items())} for label, of in runs.items()}
    return [Values(link, target, label, of, own.get(label, tau), crossed[label]) for label, of in times.items()]


def common(times: Sequence[Timed], wanted: float | None) -> float:
    """The horizon of all of these, s; inf if all got there.

    Where all that did not get there have failed, it is the latest time of those that did, or 0 if nobody did.
    """
    tau = horizon(times, wanted)
    return _latest(times) if tau == inf and any(each.time is None for each in times) else tau


def known_for(*each: Mapping[int, Timed]) -> float:
    """How long all runs of these algorithms are known, s: their own horizon; inf if all got there."""
    return common([timed for times in each for timed in times.values()], None)


def bound(times: Iterable[Timed], tau: float) -> float:
    """The horizon, s, or where it is infinite, as all reached the target, the latest of these times."""
    return _latest(times) if tau == inf else tau


def mean(times: Mapping[int, Timed], bound: float) -> float:
    """The restricted mean time over seeds, s."""
    return fmean(map(float, restricted(list(times.values()), bound)))


def _latest(times: Iterable[Timed]) -> float:
    return max((each.time for each in times if each.time is not None), default=0.0)
