"""Shared parts of the readers of texts: cutting a stream of tokens into windows, numbering words, and the split by
owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import UNLABELLED, Dataset
from devices.owners import tenths

UNKNOWN = 0  # the token of every word that is not in the vocabulary, and of padding


def windows(stream: NDArray[Any], length: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns `stream` (n,) cut into windows x and their labels y, both ((n - 1) // length, length).

    Windows do not overlap; the label of a token is the next token of the stream.  The remainder at the end is dropped.
    """
    count = max(0, len(stream) - 1) // length
    end = count * length
    return stream[:end].reshape(count, length), stream[1 : end + 1].reshape(count, length)


def renumbered(counts: NDArray[np.integer], names: Sequence[str], most: int, first: int = 1) -> NDArray[np.int64]:
    """Returns the new number of each of the words `names`, (n,): the `most` commonest get first, first + 1, ..., by
    their `counts` (n,), and all others UNKNOWN.

    Words with count 0 also become UNKNOWN. Equally common words are taken in the order of their names, so the numbers
    depend on nothing else.
    """
    ranking = sorted(range(len(names)), key=lambda i: (-int(counts[i]), names[i]))
    chosen = [i for i in ranking[:most] if counts[i]]
    numbers = np.full(len(names), UNKNOWN, np.int64)
    numbers[chosen] = np.arange(first, first + len(chosen))
    return numbers


def only_known(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns `labels` with UNLABELLED in place of UNKNOWN, so that no model is rewarded for predicting that a word is
    rare.

    As a class, "unknown" would be the most common one, and would make up most of the accuracy.  Source: LEAF (Caldas et
    al. 2018) never counts a predicted unknown word as right.
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
    """Returns the data set of these windows, with the windows of each owner and cycle split 9:1, in their order
    (`tenths`).

    Windows without any label are then left out: they would count nowhere, and their mean loss would be undefined.
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
