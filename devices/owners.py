"""Natural clients: the examples of owners, such as writers.

A shard is an array of indices, sorted. All draws come from the generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Indices = NDArray[np.int64]

TENTH = 10  # one in TENTH of an owner's examples is a test example


def natural(
    owner: NDArray[np.integer],
    owners: Sequence[str],
    devices: int,
    rng: Generator,
    glob: str = "*",
    least: int = 1,
    taken: Sequence[int] = (),
) -> tuple[Indices, list[Indices]]:
    """Returns `devices` owners (authors of examples, such as writers), drawn at random as indices into `owners`, and a
    shard with all examples of each.  `owner` (n,) is the index of each example's owner.

    Only owners whose name matches `glob` ("census-*"), with at least `least` examples, and who are not in `taken` are
    drawn.  A device's test shard is `owned(owner_test, chosen)`.  Raises ValueError if there are too few such owners.
    """
    able = np.setdiff1d(_able(owner, owners, glob, least), np.asarray(taken, np.int64))
    if not 1 <= devices <= len(able):
        raise ValueError(
            f"devices is {devices} and {len(able)} owners called {glob!r} have {least} or more examples and are free;"
            f" it must be 1 to {len(able)}"
        )
    chosen = rng.permutation(able)[:devices]
    return chosen, owned(owner, chosen)


def _able(owner: NDArray[np.integer], owners: Sequence[str], glob: str, least: int) -> Indices:
    counts = np.bincount(owner, minlength=len(owners))
    named = [k for k, name in enumerate(owners) if fnmatchcase(name, glob) and counts[k] >= max(1, least)]
    return np.array(named, np.int64)


def owned(owner: NDArray[np.integer], chosen: NDArray[np.integer]) -> list[Indices]:
    """Returns the indices of the examples of each of the `chosen` owners, an empty array for an owner without examples;
    `owner` (n,) is the owner of each example."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], chosen, "right")
    return [order[s:e] for s, e in zip(np.searchsorted(owner[order], chosen), ends, strict=True)]


def tenths(owner: NDArray[np.integer]) -> tuple[Indices, Indices]:
    """Returns the indices of the training and of the test examples: each owner's examples are split 9:1, without
    chance.

    In the order of the data, every tenth example of an owner is a test example; of 2 to 9 examples it is the last one,
    and a single example is for training.  Source: docs/design/algorithms.md §12.
    """
    order = np.argsort(owner, kind="stable")
    _, starts, counts = np.unique(owner[order], return_index=True, return_counts=True)
    place = np.arange(len(owner)) - np.repeat(starts, counts)  # position of each example among its owner's
    size = np.repeat(counts, counts)
    held = (place % TENTH == TENTH - 1) | ((size < TENTH) & (size > 1) & (place == size - 1))
    return np.sort(order[~held]), np.sort(order[held])


def population(
    owner: NDArray[np.integer], chosen: NDArray[np.integer], overlap: float, count: int, rng: Generator
) -> Indices:
    """Returns the `count` owners whose examples the server knows, sorted: round(overlap * count) of the `chosen`, and
    others.

    `chosen` are the owners of the devices; the others are drawn at random from all other owners with examples.  The
    server's set is then `among(owner, population, size, rng)`, and the test set is `owned(owner_test, population)`.
    Raises ValueError if there are too few chosen or other owners.  Source: Yao et al. 2019 (FedMeta), section 4.4 and
    Fig. 5; docs/design/algorithms.md §12.
    """
    if not 0 <= overlap <= 1:
        raise ValueError(f"the overlap is {overlap}; it must lie in 0 to 1")
    others = np.setdiff1d(owner, chosen)
    inside = round(overlap * count)
    if count < 1 or inside > len(chosen) or count - inside > len(others):
        raise ValueError(
            f"{count} owners with overlap {overlap} are {inside} of the devices' {len(chosen)} and {count - inside} of"
            f" {len(others)} others; there must be as many"
        )
    picked = (rng.permutation(chosen)[:inside], rng.permutation(others)[: count - inside])
    return np.sort(np.concatenate(picked)).astype(np.int64)


def among(owner: NDArray[np.integer], owners: NDArray[np.integer], size: int, rng: Generator) -> Indices:
    """Returns the indices, sorted, of `size` random examples that belong to any of `owners`.  Raises ValueError if they
    have fewer."""
    theirs = np.flatnonzero(np.isin(owner, owners))
    if not 1 <= size <= len(theirs):
        raise ValueError(f"{size} examples of {len(owners)} owners who have {len(theirs)}; it must be 1 to as many")
    return np.sort(rng.permutation(theirs)[:size])
