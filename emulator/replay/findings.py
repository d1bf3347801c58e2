"""The results of replays: times to targets in each setting, and changes in the order of algorithms.  Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from emulator.record.run import Run
from emulator.record.targets import Target, reached
from emulator.replay.replayer import Parting, Replayed
from emulator.results import units
from emulator.results.comparison import OWN, Ranking, compared, ranking
from emulator.results.observed import Observed
from emulator.results.resampling import seeds_needed
from emulator.results.restricted import Timed
from emulator.results.summary import Spread, spread
from emulator.results.times import Values, bound, known_for, mean

ALL = "all rounds"  # a goal next to the targets: the rounds that all runs have
UNKNOWN = "not known"
GUESS = "~"
ASSUMPTION = (
    "from the first decision that differs on, a model is taken to be as accurate as the recorded one after as many "
    "rounds with enough replies"
)
TIE = 1.01  # runner-up's mean time over the winner's, below which there is no winner
TIED = "tie"


@dataclass(frozen=True)
class Times:
    """One algorithm's times to a target, by seed; means and horizon are computed as in `fedlapse compare`."""

    seeds: Mapping[int, Timed | None]  # None: not known, because the replay ended before
    assumed: bool = False  # True: a time uses accuracies from after a decision that differed
    tau: float = math.inf  # the horizon of all algorithms, s; inf: all reached the target

    @property
    def known(self) -> bool:
        return bool(self.seeds) and None not in self.seeds.values()

    @property
    def timed(self) -> dict[int, Timed]:
        """The times that are known, by seed."""
        return {seed: each for seed, each in self.seeds.items() if each is not None}

    @property
    def plain(self) -> dict[str, float | str | None]:
        """The times in s for JSON, by seed; null means that the run never reaches the target."""
        return {str(seed): UNKNOWN if each is None else each.time for seed, each in self.seeds.items()}

    def values(self, target: str, label: str) -> Values:
        """Returns the times in the form that comparisons take, in which a target needs only a name."""
        return Values(OWN, Target(target, 0.0), label, self.timed, self.tau)

    @property
    def mean(self) -> float:
        """The restricted mean of the known times, s: a run that misses the target counts up to the horizon."""
        return mean(self.timed, bound(self.timed.values(), self.tau))

    @property
    def whole(self) -> bool:
        """True if all runs reached the target within the horizon, so that `mean` does not depend on the horizon."""
        return all(each.time is not None and each.time <= self.tau for each in self.timed.values())

    @property
    def cut(self) -> bool:
        """True if a run missed the target within the horizon, so that the true mean time is larger than `mean`.

        False if no run reached the target at all.
        """
        return self.spread["low"] is not None and not self.whole

    @property
    def spread(self) -> Spread:
        """Mean, lowest and highest time over the seeds, s; None means that a run never reaches the target."""
        found = spread([each.time for each in self.timed.values()])
        return {**found, "mean": None if found["low"] is None else self.mean}


def time_to(replayed: Replayed, target: Target, rounds: int) -> Timed | None:
    """Returns the time of one replayed run to the target, or the time up to which it certainly missed the target.

    None if the replay ended too early to tell.  `rounds`: how many rounds the record has.
    """
    rows = replayed.rows[: replayed.unknown]
    if not rows:
        return None
    found = Observed(rows, tuple(float(row["time_s"]) for row in rows)).timed(target)
    open_ = replayed.failure is not None or len(replayed.rows) < rounds or replayed.unknown is not None
    return None if found.time is None and open_ else found


def time_of(replayed: Replayed, rounds: int) -> Timed | None:
    """Returns the time at which the given number of rounds had ended.

    None if the replay has fewer rounds, or if it failed in them.
    """
    failed = replayed.failure is not None and len(replayed.rows) <= rounds
    if failed or not 0 < rounds <= len(replayed.rows):
        return None
    end = float(replayed.rows[rounds - 1]["time_s"])
    return Timed(end, end)


def assumed(replayed: Replayed, target: Target | None) -> bool:
    """Returns true if the time to the target depends on accuracies of rounds after the replay's first decision that
    differs from the record."""
    if target is None or replayed.parting is None:
        return False
    return reached(replayed.rows[: replayed.parting.round], target) is None


@dataclass(frozen=True)
class ReplayResult:
    """The result of one replay."""

    label: str
    seed: int
    times: Mapping[str, Timed | None]  # by target; None: not known
    end: float  # s, end of its last round
    parting: Parting | None
    assumed: int  # messages and pieces of work that are not in the record
    failure: str | None
    loops: int = 0  # repetitions of the most repeated recording
    guesses: frozenset[str] = frozenset()  # targets whose time uses assumed accuracies
    stamps: tuple[float, ...] = ()  # s, end of each round
    pieces: int = 0  # all messages and pieces of work


