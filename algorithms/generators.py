"""Random generators, seeded quickly: numpy takes longer for that than for all that a device draws in a round.

The same bits as numpy's own: SeedSequence (M. O'Neill's seed_seq_fe, as numpy/random/bit_generator.pyx has it), whose
words then seed a PCG64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from operator import index
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Word = Any  # of 32 bits: an int, or a column of them (seeds,) uint64
POOL, STATE = 4, 8  # words: of what is mixed, and of what seeds a PCG64
MIX_L, MIX_R, LOW = 0xCA01F9DD, 0x4973F715, 2**32 - 1
MANY = 16  # seeds: these go through the arithmetic as one column


class Given(ISeedSequence):
    """Words that are known."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:  # noqa: ARG002
        """The words; a PCG64 asks for 4 of 64 bits."""
        return self.words


def _constants(first: int, factor: int, count: int) -> list[tuple[int, int]]:
    """Of so many words that are hashed one after the other: two for each, a number and that times the factor."""
    powers = [first]
    for _ in range(count):
        powers.append(powers[-1] * factor & LOW)
    return list(pairwise(powers))


HASH_A = _constants(0x43B0D7E5, 0x931E8875, POOL * POOL)
HASH_B = _constants(0x8B51F9DD, 0x58F38DED, STATE)
MIXES = [(*pair, *own) for pair, own in zip(permutations(range(POOL), 2), HASH_A[POOL:], strict=True)]


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
    if len(seeds) < MANY or min(seeds) <= LOW:
        states = [np.array(_state([*_words(seed), *further]), np.uint64) for seed in seeds]
    else:
        column = np.array(seeds, np.uint64)
        states = list(np.stack(_state([column & LOW, column >> 32, *further]), 1))
    return [Generator(PCG64(Given(words))) for words in states]  # type: ignore[arg-type]  # an ISeedSequence will do


def _words(seed: int) -> list[int]:
    return [seed] if seed <= LOW else [seed & LOW, seed >> 32]


def _state(words: Sequence[Word]) -> list[Word]:
    """`SeedSequence.generate_state(4, np.uint64)` of at most POOL words."""
    pool = [_hashed(word, *own) for word, own in zip([*words, *[0] * (POOL - len(words))], HASH_A, strict=False)]
    for source, target, before, factor in MIXES:
        word = (pool[source] ^ before) * factor & LOW  # as _hashed, without its call: a fifth of the whole
        mixed = pool[target] * MIX_L - (word ^ word >> 16) * MIX_R & LOW
        pool[target] = mixed ^ mixed >> 16
    state = [_hashed(word, *own) for word, own in zip(pool * 2, HASH_B, strict=True)]
    return [low | high << 32 for low, high in zip(state[::2], state[1::2], strict=True)]


def _hashed(word: Word, before: int, factor: int) -> Word:
    word = (word ^ before) * factor & LOW
    return word ^ word >> 16
