"""The cohort of a round: devices drawn at random, as in FedAvg (McMahan et al. 2017, Alg. 1).

It is a module of its own so that a finished run can be replayed without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# The choice of devices: as `draw` does, by the algorithm's own rule, or by the scenario's `selection`.
CohortRule = Literal["drawn", "own", "chosen"]


def draw(names: Sequence[str], count: int, seed: int) -> Sequence[str]:
    """Returns `count` of `names`, drawn without replacement and in the order of `names`; all names if there are at most
    `count`."""
    return names if count >= len(names) else [names[k] for k in drawn(len(names), count, seed).tolist()]


@lru_cache(maxsize=2**10)  # the algorithms of a comparison, and the replays of a run, make the same draws
def drawn(total: int, count: int, seed: int) -> NDArray[np.int64]:
    """Returns `count` different random integers from 0 to `total` - 1, sorted, (count,). Callers share the array and
    must not change it.

    Raises ValueError if count is more than total.
    """
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False, shuffle=False))
