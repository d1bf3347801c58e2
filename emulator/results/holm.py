"""Holm's adjustment of p-values for multiple comparisons.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def holm(ps: Mapping[Key, float]) -> dict[Key, float]:
    """Returns the p-values adjusted by Holm's method (1979).  If all differences with an adjusted value below 0.05 are
    called real, one or more of them is false in at most 5 % of cases.

    In rising order, the i-th of m values is multiplied by m - i + 1; the result is at least the one before it and at
    most 1.  This holds for any dependence between the values.
    """
    if not all(0 <= p <= 1 for p in ps.values()):
        raise ValueError("p-values lie between 0 and 1")
    adjusted: dict[Key, float] = {}
    least = 0.0
    for rank, key in enumerate(sorted(ps, key=lambda key: ps[key])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[key]))
        adjusted[key] = least
    return {key: adjusted[key] for key in ps}
