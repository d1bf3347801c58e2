"""Splits of a data set: the examples that each device holds.

A shard is an array of indices, sorted. All draws come from the generator that is passed in: the same labels, arguments
and generator state give the same shards.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Indices = NDArray[np.int64]

TINY = 1e-6  # smallest share of a class in a device before fitting: less than one example of a million
SWEEPS = 100_000  # at most, in the fitting; ordinary splits take 10 to 2,000
SMALLEST_PROXY = 64  # examples: fewer make an estimate of importance too noisy to be useful


def iid(labels: NDArray[np.integer], devices: int, rng: Generator, sizes_sigma: float | None = None) -> list[Indices]:
    """Returns even shards: floor(n / devices) examples for each device, drawn at random from `labels` (n,); the rest is
    left out.

    With `sizes_sigma` the sizes of the shards vary as in `_sizes`.  Raises ValueError if there are fewer examples than
    devices.
    """
    ends = _sizes(_shard_size(labels, devices), devices, sizes_sigma, rng).cumsum()
    return [np.sort(part) for part in np.split(rng.permutation(len(labels)), ends)[:-1]]


def dirichlet(
    labels: NDArray[np.integer], devices: int, alpha: float, rng: Generator, sizes_sigma: float | None = None
) -> list[Indices]:
    """Returns shards of uneven labels: floor(n / devices) examples for each device, from `labels` (n,); the rest is
    left out.

    Each device draws its label shares q_k ~ Dir(alpha*1); the convention is alpha for every class, not alpha*p of Hsu
    et al. 2019. Rows (devices, equal sizes) and columns (classes, in proportion to their examples) are then fitted
    together, so that no device is left with what the others did not take. With `sizes_sigma` the sizes of the shards
    vary as in `_sizes`. Raises ValueError for a split that is impossible or not to be fitted. Source: the Dirichlet
    convention of docs/design/algorithms.md §9; fitting: Deming & Stephan 1940.
    """
    size = _shard_size(labels, devices)
    if not 0 < alpha < math.inf:
        raise ValueError(f"alpha is {alpha}; a Dirichlet split needs alpha > 0 (0.1 is very uneven, 100 nearly even)")
    kinds, available = np.unique(labels, return_counts=True)
    sizes = _sizes(size, devices, sizes_sigma, rng)
    shares = rng.dirichlet(np.full(len(kinds), alpha), devices)  # (devices, classes)
    if not np.allclose(shares.sum(axis=1), 1):
        raise ValueError(f"alpha is {alpha}; at this size Dir(alpha) cannot be drawn, try 0.001 to 1e6")
    fitted = _fitted(np.maximum(shares, TINY), sizes, available * (devices * size / len(labels)), alpha)
    counts = _rounded(fitted, sizes, available)
    pools = [rng.permutation(np.flatnonzero(labels == kind)) for kind in kinds]
    return _dealt(pools, counts)


def labelled(
    labels: NDArray[np.integer], devices: int, rng: Generator, each: int = 2, homogeneous: bool = False
) -> list[Indices]:
    """Returns shards of few labels: the examples are ordered by `labels` (n,) and cut into pieces, and each device gets
    `each` pieces at random.

    Pieces have floor(n / (each * devices)) examples and may hold the end of one label and the start of the next.  If
    `homogeneous`, each piece is cut within one label and has the largest size that gives enough pieces (306 for MNIST's
    60,000, 96 devices and 2 each: 193 pieces, 192 of them used).  The remaining examples, a random choice, are in no
    shard.  Raises ValueError if there are fewer examples than pieces.  Source: McMahan et al. 2017, section 3;
    `homogeneous`: Shoham et al. 2019 (FedCurv), section 4.
    """
    pieces = each * devices
    if labels.ndim != 1:
        raise ValueError(f"labels have shape {labels.shape}; they must be (n,)")
    if not 1 <= pieces <= len(labels) or each < 1:
        raise ValueError(
            f"{devices} devices with {each} pieces each do not fit {len(labels)} examples;"
            " both must be 1 or more, and their product at most the examples"
        )
    order = rng.permutation(len(labels))
    if homogeneous:
        blocks = _homogeneous(labels, order, pieces)
    else:
        order = order[: len(labels) // pieces * pieces]
        blocks = order[np.argsort(labels[order], kind="stable")].reshape(pieces, -1)
    dealt = rng.permutation(len(blocks))[:pieces].reshape(devices, each)
    return [np.sort(blocks[mine].ravel()) for mine in dealt]


def classes(
    labels: NDArray[np.integer], devices: int, rng: Generator, each: int, sizes_sigma: float | None = None
) -> list[Indices]:
    """Returns the *pathological* split of FedLab and NIID-Bench: each device holds `each` classes, and all examples of
    `labels` (n,) are used.

    Each class is on a number of devices in proportion to its examples; which classes a device holds is drawn at random.
    The examples of a class are shared out evenly among its devices, or, with `sizes_sigma`, in proportion to lognormal
    draws, as in `_sizes`.  So devices hold about equally many examples.  Raises ValueError unless each device can hold
    so many classes, each class is on a device, and there are examples enough.  Source: Li et al. 2022 (NIID-Bench), #C
    = k.
    """
    _shard_size(labels, devices)
    kinds, available = np.unique(labels, return_counts=True)
    if not 1 <= each <= len(kinds):
        raise ValueError(f"each device is to hold {each} of {len(kinds)} classes; it must be 1 to {len(kinds)}")
    if each * devices < len(kinds):
        raise ValueError(
            f"{devices} devices with {each} classes each leave some of {len(kinds)} classes to nobody; each must be "
            f"{-(-len(kinds) // devices)} at least"
        )
    most = np.minimum(available, devices)
    if most.sum() < each * devices:
        raise ValueError(
            f"the classes have too few examples to be on {each * devices} places; each must be {most.sum() // devices} "
            "at most"
        )
    held = _placed(_places(available, most, each * devices), devices, each, rng)  # (devices, classes)
    logs = (sizes_sigma or 0.0) * rng.standard_normal(devices)
    counts = np.zeros_like(held, dtype=np.int64)
    for column, total in enumerate(available.tolist()):
        owners = np.flatnonzero(held[:, column])
        counts[owners, column] = _at_least_one(np.exp(logs[owners] - logs[owners].max()), total)
    pools = [rng.permutation(np.flatnonzero(labels == kind)) for kind in kinds]
    return _dealt(pools, counts)


def _places(available: NDArray[np.int64], most: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Returns the number of devices that hold each class, in proportion to the class's `available` examples: at least 1
    and at most `most` (classes,) for each class, and `total` in all."""
    places = np.ones_like(available)
    for _ in range(total - len(places)):  # a place goes to the class with the most examples per place (D'Hondt)
        due = np.where(places < most, available / (places + 1), 0)
        places[due.argmax()] += 1
    return places


