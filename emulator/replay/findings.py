"""The results of replays: times to targets in each setting, and changes in the order of algorithms.  Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from emulator.record.run import Run
from emulator.record.targets import Target, reached
from emulator.replay.replayer import Parting, Replayed
from emulator.results import units
from emulator.results.resampling import interval
from emulator.results.summary import FEW, Spread, spread, to_target

ALL = "all rounds"  # beside the targets: what a run takes for as many rounds as all runs have
UNKNOWN = "not known"
GUESS = "~"
ASSUMPTION = (
    "from the first decision that differs on, a model is taken to be as accurate as the recorded one after as many "
    "rounds with enough replies"
)
TIE = 1.01  # the next one's time over the first one's, below which nobody is said to win
TIED = "tie"


def ratio(first: float, second: float) -> float | None:
    """The second of two times in s over the first, below TIE in a tie; None if the second is never, or the first 0."""
    if first == second:
        return 1.0
    return second / first if first and second < math.inf else None


@dataclass(frozen=True)
class Times:
    """Seconds to a target, by seed: inf is never, None is not known, as the replay ended before."""

    seeds: Mapping[int, float | None]
    assumed: bool = False  # whether one of them rests on accuracies from after a decision that came out otherwise

    @property
    def known(self) -> bool:
        return bool(self.seeds) and None not in self.seeds.values()

    @property
    def plain(self) -> dict[str, float | str | None]:
        """As JSON has it: null is never."""
        return {
            str(seed): (UNKNOWN if at is None else None if at == math.inf else at) for seed, at in self.seeds.items()
        }

    @property
    def spread(self) -> Spread:
        """Median, low and high; None stands for never."""
        return spread([None if value in (None, math.inf) else value for value in self.seeds.values()])

    @property
    def median(self) -> float:
        """Seconds, inf for never; of known times."""
        value = self.spread["median"]
        return math.inf if value is None else value


def time_to(replayed: Replayed, target: Target, rounds: int) -> float | None:
    """When a run of the given number of rounds reached it; see Times."""
    ended = replayed.failure is not None or len(replayed.rows) < rounds
    found = to_target(replayed.rows[: replayed.unknown], target)
    if found is not None:
        return found["time_s"]
    return None if ended or replayed.unknown is not None else math.inf


def time_of(replayed: Replayed, rounds: int) -> float | None:
    """When the given number of rounds had been played; None if it ended before, or with the failures of the last."""
    failed = replayed.failure is not None and len(replayed.rows) <= rounds
    return float(replayed.rows[rounds - 1]["time_s"]) if 0 < rounds <= len(replayed.rows) and not failed else None


def assumed(replayed: Replayed, target: Target | None) -> bool:
    """True if the time to the target uses accuracies from after the parting."""
    if target is None or replayed.parting is None:
        return False
    return reached(replayed.rows[: replayed.parting.round], target) is None


@dataclass(frozen=True)
class Result:
    """The result of one replay."""

    label: str
    seed: int
    times: Mapping[str, float | None]  # by target, see Times
    end: float  # s, of its last round
    parting: Parting | None
    assumed: int  # messages and pieces of work that the record lacks
    failure: str | None
    loops: int = 0  # of the recording that was repeated most
    guesses: frozenset[str] = frozenset()  # targets to which the time, if known, rests on assumed accuracies
    stamps: tuple[float, ...] = ()  # s, when each round ended
    pieces: int = 0  # all messages and pieces of work


def result_of(replayed: Replayed, targets: Sequence[Target], rounds: int, shared: int | None = None) -> Result:
    """Its time to each target, and through all rounds; `rounds` are those of its own record.

    `shared`: how many rounds all runs have that are compared, where that is fewer.
    """
    times = {target.name: time_to(replayed, target, rounds) for target in targets}
    return Result(
        replayed.label,
        replayed.seed,
        {**times, ALL: time_of(replayed, rounds if shared is None else shared)},
        float(replayed.rows[-1]["time_s"]) if replayed.rows else 0.0,
        replayed.parting,
        replayed.assumed,
        replayed.failure,
        replayed.loops,
        frozenset(target.name for target in targets if assumed(replayed, target)),
        tuple(float(row["time_s"]) for row in replayed.rows),
        replayed.pieces,
    )


def no_result(label: str, seed: int, targets: Sequence[Target]) -> Result:
    """The result of a replay that was not made: nothing is known."""
    names = [*(target.name for target in targets), ALL]
    return Result(label, seed, dict.fromkeys(names), 0.0, None, 0, None)


@dataclass(frozen=True)
class Note:
    """A remark on one replay."""

    label: str
    seed: int
    text: str

    def __str__(self) -> str:
        return f"{Run(self.label, self.seed).name} {self.text}"


@dataclass(frozen=True)
class Finding:
    """One setting."""

    name: str
    assumptions: Sequence[str]
    times: Mapping[str, Mapping[str, Times]]  # by target, by label
    partings: Sequence[Note]  # where replays stop being exact
    failures: Sequence[Note]  # why they ended, where a run would have ended too
    assumed: int  # messages and pieces of work that the record lacks
    loops: int  # of the trace that was repeated most
    pieces: int = 0  # all messages and pieces of work

    def order(self, target: str) -> tuple[str, ...] | None:
        """The labels, the fastest first; None if not all are known or none gets there."""
        times = self.times[target]
        if not all(each.known for each in times.values()) or all(each.median == math.inf for each in times.values()):
            return None
        return tuple(sorted(times, key=lambda label: times[label].median))  # ties: in the scenario's order

    def ahead(self, target: str, one: str, other: str) -> bool:
        """Whether `one` gets there before the `other`, where all times are known, and not in a tie.

        From five seeds on, the interval of the ratio of their means must leave 1 out, too.
        """
        mine, theirs = self.times[target][one], self.times[target][other]
        lead = ratio(mine.median, theirs.median)
        return mine.median < theirs.median and (lead is None or (lead >= TIE and _shown(mine, theirs)))

    def first(self, target: str) -> str | None:
        """The label that gets there first, or TIED; None if that is not known or none gets there."""
        order = self.order(target)
        if order is None:
            return None
        return order[0] if len(order) == 1 or self.ahead(target, *order[:2]) else TIED

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it: null is never."""
        seconds: dict[str, dict[str, Any]] = {}
        assumed: dict[str, list[str]] = {}
        for target, of in self.times.items():
            seconds[target] = {label: times.plain for label, times in of.items()}
            known = {label: times for label, times in of.items() if times.known}
            assumed[target] = [label for label, times in known.items() if times.assumed]
        return {
            "name": self.name,
            "assumptions": list(self.assumptions),
            "times_s": seconds,
            "order": {target: self.order(target) for target in self.times},
            "first": {target: self.first(target) for target in self.times},
            "accuracies_assumed": assumed,
            "not_exact": list(map(str, self.partings)),
            "failures": list(map(str, self.failures)),
            "assumed": self.assumed,
            "pieces": self.pieces,
            "loops": self.loops,
        }


