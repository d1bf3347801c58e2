"""Random generators for many uses at once: to seed one takes longer than all that a device draws in a round.

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
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
SHIFT, LOW = np.uint32(16), 2**32 - 1
POOL, STATE = 4, 8  # words of 32 bits: of what is mixed, and of what seeds a PCG64


class Given(ISeedSequence):
    """Words that are known."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:  # noqa: ARG002
        """The words; a PCG64 asks for 4 of 64 bits."""
        return self.words


class Hash:
    """Hashes one word after the other; the constants go on from word to word."""

    def __init__(self, constant: int, factor: int) -> None:
        self.constant, self.factor = constant, factor

    def __call__(self, word: Words) -> Words:
        word = word ^ np.uint32(self.constant)
        self.constant = self.constant * self.factor & LOW
        word = word * np.uint32(self.constant)
        return word ^ (word >> SHIFT)


def generators(seeds: Sequence[int]) -> list[Generator]:
    """`numpy.random.default_rng(seed)` for each of the seeds, from 0 to below 2**64."""
    states = _states(np.array(seeds, np.uint64))
    return [Generator(PCG64(Given(words))) for words in states]  # type: ignore[arg-type]  # an ISeedSequence will do


def _states(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`SeedSequence(seed).generate_state(4, np.uint64)` of each, (seeds, 4)."""
    low, high = (seeds & np.uint64(LOW)).astype(np.uint32), (seeds >> np.uint64(32)).astype(np.uint32)
    nothing = np.zeros_like(low)
    hashed = Hash(INIT_A, MULT_A)
    pool = [hashed(word) for word in (low, high, nothing, nothing)]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                mixed = pool[target] * MIX_L - hashed(pool[source]) * MIX_R
                pool[target] = mixed ^ (mixed >> SHIFT)
    hashed = Hash(INIT_B, MULT_B)
    state = np.stack([hashed(pool[number % POOL]) for number in range(STATE)], axis=1)
    return state.astype("<u4").view("<u8").astype(np.uint64)
