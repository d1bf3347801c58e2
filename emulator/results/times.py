"""Times of several algorithms to a target, compared over one common horizon.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean

from emulator.record.targets import Target
from emulator.results.observed import Runs
from emulator.results.restricted import Timed, horizon, restricted


@dataclass(frozen=True)
class Values:
    """One algorithm's times to one target on one link, by seed."""

    link: str
    target: Target
    label: str
    times: Mapping[int, Timed]  # by seed
    tau: float  # s; inf: all runs reached the target
    crossings: Mapping[int, float | None] = field(default_factory=dict)  # s; first one at the value
    rounds: Mapping[int, int | None] = field(default_factory=dict)  # those that it took to the target

    @property
    def reached(self) -> int:
        """The number of seeds that reached the target within the horizon."""
        return sum(each.time is not None and each.time <= self.tau for each in self.times.values())

    @property
    def cut(self) -> bool:
        """True if a seed did not reach the target within the horizon, so that the true mean is larger than `mean`."""
        return self.reached < len(self.times)

    @property
    def later(self) -> int:
        """The number of seeds that reached the target after the horizon."""
        return sum(each.time is not None and each.time > self.tau for each in self.times.values())

    @property
    def mean(self) -> float:
        """The restricted mean over seeds of the time to the target, s."""
        return mean(self.times, self.bound)

    @property
    def crossed(self) -> Values:
        """A copy in which a seed's time is that of its first evaluation at or above the target's value, even if the
        value was not held."""
        first = {seed: Timed(self.crossings.get(seed), each.end) for seed, each in self.times.items()}
        return replace(self, times=first)

    @property
    def bound(self) -> float:
        """The horizon in s; if it is infinite because all seeds reached the target, the latest of their times."""
        return bound(self.times.values(), self.tau)


def values(link: str, target: Target, runs: Runs, wanted: float | None) -> list[Values]:
    """Returns the times of all algorithms to the target on this link, over one common horizon of at most `wanted`
    seconds."""
    every = {label: dict(sorted(of.items())) for label, of in runs.items()}
    times = {label: {seed: run.timed(target) for seed, run in of.items()} for label, of in every.items()}
    tau = common([each for of in times.values() for each in of.values()], wanted)
    return [
        Values(
            link,
            target,
            label,
            times[label],
            tau,
            crossings={seed: run.crossing(target) for seed, run in of.items()},
            rounds={seed: run.rounds_to(target) for seed, run in of.items()},
        )
        for label, of in every.items()
    ]


def common(times: Sequence[Timed], wanted: float | None) -> float:
    """Returns the common horizon of these runs in s; inf if all reached the target.

    If every run that missed the target ended in a failure, it is the latest time of the others; 0 if no run reached it.
    """
    tau = horizon(times, wanted)
    return _latest(times) if tau == inf and any(each.time is None for each in times) else tau


def known_for(*each: Mapping[int, Timed]) -> float:
    """Returns the common horizon in s of the runs of these algorithms; inf if all reached the target."""
    return common([timed for times in each for timed in times.values()], None)


def bound(times: Iterable[Timed], tau: float) -> float:
    """Returns the horizon `tau` in s if it is finite, else the latest of these times."""
    return _latest(times) if tau == inf else tau


def mean(times: Mapping[int, Timed], bound: float) -> float:
    """Returns the mean over seeds of the times in s, each restricted to `bound`."""
    return fmean(map(float, restricted(list(times.values()), bound)))


def sooner(times: Mapping[str, Mapping[int, Timed]], one: str, other: str) -> str:
    """Returns the one of two algorithms with the smaller mean time over their common horizon; `one` if the means are
    equal.  `times`: by label and seed."""
    limit = bound([*times[one].values(), *times[other].values()], known_for(times[one], times[other]))
    return other if mean(times[other], limit) < mean(times[one], limit) else one


def _latest(times: Iterable[Timed]) -> float:
    return max((each.time for each in times if each.time is not None), default=0.0)
