"""Whom a round asks: devices drawn at random, as in FedAvg (McMahan et al. 2017, Alg. 1).

It stands by itself so that a finished run can be replayed without torch.
"""

from __future__ import annotations

from collections.abc import Sequence

from algorithms.generators import generators


def draw(names: Sequence[str], count: int, seed: int) -> Sequence[str]:
    """`count` of `names` drawn without replacement, in their order; all if there are no more."""
    if count >= len(names):
        return names
    [rng] = generators([seed])
    chosen = rng.choice(len(names), count, replace=False, shuffle=False)
    return [names[k] for k in sorted(chosen.tolist())]
