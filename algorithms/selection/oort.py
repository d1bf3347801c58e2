"""Oort (Lai, Zhu, Madhyastha, Chowdhury, OSDI 2021, arXiv 2010.06081): its choice of devices for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from algorithms import option_checks
from algorithms.selection.past import Known, Past, by_weight

LEAST = 0.999  # of the smallest utility is the zero of the scale, so that no device has the weight 0, as in Oort's code
UNCERTAINTY = 0.1  # in the temporal term of Alg. 1


@dataclass(frozen=True)
class Oort:
    """Asks devices with a probability that grows with their utility, and explores others (Alg. 1).

    The utility of a device with n examples is U = n √(mean of loss²) (§4.2), cut at the quantile `clip` of all devices
    (§4.4) and put on a scale from 0 to 1, as the authors' code does; plus √(0.1 ln R / L) in round R for a last reply
    in round L, both from 1; times (T / t)^alpha if its last reply took t > T seconds.  A share ε of the places goes to
    devices that were never asked, drawn uniformly, as their speed is unknown.  The other places go to devices above
    `cutoff` times the utility of the last one that would fit, drawn in proportion to it.  Devices that were asked and
    whose replies never counted come last.  Left out are the pacer, which raises T during a run, the fairness term and
    the blacklist.  Raises ValueError if a field is out of its range.
    """

    loss_power: ClassVar[int] = 2

    alpha: float = 2.0
    """Exponent of the penalty for slow devices; 0 means none."""
    preferred_s: float | None = None
    """Seconds T above which a device is slow. By default the quantile `preferred` of the devices' last seconds."""
    preferred: float = 0.3
    """Share of the devices with a reply that are no slower than T, if `preferred_s` is left out."""
    exploration: float = 0.9
    """Share ε of the places for devices that were never selected, in round 0."""
    exploration_decay: float = 0.98
    """Factor by which ε shrinks each round."""
    exploration_least: float = 0.2
    """Smallest ε."""
    clip: float = 0.95
    """Quantile of all utilities at which they are cut."""
    cutoff: float = 0.95
    """Share of the utility of the last device that would fit, from which on devices may be drawn."""

    def __post_init__(self) -> None:
        shares = ("preferred", "exploration", "exploration_decay", "exploration_least", "clip", "cutoff")
        option_checks.check(self, alpha=(0, 1e3), **dict.fromkeys(shares, (0, 1)))
        if self.preferred_s is not None and not 0 < self.preferred_s < inf:
            raise ValueError(f"preferred_s is {self.preferred_s}; it must be a number above 0")

    def cohort(self, round: int, names: Sequence[str], count: int, past: Known, seed: int) -> Sequence[str]:
        """Returns `count` of the names, in their order; all of them if there are no more."""
        rng = np.random.default_rng(seed)
        known = [name for name in names if past[name].loss is not None]
        new = [name for name in names if not past[name].asked]
        epsilon = max(self.exploration_least, self.exploration * self.exploration_decay**round)
        exploring = min(int(epsilon * count + rng.random()), len(new))  # the fraction of a place by chance
        exploiting = min(count - exploring, len(known))
        chosen = self._exploited(round, [past[name] for name in known], exploiting, rng)
        found = {known[k] for k in chosen} | _some(new, count - exploiting, rng)
        silent = [name for name in names if past[name].asked and past[name].loss is None]
        found |= _some(silent, count - len(found), rng)
        return [name for name in names if name in found]

    def _exploited(self, round: int, pasts: Sequence[Past], count: int, rng: np.random.Generator) -> list[int]:
        if not count:
            return []
        utility = self.utility(round, pasts)
        may = np.flatnonzero(utility >= self.cutoff * np.sort(utility)[-count])
        return [int(may[k]) for k in by_weight(utility[may], count, rng)]

    def utility(self, round: int, pasts: Sequence[Past]) -> NDArray[np.float64]:
        """Returns the utility of each of these devices in this round, (n,); each has a loss."""
        U = np.array([past.examples * (past.loss or 0.0) for past in pasts])
        U = np.minimum(U, np.quantile(U, self.clip))
        least = LEAST * U.min()
        scaled = (U - least) / (U.max() - least) if U.max() > least else np.ones_like(U)
        last, t = np.array([past.round + 1 for past in pasts]), np.array([past.seconds for past in pasts])
        T = np.quantile(t, self.preferred) if self.preferred_s is None else self.preferred_s
        slow = np.divide(T, t, out=np.ones_like(t), where=t > T)
        found: NDArray[np.float64] = (scaled + np.sqrt(UNCERTAINTY * log(round + 1) / last)) * slow**self.alpha
        return found


def _some(names: Sequence[str], count: int, rng: np.random.Generator) -> set[str]:
    return {names[k] for k in rng.choice(len(names), min(count, len(names)), replace=False)} if names else set()
