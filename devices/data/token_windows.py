"""Shared parts of the text data sets: windows of a stream of tokens, numbers of words, and the split by owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import UNLABELLED, Dataset
from devices.splits import tenths

UNKNOWN = 0  # the token of every word that is not in the vocabulary, and of padding


def windows(stream: NDArray[Any], length: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns `stream` (n,) cut into windows x and their labels y, both ((n - 1) // length, length).

    Windows do not overlap; the label of a token is the next one in the stream.  The remainder at the end is dropped.
    """
    count = max(0, len(stream) - 1) // length
    end = count * length
    return stream[:end].reshape(count, length), stream[1 : end + 1].reshape(count, length)


def renumbered(counts: NDArray[np.integer], names: Sequence[str], most: int, first: int = 1) -> NDArray[np.int64]:
    """Returns new numbers (n,) of the words `names`, which come `counts` (n,) times: the `most` commonest get `first`
    ...

    The others become UNKNOWN, as do words that never come. Equally common words are taken in the order of their names,
    so the numbers depend on nothing else.
    """
    ranking = sorted(range(len(names)), key=lambda i: (-int(counts[i]), names[i]))
    chosen = [i for i in ranking[:most] if counts[i]]
    numbers = np.full(len(names), UNKNOWN, np.int64)
    numbers[chosen] = np.arange(first, first + len(chosen))
    return numbers


def only_known(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns `labels` with UNLABELLED for UNKNOWN, because predicting some unknown rare word is useless.

    As a class, "unknown" would be the most common one, and most of the accuracy.  Source: LEAF (Caldas et al. 2018)
    never counts a predicted unknown word as right.
    """
    return np.where(labels == UNKNOWN, UNLABELLED, labels)


def divided(
    name: str,
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    classes: int,
    owners: Sequence[str],
    owner: NDArray[np.int64],
    cycles: int = 1,
    cycle: NDArray[np.int64] | None = None,
) -> Dataset:
    """Returns the data set of windows in their order, with the windows of each owner and cycle split 9:1 (`tenths`).

    Windows without any label are then left out: they count nowhere, and their mean would be undefined.
    """
    when = np.zeros_like(owner) if cycle is None else cycle
    labelled = (y != UNLABELLED).any(axis=1)
    train, test = (part[labelled[part]] for part in tenths(owner * cycles + when))
    return Dataset(
        name,
        x[train],
        y[train],
        x[test],
        y[test],
        classes,
        tuple(owners),
        owner[train],
        owner[test],
        cycles,
        None if cycle is None else cycle[train],
        None if cycle is None else cycle[test],
    )