def _shown(one: Times, other: Times) -> bool:
    """Whether the seeds show that one takes less time than the other; below five they need not.

    A seed that never gets there counts with the latest time of any other.
    """
    seeds = sorted(one.seeds.keys() & other.seeds.keys())
    known = [[of.seeds[seed] for seed in seeds] for of in (one, other)]
    latest = max((at for at in chain.from_iterable(known) if at is not None and at < math.inf), default=0.0)
    if len(seeds) < FEW or not latest:
        return True
    found = interval([[min(at, latest) for at in of if at is not None] for of in known], (1, -1))
    return found is None or found.high < 1


def finding(name: str, assumptions: Sequence[str], replays: Sequence[Result]) -> Finding:
    """Sums up the replays of all runs in one setting."""
    times: dict[str, dict[str, Times]] = {}
    for target, of in _seconds(replays).items():
        guessed = {each.label for each in replays if target in each.guesses}
        times[target] = {label: Times(seeds, label in guessed) for label, seeds in of.items()}
    failures = [Note(r.label, r.seed, f"ends early: {r.failure}") for r in replays if r.failure]
    assumed, pieces = sum(each.assumed for each in replays), sum(each.pieces for each in replays)
    loops = max((each.loops for each in replays), default=0)
    return Finding(name, assumptions, times, list(_partings(replays)), failures, assumed, loops, pieces)


def _partings(replays: Sequence[Result]) -> Iterator[Note]:
    for each in replays:
        if each.parting:
            said = f"is not exact from round {each.parting.round + 1} on: {each.parting.why}"
            yield Note(each.label, each.seed, said)


def _seconds(replays: Sequence[Result]) -> dict[str, dict[str, dict[int, float | None]]]:
    """Times by target, label and seed."""
    found: dict[str, dict[str, dict[int, float | None]]] = {}
    for each in replays:
        for target, at in each.times.items():
            found.setdefault(target, {}).setdefault(each.label, {})[each.seed] = at
    return found


def goals(record: Finding) -> list[str]:
    """The goals to compare: targets that some recorded run reaches, or else all rounds."""
    targets = [target for target in record.times if target != ALL and not missed(record, target)]
    return targets or [ALL]


def missed(record: Finding, target: str) -> bool:
    """True if no run reaches the goal."""
    seeds = (at for times in record.times[target].values() for at in times.seeds.values())
    return all(at in (None, math.inf) for at in seeds)


def flips(findings: Sequence[Finding], target: str) -> list[str]:
    """Names of the settings in which two algorithms have changed places since the first one."""
    first = findings[0]
    pairs = [pair for pair in combinations(first.order(target) or (), 2) if first.ahead(target, *pair)]
    known = [each for each in findings[1:] if each.order(target)]
    return [each.name for each in known if any(each.ahead(target, other, one) for one, other in pairs)]


def cells(each: Finding, target: str, unit: units.Unit) -> list[str]:
    """The times of one row of a table, as text; ~ for those that rest on assumed accuracies."""
    return [
        f"{GUESS * times.assumed}{units.spread(times.spread, unit)}" if times.known else UNKNOWN
        for times in each.times[target].values()
    ]
