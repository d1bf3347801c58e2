"""Estimates in how many rounds a run would reach a target that it did not reach, from its progress so far.  Pure.

Training errors fall roughly as a power of the number of rounds, so the estimate follows the straight line fitted
through log(1 - value) over log(rounds), or through log(value) if lower is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp, inf, log
from typing import Any

import numpy as np

from emulator.record.targets import Target, value_of

Rows = Sequence[Mapping[str, Any]]

LEAST = 4  # evaluations that a fit needs
FAR = 5  # times the rounds played: a prediction beyond this is not shown


def best(rows: Rows, target: Target) -> float | None:
    """Returns the best value of the target's metric in a run; None if it was never evaluated."""
    known = (value for row in rows if (value := value_of(row, target.metric)) is not None)
    return (min if target.lower else max)(known, default=None)


def rounds_at_pace(seeds: Sequence[Rows], target: Target) -> int | None:
    """Returns the number of rounds after which the mean over seeds would reach the target, extrapolated from the last
    half of the runs.

    None if there are too few values, if they no longer rise, or if the result exceeds FAR times the rounds played.
    """
    curve = curve_of(seeds, target.metric)
    half = curve[-max(LEAST, (len(curve) + 1) // 2) :]
    late = [(log(rounds), log(error)) for rounds, value in half if (error := _error(value, target)) > 0]
    if len(late) < LEAST or _error(target.value, target) <= 0:
        return None
    rounds, errors = np.array(late).T
    slope, start = np.polyfit(rounds, errors, 1)
    played = curve[-1][0]
    needed = (log(_error(target.value, target)) - start) / slope if slope < 0 else inf
    return max(ceil(exp(needed)), played + 1) if needed <= log(FAR * played) else None


def _error(value: float, target: Target) -> float:
    return value if target.lower else 1 - value


def curve_of(seeds: Sequence[Rows], metric: str) -> list[tuple[int, float]]:
    """Returns (number of rounds played, mean of the metric over seeds) for each round after which every seed was
    evaluated."""
    known = [
        {row["round"] + 1: value for row in rows if (value := value_of(row, metric)) is not None} for rows in seeds
    ]
    shared = sorted(set.intersection(*map(set, known))) if known else []
    return [(rounds, sum(each[rounds] for each in known) / len(known)) for rounds in shared]
