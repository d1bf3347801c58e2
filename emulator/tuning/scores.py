"""Scores of configurations: the restricted mean time to a validation accuracy, over the seeds of the search.  Pure
functions.

All configurations are played for the same number of rounds.  A run that misses the target counts up to the horizon,
which is the latest end of any run; a success in later rounds would not count.  Among configurations with the same time,
the one with the higher validation accuracy at equal time is better.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import Any, Generic, NamedTuple, TypeVar

from emulator.record.targets import Target, reached, value_of
from emulator.results.leverage import stiff_from

Thing = TypeVar("Thing")
Row = Mapping[str, Any]
MARGIN = 0.5  # of the strength at which SGD diverges: largest importances of two seeds differ by up to this factor


@dataclass(frozen=True)
class ScoreCurve:
    """The validation accuracy of one run over time by one clock: seconds on some links, or rounds."""

    times: tuple[float, ...]  # times of the evaluated rounds
    values: tuple[float, ...]
    reached: float | None  # time at which the target was reached; None: not in this run
    end: float  # end of the observation; inf for a failed run, which never reaches the target
    rounds: tuple[int, ...] = ()  # evaluated rounds, from 0
    lower: bool = False  # True: lower values are better

    def error(self, time: float) -> float:
        """Returns 1 - accuracy of the last evaluation up to this time, or where lower is better the value itself; if
        there is none, that of accuracy 0, or the first value."""
        number = bisect_right(self.times, time)
        if self.lower:
            return self.values[max(0, number - 1)] if self.values else inf
        return 1 - self.values[number - 1] if number else 1.0


def curve(rows: Sequence[Row], target: Target, rounds: int, momentum: float = 0.0) -> ScoreCurve:
    """Returns the curve of a run from its rows, over the run's own seconds.

    `rounds`: how many a whole run has.  A run with fewer that missed the target counts as failed.  So does a run whose
    penalty came within MARGIN of the strength at which SGD with this momentum diverges, as it may under other seeds.
    """
    steep = any(row.get("leverage", {}).get("step", 0.0) > MARGIN * stiff_from(momentum) for row in rows)
    found = None if steep else reached(rows, target)
    told = [row for row in rows if value_of(row, target.metric) is not None]
    whole = found is not None or (len(rows) >= rounds and not steep)
    return ScoreCurve(
        tuple(float(row["time_s"]) for row in told),
        tuple(float(value_of(row, target.metric) or 0.0) for row in told),
        float(found["time_s"]) if found else None,
        float(rows[-1]["time_s"]) if whole and rows else inf,
        tuple(int(row["round"]) for row in told),
        target.lower,
    )


def in_rounds(rows: Sequence[Row], target: Target, rounds: int, momentum: float = 0.0) -> ScoreCurve:
    """Returns the curve of a run from its rows, over rounds instead of seconds; otherwise as `curve`."""
    counted = [{**row, "time_s": row["round"] + 1} for row in rows]
    return curve(counted, target, rounds, momentum)


def retimed(made: ScoreCurve, stamps: Sequence[float]) -> ScoreCurve:
    """Returns the curve that a run has on other links.

    `stamps`: the seconds at which its rounds end there.  The target is reached in the same round as before.
    """
    times = tuple(stamps[number] for number in made.rounds)
    reached = None if made.reached is None else times[made.times.index(made.reached)]
    return replace(made, times=times, reached=reached, end=made.end if made.end == inf else stamps[-1])


class Score(NamedTuple):
    """The score of one configuration by one clock."""

    time: float  # restricted mean time
    error: float  # 1 - mean validation accuracy at equal time; where lower is better, the value itself
    reached: int = 0
    of: int = 0
    lower: bool = False

    @property
    def value(self) -> float:
        """The mean validation accuracy, or another metric, at equal time."""
        return self.error if self.lower else 1 - self.error

    @property
    def rank(self) -> tuple[float, int, float]:
        """The sorting key, with the best first: by time, then by the number of seeds that reached the target, then
        by accuracy."""
        return self.time, -self.reached, self.error


def scores(pool: Mapping[Thing, Sequence[ScoreCurve]]) -> dict[Thing, Score]:
    """Returns the score of each configuration, from the curves of its seeds; all scores have the same horizon."""
    every = [each for curves in pool.values() for each in curves]
    horizon = max((each.end for each in every if each.end < inf), default=0.0)
    watched = min((each.end for each in every), default=0.0)
    return {thing: _score(curves, horizon, watched) for thing, curves in pool.items()}


def _score(curves: Sequence[ScoreCurve], horizon: float, watched: float) -> Score:
    there = [each for each in curves if each.reached is not None]
    times = [horizon if each.reached is None else each.reached for each in curves]
    # A run that ended at the target is known only up to there.
    errors = [each.error(watched) for each in curves]
    lower = any(each.lower for each in curves)
    return Score(fsum(times) / len(times), fsum(errors) / len(errors), len(there), len(curves), lower)


@dataclass(frozen=True)
class Survivors(Generic[Thing]):
    """The configurations that continue, and how many of them continue only because of ties."""

    things: tuple[Thing, ...]
    ties: int = 0  # beyond the better half, with the same score as its last


def better_half(found: Mapping[Thing, Score]) -> Survivors[Thing]:
    """Returns the configurations in the better half (rounded down, at least one), and those that tie with the last
    of that half."""
    order = sorted(found, key=lambda thing: found[thing].rank)
    keep = max(1, len(order) // 2)
    last = found[order[keep - 1]].rank
    things = tuple(thing for thing in order if found[thing].rank <= last)
    return Survivors(things, len(things) - keep)
