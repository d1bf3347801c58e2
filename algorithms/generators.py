"""Random generators, seeded many at a time: numpy takes longer for that than for all that a device draws in a round.

The same bits as numpy's own: SeedSequence (M. O'Neill's seed_seq_fe, as numpy/random/bit_generator.pyx has it), whose
words then seed a PCG64.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, default_rng
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Words = NDArray[np.uint32]  # (words, seeds); whatever overflows is dropped
POOL, STATE = 4, 8  # words: of what is mixed, and of what seeds a PCG64
MIX_L, MIX_R, HALF = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
LOW = 2**32 - 1
FEW = 4  # seeds: numpy is faster


class Given(ISeedSequence):
    """Words that are known."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:  # noqa: ARG002
        """The words; a PCG64 asks for 4 of 64 bits."""
        return self.words


def _constants(first: int, factor: int, count: int) -> tuple[Words, Words]:
    """Of so many words that are hashed one after the other, two for each: numbers (count, 1), and these times the
    factor."""
    powers = [first]
    for _ in range(count):
        powers.append(powers[-1] * factor & LOW)
    column = np.array(powers, np.uint32)[:, None]
    return column[:-1], column[1:]


HASH_A = _constants(0x43B0D7E5, 0x931E8875, POOL * POOL + POOL)
HASH_B = _constants(0x8B51F9DD, 0x58F38DED, STATE)
OTHERS = [[target for target in range(POOL) if target != source] for source in range(POOL)]


def generators(seeds: Sequence[int], *further: int) -> list[Generator]:
    """`numpy.random.default_rng([seed, *further])` for each of the seeds.

    Raises ValueError for seeds that are not from 0 to below 2**64, and for more than two further numbers or some that
    are not from 0 to below 2**32.
    """
    seeds, further = list(map(index, seeds)), tuple(map(index, further))  # ints, whatever they were
    if any(not 0 <= seed < 2**64 for seed in seeds):
        raise ValueError(f"the seeds run from {min(seeds)} to {max(seeds)}; they must be from 0 to below 2**64")
    if len(further) > POOL - 2 or any(not 0 <= number <= LOW for number in further):
        raise ValueError(f"{further} goes with each seed; it must be two numbers at most, from 0 to below 2**32")
    if len(seeds) < FEW:
        return [default_rng([seed, *further] if further else seed) for seed in seeds]
    states = _states(_entropy(seeds, further))
    return [Generator(PCG64(Given(words))) for words in states]  # type: ignore[arg-type]  # an ISeedSequence will do


def spawned(seeds: Sequence[int], key: int) -> list[int]:
    """The first word of `numpy.random.SeedSequence(seed, spawn_key=(key,))` for each of the seeds.

    The seeds are from 0 to below 2**64, and the key from 0 to below 2**32; nobody checks.
    """
    pool = _pool(_entropy(seeds, ()))
    before, factor = (words[POOL * POOL :] for words in HASH_A)
    pool = _mixed(pool, _hashed(np.full((POOL, 1), key, np.uint32), before, factor))
    before, factor = HASH_B
    return list(map(int, _hashed(pool[:1], before[:1], factor[:1])[0]))


def _entropy(seeds: Sequence[int], further: Sequence[int]) -> Words:
    """The words of each seed, one or two, and the further ones, (POOL, seeds); zeros fill up its column."""
    column = np.array(seeds, np.uint64)
    entropy = np.zeros((POOL, len(seeds)), np.uint32)
    entropy[0], entropy[1] = column & LOW, column >> 32
    for place, number in enumerate(further):
        entropy[place + 1 + (column > LOW), np.arange(len(seeds))] = number
    return entropy


def _states(entropy: Words) -> NDArray[np.uint64]:
    """`SeedSequence.generate_state(4, np.uint64)` for each of the columns of POOL words, (seeds, 4)."""
    pool = _pool(entropy)
    state = _hashed(np.concatenate((pool, pool)), *HASH_B)
    return state.T.astype("<u4", order="C").view("<u8")  # the first of two words is the lower half


def _pool(entropy: Words) -> Words:
    """The words (POOL, seeds) of which each depends on all of its column's."""
    before, factor = HASH_A
    pool = _hashed(entropy, before[:POOL], factor[:POOL])
    for source, others in enumerate(OTHERS):  # a word is mixed into each of the others
        own = slice(POOL + source * len(others), POOL + (source + 1) * len(others))
        pool[others] = _mixed(pool[others], _hashed(pool[source], before[own], factor[own]))
    return pool


def _mixed(words: Words, others: Words) -> Words:
    mixed: Words = words * MIX_L - others * MIX_R
    return mixed ^ mixed >> HALF


def _hashed(words: Words, before: Words, factor: Words) -> Words:
    hashed = (words ^ before) * factor
    return hashed ^ hashed >> HALF