def _placed(places: NDArray[np.int64], devices: int, each: int, rng: Generator) -> NDArray[np.bool_]:
    """Returns an array (devices, classes) that is true for the classes that a device holds, drawn at random: each
    device holds `each` classes, and each class is on `places` (classes,) devices."""
    held, left = np.zeros((devices, len(places)), bool), places.copy()
    for done, number in enumerate(rng.permutation(devices)):
        must = np.flatnonzero(left == devices - done)  # every remaining device needs them
        free = np.flatnonzero((left > 0) & (left < devices - done))
        more = each - len(must)
        drawn = rng.choice(free, more, replace=False, p=left[free] / left[free].sum()) if more else free[:0]
        mine = np.concatenate([must, drawn])
        held[number, mine] = True
        left[mine] -= 1
    return held


def _homogeneous(labels: NDArray[np.integer], order: Indices, pieces: int) -> NDArray[np.int64]:
    """Returns at least `pieces` blocks of indices, (blocks, size), each of one label, with the largest possible size;
    the examples are taken in `order`."""
    counts = np.unique(labels, return_counts=True)[1]
    size = min(len(labels) // pieces, counts.max())
    while (counts // size).sum() < pieces:  # ends: single examples are always enough
        size -= 1
    pools = [order[labels[order] == kind] for kind in np.unique(labels)]
    return np.concatenate([pool[: len(pool) // size * size].reshape(-1, size) for pool in pools])


def draw(n: int, devices: int, each: int, rng: Generator) -> list[Indices]:
    """Returns shards for large fleets: each device draws `each` of `n` examples at random, independently of the others.

    So devices may share examples, and there may be more devices than examples; no device holds an example twice. Raises
    ValueError unless 1 <= each <= n and there is a device.
    """
    if not 1 <= each <= n:
        raise ValueError(f"each device is to draw {each} of {n} examples; it must be 1 to {n}")
    if devices < 1:
        raise ValueError(f"devices is {devices}; it must be 1 or more")
    return [np.sort(rng.choice(n, each, replace=False, shuffle=False)) for _ in range(devices)]


def _shard_size(labels: NDArray[np.integer], devices: int) -> int:
    if labels.ndim != 1:
        raise ValueError(f"labels have shape {labels.shape}; they must be (n,)")
    if not 1 <= devices <= len(labels):
        raise ValueError(f"devices is {devices} for {len(labels)} examples; it must be 1 to {len(labels)}")
    return len(labels) // devices


def _sizes(mean: int, devices: int, sigma: float | None, rng: Generator) -> NDArray[np.int64]:
    """Returns the number of examples of each device, `mean * devices` in all.  Without `sigma` all numbers are equal,
    and nothing is drawn.

    With `sigma` the numbers are in proportion to draws from a lognormal distribution whose logarithms have this
    standard deviation, rounded by largest remainders, and at least 1.
    """
    if sigma is None:
        return np.full(devices, mean, np.int64)
    logs = sigma * rng.standard_normal(devices)
    return _at_least_one(np.exp(logs - logs.max()), mean * devices)  # the largest is 1, so that none overflows


def _at_least_one(weights: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Returns whole numbers of sum `total` in proportion to `weights`; a share below 1 becomes 1.  `total` must be at
    least len(weights)."""
    due, more = np.zeros(len(weights)), np.ones(len(weights), bool)
    while (due < 1).any():
        due[:] = 1
        due[more] = (total - (~more).sum()) * weights[more] / weights[more].sum()
        more &= due >= 1
    whole = np.floor(due).astype(np.int64)
    whole[np.argsort(whole - due, kind="stable")[: total - whole.sum()]] += 1
    return whole


def _fitted(
    shares: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """Returns `shares` (devices, classes) with rows and columns scaled so that rows sum to `rows` and columns to
    `columns`, within half an example.  Raises ValueError if SWEEPS sweeps do not suffice."""
    for _ in range(SWEEPS):
        shares = shares * (columns / shares.sum(axis=0))
        shares *= rows[:, None] / shares.sum(axis=1, keepdims=True)
        if np.abs(shares.sum(axis=0) - columns).max() <= 0.5:
            return shares
    raise ValueError(
        f"a Dirichlet split at alpha {alpha} over {len(shares)} devices did not fit after {SWEEPS} sweeps;"
        " take a larger alpha, more devices or another seed"
    )


def _rounded(fitted: NDArray[np.float64], rows: NDArray[np.int64], available: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns `fitted` (devices, classes) rounded to whole examples, the largest remainders up: each row sums to its
    number in `rows`, and no column to more than its number in `available`."""
    counts = np.floor(fitted).astype(np.int64)
    short = (rows - counts.sum(axis=1)).tolist()
    room = (available - counts.sum(axis=0)).tolist()
    remainders = (counts - fitted).ravel()
    for cell in np.argsort(remainders, kind="stable").tolist():
        k, c = divmod(cell, len(room))
        if short[k] and room[c]:
            counts[k, c] += 1
            short[k] -= 1
            room[c] -= 1
    for k in np.flatnonzero(short).tolist():  # the classes due to this device ran out: take its next best
        for c in np.argsort(-fitted[k], kind="stable").tolist():
            more = min(short[k], room[c])
            counts[k, c] += more
            short[k] -= more
            room[c] -= more
    return counts


def _dealt(pools: list[Indices], counts: NDArray[np.int64]) -> list[Indices]:
    """Returns one shard for each device: `counts` (devices, classes) examples of each class, taken from that class's
    pool of indices in turn."""
    ends = counts.cumsum(axis=0)
    return [
        np.sort(np.concatenate([pool[e - n : e] for pool, e, n in zip(pools, end, count, strict=True)]))
        for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
    ]


def proxy(n: int, fraction: float, rng: Generator) -> Indices:
    """Returns the indices, sorted, of examples that the server holds: round(fraction * n) of `n`, drawn at random, but
    at least 64.  Devices may hold the same examples.

    Raises ValueError if `n` is too small.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"the proxy fraction is {fraction}; it must lie in 0 to 1")
    size = max(SMALLEST_PROXY, round(fraction * n))
    if size > n:
        raise ValueError(f"a proxy set needs {size} examples and there are {n}")
    return np.sort(rng.permutation(n)[:size])


def hold_out(indices: Indices, fraction: float, rng: Generator) -> tuple[Indices, Indices]:
    """Returns `indices` cut at random into two sorted parts, for training and for validation, which gets floor(fraction
    * n).

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
    """Returns a device's own test set: `size` indices into `test_labels`, with labels in the proportions of
    `train_labels`.

    The examples are drawn without replacement; fractions of examples go by largest remainder (Hamilton), ties to the
    lower label.  A class with too few test examples gives all it has, and the device's other labels share the rest in
    proportion.  Raises ValueError if the device's labels have fewer than `size` test examples together.
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
    """Returns whole numbers of sum `size`, in proportion to `weights` but none above its number in `available`;
    computed in integers, without rounding errors."""
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
