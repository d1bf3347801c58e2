"""Estimates in how many rounds a run would reach a target that it did not reach, from its progress so far.  Pure.

Training errors fall roughly as a power of the number of rounds, so the estimate follows the straight line fitted
through log(1 - value) over log(rounds).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp, inf, log
from typing import Any

import numpy as np

from emulator.record.targets import Target

Rows = Sequence[Mapping[str, Any]]

LEAST = 4  # evaluations that a fit needs
FAR = 5  # times the rounds played: a prediction beyond this is not shown


def best(rows: Rows, metric: str) -> float | None:
    """Returns the highest value of the metric in a run; None if it was never evaluated."""
    return max((row[metric] for row in rows if row[metric] is not None), default=None)


def rounds_at_pace(seeds: Sequence[Rows], target: Target) -> int | None:
    """Returns the number of rounds after which the mean over seeds would reach the target, extrapolated from the last
    half of the runs.

    None if there are too few values, if they no longer rise, or if the result exceeds FAR times the rounds played.
    """
    curve = curve_of(seeds, target.metric)
    half = curve[-max(LEAST, (len(curve) + 1) // 2) :]
    late = [(log(rounds), log(1 - value)) for rounds, value in half if value < 1]
    if len(late) < LEAST or target.value >= 1:
        return None
    rounds, errors = np.array(late).T
    slope, start = np.polyfit(rounds, errors, 1)
    played = curve[-1][0]
    needed = (log(1 - target.value) - start) / slope if slope < 0 else inf
    return max(ceil(exp(needed)), played + 1) if needed <= log(FAR * played) else None


def curve_of(seeds: Sequence[Rows], metric: str) -> list[tuple[int, float]]:
    """Returns (number of rounds played, mean of the metric over seeds) for each round after which every seed was
    evaluated."""
    known = [{row["round"] + 1: row[metric] for row in rows if row[metric] is not None} for rows in seeds]
    shared = sorted(set.intersection(*map(set, known))) if known else []
    return [(rounds, sum(each[rounds] for each in known) / len(known)) for rounds in shared]
