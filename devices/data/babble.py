"""Babble: a small text generated from a seed, of communities whose words differ from each other and change over
time."""

from __future__ import annotations

import numpy as np
from numpy.random import PCG64
from numpy.typing import NDArray

from devices.data.dataset import Dataset
from devices.data.token_windows import divided

KINDS = 8  # number of kinds of words; the kind of a word determines which words follow it
WEIGHTS = np.array([18, 3, 3, 8])  # weights of a community's three own words after a kind, and of any word at all
OWN = 3
LIMIT = 1 << 24  # tokens

Numbers = NDArray[np.int64]


def babble(
    seed: int = 0,
    communities: int = 10,
    cycles: int = 5,
    words: int = 64,
    length: int = 10,
    windows: int = 100,
    drift: float = 0.1,
) -> Dataset:
    """Returns a generated data set of next-word prediction: `communities` (the owners) share a grammar and differ in
    their words, which change over `cycles`.

    The grammar is one for all: each word is of one of eight kinds. A community has its own three words after each kind,
    and says the first of them in 18 of 32 cases, the others in 3 each; in the other 8 it says any word. From a cycle to
    the next each word's kind is drawn anew with chance `drift`, and so are each community's three words after each
    kind. So an embedding and LSTM that tell kinds apart are worth sharing, a softmax is worth having alone, and both
    grow old. The best accuracy that is possible is 18/32 + 8/32/`words`: 56.6 % for 64 words.

    A community says `windows` windows of `length` words in each cycle, independently of one another, with a label for
    each position; every tenth window is a test example. Token 0 is the unknown word and never occurs. The same
    arguments give the same text under every version of numpy. Raises ValueError for arguments that are out of their
    range. Source: our own; why it drifts: docs/design/algorithms.md §6.
    """
    _check(seed, communities, cycles, words, length, windows, drift)
    bits = PCG64(seed)
    kinds = _moved(bits, cycles, (words, 1), KINDS, drift)[:, :, 0]  # (cycles, words)
    own = _moved(bits, cycles, (communities * KINDS, OWN), words, drift)
    own = own.reshape(cycles, communities, KINDS, OWN)
    count = communities * cycles * windows
    slots = np.arange(count)
    owner, cycle = slots // (cycles * windows), slots // windows % cycles
    said = np.empty((count, length + 1), np.int64)
    said[:, 0] = _below(bits, words, count)
    for i in range(length):
        choice = _drawn(bits, WEIGHTS, count)
        mine = own[cycle, owner, kinds[cycle, said[:, i]], np.minimum(choice, OWN - 1)]
        said[:, i + 1] = np.where(choice < OWN, mine, _below(bits, words, count))
    said += 1
    names = [f"community {k}" for k in range(communities)]
    return divided("babble", said[:, :-1], said[:, 1:], words + 1, names, owner, cycles, cycle)


def _check(seed: int, communities: int, cycles: int, words: int, length: int, windows: int, drift: float) -> None:
    for name, value, least in (
        ("seed", seed, 0),
        ("communities", communities, 1),
        ("cycles", cycles, 1),
        ("words", words, KINDS),
        ("length", length, 1),
        ("windows", windows, 2),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be {least} or more")
    if not 0 <= drift <= 1:
        raise ValueError(f"drift is {drift}; it must lie in 0 to 1")
    tokens = max(communities * cycles * windows * (length + 1), cycles * words)
    if tokens > LIMIT:
        raise ValueError(f"babble of {tokens} words; at most {LIMIT} are made, so take fewer windows or communities")


def _moved(bits: PCG64, cycles: int, shape: tuple[int, int], limit: int, drift: float) -> Numbers:
    """Returns random numbers below `limit`, (cycles, *shape).  From one cycle to the next each row is drawn again with
    probability `drift`, and otherwise kept."""
    drawn = _below(bits, limit, cycles * shape[0] * shape[1]).reshape(cycles, *shape)
    moves = _below(bits, 1 << 32, cycles * shape[0]).reshape(cycles, shape[0]) < round(drift * (1 << 32))
    for cycle in range(1, cycles):
        stays = ~moves[cycle]
        drawn[cycle, stays] = drawn[cycle - 1, stays]
    return drawn


def _drawn(bits: PCG64, weights: Numbers, count: int) -> Numbers:
    """Returns `count` indices into `weights`, each with a probability in proportion to its weight."""
    ends = np.cumsum(weights)
    return np.searchsorted(ends, _below(bits, int(ends[-1]), count), side="right")


def _below(bits: PCG64, limit: int, count: int) -> Numbers:
    """Returns `count` uniform draws from 0 ... limit - 1, limit <= 2^32."""
    # raw numbers, because numpy promises (NEP 19) to keep them, but not a Generator's draws
    high = bits.random_raw(count) >> np.uint64(32)
    return (high * np.uint64(limit) >> np.uint64(32)).astype(np.int64)
