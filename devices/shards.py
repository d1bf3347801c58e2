"""Which examples each device holds.

A shard is an array of indices, sorted.  All draws come from the generator that is passed in: the same
labels, arguments and generator state give the same shards.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Indices = NDArray[np.int64]

TINY = 1e-6  # least share of a class in a device before fitting: less than one example of a million
SWEEPS = 100_000  # of the fitting; ordinary splits take 10 to 2,000
SMALLEST_PROXY = 64  # examples: fewer make an estimate of importance too noisy to be useful


def iid(labels: NDArray[np.integer], devices: int, rng: Generator) -> list[Indices]:
    """Even shards: floor(n / devices) examples each, drawn blindly from `labels` (n,); the rest is left out.

    Raises ValueError if there are fewer examples than devices.
    """
    size = _shard_size(labels, devices)
    order = rng.permutation(len(labels))
    return [np.sort(order[k * size : (k + 1) * size]) for k in range(devices)]


def dirichlet(labels: NDArray[np.integer], devices: int, alpha: float, rng: Generator) -> list[Indices]:
    """Uneven shards: floor(n / devices) examples each, of uneven `labels` (n,); the rest is left out.

    Each device draws its label shares q_k ~ Dir(alpha*1); the convention is alpha for every class, not
    alpha*p of Hsu et al. 2019.  Rows (devices, equal sizes) and columns (classes, in proportion to their
    examples) are then fitted together, so that no device is left with what the others did not take.
    Raises ValueError for a split that is impossible or not to be fitted.  Source: algorithms.md §7 row 7,
    ecosystem.md "partitions"; fitting: Deming & Stephan 1940.
    """
    size = _shard_size(labels, devices)
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha is {alpha}; a Dirichlet split needs alpha > 0 (0.1 is very uneven, 100 nearly even)")
    kinds, available = np.unique(labels, return_counts=True)
    shares = rng.dirichlet(np.full(len(kinds), alpha), devices)  # (devices, classes)
    if not np.allclose(shares.sum(axis=1), 1):
        raise ValueError(f"alpha is {alpha}; at this size Dir(alpha) cannot be drawn, try 0.001 to 1e6")
    fitted = _fitted(np.maximum(shares, TINY), size, available * (devices * size / len(labels)), alpha)
    counts = _rounded(fitted, size, available)
    pools = [rng.permutation(np.flatnonzero(labels == kind)) for kind in kinds]
    return _dealt(pools, counts)


def _shard_size(labels: NDArray[np.integer], devices: int) -> int:
    if labels.ndim != 1:
        raise ValueError(f"labels have shape {labels.shape}; they must be (n,)")
    if not 1 <= devices <= len(labels):
        raise ValueError(f"devices is {devices} for {len(labels)} examples; it must be 1 to {len(labels)}")
    return len(labels) // devices


def _fitted(shares: NDArray[np.float64], row: int, columns: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Rows of `shares` scaled to sum to `row` and columns to `columns`, each within half an example."""
    for _ in range(SWEEPS):
        shares = shares * (columns / shares.sum(axis=0))
        shares *= row / shares.sum(axis=1, keepdims=True)
        if np.abs(shares.sum(axis=0) - columns).max() <= 0.5:
            return shares
    raise ValueError(
        f"a Dirichlet split at alpha {alpha} over {len(shares)} devices did not fit after {SWEEPS} sweeps;"
        " take a larger alpha, more devices or another seed"
    )


def _rounded(fitted: NDArray[np.float64], row: int, available: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole examples: each row sums to `row`, no column exceeds `available`; largest remainders first."""
    counts = np.floor(fitted).astype(np.int64)
    short = (row - counts.sum(axis=1)).tolist()
    room = (available - counts.sum(axis=0)).tolist()
    remainders = (counts - fitted).ravel()
    for cell in np.argsort(remainders, kind="stable").tolist():
        k, c = divmod(cell, len(room))
        if short[k] and room[c]:
            counts[k, c] += 1
            short[k] -= 1
            room[c] -= 1
    for k in np.flatnonzero(short).tolist():  # the classes it was due ran out: the next it likes best
        for c in np.argsort(-fitted[k], kind="stable").tolist():
            more = min(short[k], room[c])
            counts[k, c] += more
            short[k] -= more
            room[c] -= more
    return counts


def _dealt(pools: list[Indices], counts: NDArray[np.int64]) -> list[Indices]:
    """Deals each class's pool to the devices in turn, `counts` (devices, classes) of it."""
    ends = counts.cumsum(axis=0)
    return [
        np.sort(np.concatenate([pool[e - n : e] for pool, e, n in zip(pools, end, count, strict=True)]))
        for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
    ]


def proxy(n: int, fraction: float, rng: Generator) -> Indices:
    """The server's own examples: round(fraction * n) of `n`, but at least 64; they may lie in shards too.

    Raises ValueError if there are not as many.  Source: algorithms.md §7 row 6.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"the proxy fraction is {fraction}; it must lie in 0 to 1")
    size = max(SMALLEST_PROXY, round(fraction * n))
    if size > n:
        raise ValueError(f"a proxy set needs {size} examples and there are {n}")
    return np.sort(rng.permutation(n)[:size])


def hold_out(indices: Indices, fraction: float, rng: Generator) -> tuple[Indices, Indices]:
    """`indices` cut at random into training and validation, floor(fraction * n) for the latter.

    Raises ValueError unless 0 <= fraction < 1.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"the held-out fraction is {fraction}; it must be 0 or more and less than 1")
    order = rng.permutation(indices)
    held = math.floor(fraction * len(indices))
    return np.sort(order[held:]), np.sort(order[:held])


def test_shard(
    train_labels: NDArray[np.integer], test_labels: NDArray[np.integer], size: int, rng: Generator
) -> Indices:
    """A device's own test set: `size` indices into `test_labels`, labels in proportion to `train_labels`.

    Drawn without replacement; fractions of examples go by largest remainder (Hamilton), ties to the lower
    label.  A class with too few test examples gives all it has, and the device's other labels share the rest
    in proportion.  Raises ValueError if the device's labels have fewer than `size` test examples together.
    """
    kinds, weights = np.unique(train_labels, return_counts=True)
    pools = [np.flatnonzero(test_labels == kind) for kind in kinds]
    available = np.array([len(pool) for pool in pools], dtype=np.int64)
    if not 1 <= size <= available.sum():
        raise ValueError(
            f"the size of a test shard is {size}; it must lie in 1 to {available.sum()},"
            f" the test examples of the device's {len(kinds)} labels"
        )
    counts = _apportioned(size, weights, available)
    drawn = [rng.permutation(pool)[:count] for pool, count in zip(pools, counts, strict=True)]
    return np.sort(np.concatenate(drawn))


def _apportioned(size: int, weights: NDArray[np.int64], available: NDArray[np.int64]) -> NDArray[np.int64]:
    """`size` shared out in proportion to `weights`, never more than `available`; whole numbers, exactly."""
    given = np.zeros_like(available)
    open_ = np.ones(len(weights), dtype=bool)
    while True:
        rest, total = size - given.sum(), weights[open_].sum()
        full = open_ & (rest * weights > available * total)
        if not full.any():
            break
        given[full] = available[full]
        open_ &= ~full
    if rest:
        share, remainder = np.divmod(rest * weights, total)
        given[open_] = share[open_]
        last = np.argsort(np.where(open_, -remainder, total), kind="stable")[: size - given.sum()]
        given[last] += 1
    return given
