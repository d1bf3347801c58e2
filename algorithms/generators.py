"""Random generators for many devices at once: to seed one takes longer than all that a device draws in a round.

The same bits as numpy's own: SeedSequence (M. O'Neill's seed_seq_fe, as numpy/random/bit_generator.pyx has it) for a
column of seeds, whose words then seed each PCG64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Words = NDArray[np.uint32]
MIX_L, MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
SHIFT, LOW = np.uint32(16), 2**32 - 1
POOL, STATE = 4, 8  # words of 32 bits: of what is mixed, and of what seeds a PCG64
FEW = 10  # seeds: for fewer numpy is as quick


class Given(ISeedSequence):
    """Words that are known."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:  # noqa: ARG002
        """The words; a PCG64 asks for 4 of 64 bits."""
        return self.words


def _constants(first: int, factor: int, count: int) -> Words:
    """Of so many words that are hashed one after the other: (count + 1, 1), each the one before times the factor."""
    powers = [first]
    for _ in range(count):
        powers.append(powers[-1] * factor & LOW)
    return np.array(powers, np.uint32)[:, None]


HASH_A = _constants(0x43B0D7E5, 0x931E8875, POOL * POOL)
HASH_B = _constants(0x8B51F9DD, 0x58F38DED, STATE)


def _hashed(words: Words, constants: Words) -> Words:
    """(count, seeds), with (count + 1, 1)."""
    words = (words ^ constants[:-1]) * constants[1:]
    return words ^ (words >> SHIFT)


def generators(seeds: Sequence[int], *further: int) -> list[Generator]:
    """`numpy.random.default_rng([seed, *further])` for each of the seeds, from 0 to below 2**64; of at most two further
    numbers, below 2**32."""
    if len(seeds) < FEW:
        return [np.random.default_rng([seed, *further]) for seed in seeds]
    states = _states(_words(np.array(seeds, np.uint64), further))
    return [Generator(PCG64(Given(words))) for words in states]  # type: ignore[arg-type]  # an ISeedSequence will do


def _words(seeds: NDArray[np.uint64], further: Sequence[int]) -> Words:
    """What SeedSequence makes of these numbers, one after the other, (POOL, seeds): a seed is one word, or two."""
    words = np.zeros((POOL, len(seeds)), np.uint32)
    words[0], words[1] = seeds & np.uint64(LOW), seeds >> np.uint64(32)
    two = words[1] > 0
    for place, number in enumerate(further, 1):
        words[place] = np.where(two, words[place], number)
        words[place + 1] = np.where(two, number, words[place + 1])
    return words


def _states(words: Words) -> NDArray[np.uint64]:
    """What `SeedSequence.generate_state(4, np.uint64)` makes of them, (seeds, 4)."""
    pool, used = _hashed(words, HASH_A[: POOL + 1]), POOL
    for source in range(POOL):
        others = [target for target in range(POOL) if target != source]
        mixed = pool[others] * MIX_L - _hashed(pool[source], HASH_A[used : used + POOL]) * MIX_R
        pool[others] = mixed ^ (mixed >> SHIFT)
        used += POOL - 1
    state = _hashed(pool[np.arange(STATE) % POOL], HASH_B)
    return np.ascontiguousarray(state.T, "<u4").view("<u8").astype(np.uint64)
