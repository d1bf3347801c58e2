"""Several p-values at once, so that the whole of them errs no more often than one would.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def holm(ps: Mapping[Key, float]) -> dict[Key, float]:
    """Adjusted p-values (Holm 1979): calling all below 0.05 differences, any of them is false in at most 5 % of cases.

    Of m values in rising order the i-th is multiplied by m - i + 1, is at least as large as the one before it, and at
    most 1.  It needs nothing to be known of how the values depend on each other.
    """
    if not all(0 <= p <= 1 for p in ps.values()):
        raise ValueError("p-values lie between 0 and 1")
    adjusted: dict[Key, float] = {}
    least = 0.0
    for rank, key in enumerate(sorted(ps, key=lambda key: ps[key])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[key]))
        adjusted[key] = least
    return {key: adjusted[key] for key in ps}