def result_of(replayed: Replayed, targets: Sequence[Target], rounds: int, shared: int | None = None) -> ReplayResult:
    """Returns the result of one replay: its time to each target, and its time through all rounds.  `rounds`: how many
    its record has.

    `shared`: the number of rounds that all compared runs have, if that is smaller.
    """
    times = {target.name: time_to(replayed, target, rounds) for target in targets}
    return ReplayResult(
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


def no_result(label: str, seed: int, targets: Sequence[Target]) -> ReplayResult:
    """Returns the result of a replay that was not made, in which no time is known."""
    names = [*(target.name for target in targets), ALL]
    return ReplayResult(label, seed, dict.fromkeys(names), 0.0, None, 0, None)


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
    """The results of the replays of all runs in one setting."""

    name: str
    assumptions: Sequence[str]
    times: Mapping[str, Mapping[str, Times]]  # by target, by label
    partings: Sequence[Note]  # where replays stop being exact
    failures: Sequence[Note]  # reasons why replays ended; a run would have ended, too
    assumed: int  # messages and pieces of work that are not in the record
    loops: int  # repetitions of the most repeated recording
    pieces: int = 0  # all messages and pieces of work

    def ranking(self, target: str) -> Ranking | None:
        """Returns the ranking of all algorithms by their mean time to the target.

        None if some time is not known, or if no run reaches the target.
        """
        times = self.times[target]
        if not all(each.known for each in times.values()) or all(each.spread["low"] is None for each in times.values()):
            return None
        return ranking(each.values(target, label) for label, each in times.items())

    def order(self, target: str) -> tuple[str, ...] | None:
        """Returns the labels by mean time to the target, ties in the scenario's order.

        None if some time is not known, or if no run reaches the target.
        """
        ranked = self.ranking(target)
        return tuple(each.label for each in ranked.found) if ranked else None

    def ahead(self, target: str, one: str, other: str) -> bool:
        """Returns true if all times are known and `one` is faster than `other` by 1 % or more.

        From six seeds on, the interval of the ratio of their mean times must also exclude 1.
        """
        mine, theirs = (self.times[target][label].values(target, label) for label in (one, other))
        found = compared(theirs, mine, mine.tau)
        if found.ratio is None or found.ratio < TIE:
            return False
        return found.contrast.low > 1 if found.contrast and found.decidable else len(mine.times) < seeds_needed(1)

    def first(self, target: str) -> str | None:
        """Returns the label of the fastest algorithm, or TIED if no algorithm is clearly the fastest.

        It must lead by 1 %, and with enough seeds (`Ranking.needed`) it must be the fastest as in `fedlapse compare`.
        None if some time is not known, or if no run reaches the target.
        """
        ranked = self.ranking(target)
        if ranked is None:
            return None
        if not ranked.others:
            return ranked.best.label
        lead = ranked.others[0].ratio
        shown = ranked.fastest is not None or ranked.seeds < ranked.needed
        return ranked.best.label if shown and lead is not None and lead >= TIE else TIED

    @property
    def plain(self) -> dict[str, Any]:
        """The finding as plain values for JSON; a time of null means that the run never reaches the target."""
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


def finding(name: str, assumptions: Sequence[str], replays: Sequence[ReplayResult]) -> Finding:
    """Sums up the replays of all runs in one setting; `name` and `assumptions` are those of the setting."""
    times: dict[str, dict[str, Times]] = {}
    for target, of in _seconds(replays).items():
        guessed = {each.label for each in replays if target in each.guesses}
        tau = known_for(*({seed: at for seed, at in seeds.items() if at} for seeds in of.values()))
        times[target] = {label: Times(seeds, label in guessed, tau) for label, seeds in of.items()}
    failures = [Note(r.label, r.seed, f"ends early: {r.failure}") for r in replays if r.failure]
    assumed, pieces = sum(each.assumed for each in replays), sum(each.pieces for each in replays)
    loops = max((each.loops for each in replays), default=0)
    return Finding(name, assumptions, times, list(_partings(replays)), failures, assumed, loops, pieces)


def _partings(replays: Sequence[ReplayResult]) -> Iterator[Note]:
    for each in replays:
        if each.parting:
            said = f"is not exact from round {each.parting.round + 1} on: {each.parting.why}"
            yield Note(each.label, each.seed, said)


def _seconds(replays: Sequence[ReplayResult]) -> dict[str, dict[str, dict[int, Timed | None]]]:
    """Returns the times by target, label and seed."""
    found: dict[str, dict[str, dict[int, Timed | None]]] = {}
    for each in replays:
        for target, at in each.times.items():
            found.setdefault(target, {}).setdefault(each.label, {})[each.seed] = at
    return found


def goals(record: Finding) -> list[str]:
    """Returns the names of the goals to compare: the targets that some recorded run reaches, or if there are none,
    all rounds."""
    targets = [target for target in record.times if target != ALL and not missed(record, target)]
    return targets or [ALL]


def missed(record: Finding, target: str) -> bool:
    """Returns true if no run reaches the goal."""
    seeds = (at for times in record.times[target].values() for at in times.seeds.values())
    return all(at is None or at.time is None for at in seeds)


def flips(findings: Sequence[Finding], target: str) -> list[str]:
    """Returns the names of the settings in which some two algorithms have the opposite order to that in the first
    setting.

    Only clear leads (`ahead`) count.
    """
    first = findings[0]
    pairs = [pair for pair in combinations(first.order(target) or (), 2) if first.ahead(target, *pair)]
    known = [each for each in findings[1:] if each.order(target)]
    return [each.name for each in known if any(each.ahead(target, other, one) for one, other in pairs)]


def cells(each: Finding, target: str, unit: units.Unit) -> list[str]:
    """Returns the times to a target in this setting as text, in the order of algorithms; ~ marks times that use
    assumed accuracies."""
    return [
        f"{GUESS * times.assumed}{'≥ ' * times.cut}{units.spread(times.spread, unit)}" if times.known else UNKNOWN
        for times in each.times[target].values()
    ]
