"""Power-of-Choice (Cho, Wang, Joshi 2020, arXiv 2010.01243), in its form without a further exchange, rpow-d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import numpy as np

from algorithms import option_checks
from algorithms.selection.past import Known, Past, by_weight


@dataclass(frozen=True)
class PowerOfChoice:
    """Draws d candidates with probabilities proportional to their numbers of examples, and asks those m of them whose
    last replies have the largest loss; devices that were never asked come first (rpow-d).

    The loss is the mean over all steps of a device's local training, as in the paper.  Devices that were asked and
    whose replies never counted come last.  Raises ValueError if a field is out of its range.
    """

    loss_power: ClassVar[int] = 1

    candidates: float = 2.0
    """Candidates d, as a multiple of the m devices to select."""

    def __post_init__(self) -> None:
        option_checks.check(self, candidates=(1, 1e6))

    def cohort(self, round: int, names: Sequence[str], count: int, past: Known, seed: int) -> Sequence[str]:  # noqa: ARG002
        """Returns `count` of the names, in their order; all of them if there are no more."""
        d = ceil(self.candidates * count)
        drawn = by_weight([past[name].examples for name in names], d, np.random.default_rng(seed))
        best = sorted(drawn, key=lambda k: _loss(past[names[k]]), reverse=True)
        return [names[k] for k in sorted(best[:count])]


def _loss(past: Past) -> float:
    if not past.asked:
        return inf
    return -inf if past.loss is None else past.loss
