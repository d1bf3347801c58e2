"""Times of several algorithms to a target, over one common horizon.  Pure."""

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
    tau: float  # s; inf: all runs reached the target
    crossings: Mapping[int, float | None] = field(default_factory=dict)  # s; first one at the value

    @property
    def reached(self) -> int:
        """The number of seeds that reached the target within the horizon."""
        return sum(each.time is not None and each.time <= self.tau for each in self.times.values())

    @property
    def later(self) -> int:
        """The number of seeds that reached the target after the horizon."""
        return sum(each.time is not None and each.time > self.tau for each in self.times.values())

    @property
    def mean(self) -> float:
        """Restricted mean time, s."""
        return mean(self.times, self.bound)

    @property
    def crossed(self) -> Values:
        """A copy in which a seed's time is that of its first crossing, even if the value was not held."""
        first = {seed: Timed(self.crossings.get(seed), each.end) for seed, each in self.times.items()}
        return replace(self, times=first)

    @property
    def bound(self) -> float:
        """The horizon, s; if all seeds reached the target, the latest of their times."""
        return bound(self.times.values(), self.tau)


def values(link: str, target: Target, runs: Runs, wanted: float | None, aside: Collection[str] = ()) -> list[Values]:
    """The times of all algorithms on this link, over one common horizon.

    The runs of algorithms in `aside` shorten only their own horizon.
    """
    times = {label: {seed: run.timed(target) for seed, run in sorted(of.items())} for label, of in runs.items()}
    others = [each for label, of in times.items() if label not in aside for each in of.values()]
    tau = common(others, wanted)
    own = {label: min(tau, horizon(of.values(), wanted)) for label, of in times.items() if label in aside}
    crossed = {label: {seed: run.crossing(target) for seed, run in sorted(of.items())} for label, of in runs.items()}
    return [Values(link, target, label, of, own.get(label, tau), crossed[label]) for label, of in times.items()]


def common(times: Sequence[Timed], wanted: float | None) -> float:
    """The common horizon of these runs, s; inf if all reached the target.

    If every run that missed the target failed, the latest time of the others; 0 if no run reached it.
    """
    tau = horizon(times, wanted)
    return _latest(times) if tau == inf and any(each.time is None for each in times) else tau


def known_for(*each: Mapping[int, Timed]) -> float:
    """The horizon of these algorithms' runs, s; inf if all reached the target."""
    return common([timed for times in each for timed in times.values()], None)


def bound(times: Iterable[Timed], tau: float) -> float:
    """The horizon, s, if finite; else the latest of these times."""
    return _latest(times) if tau == inf else tau


def mean(times: Mapping[int, Timed], bound: float) -> float:
    """The restricted mean time over seeds, s."""
    return fmean(map(float, restricted(list(times.values()), bound)))


def _latest(times: Iterable[Timed]) -> float:
    return max((each.time for each in times if each.time is not None), default=0.0)
