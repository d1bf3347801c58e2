"""Generators that are seeded together draw what numpy's own draw."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import PCG64, SeedSequence, default_rng

from algorithms.generators import FEW, generators, spawned

EDGES = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1]
WORDS = st.lists(st.integers(0, 2**32 - 1), max_size=2)


@given(st.lists(st.integers(2**32, 2**64 - 1), min_size=FEW, max_size=2 * FEW), WORDS)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_each_of_many_is_the_one_that_numpy_makes_from_its_seed(seeds: list[int], further: list[int]) -> None:
    seeds[0] = 2**64 - 1
    for seed, made in zip(seeds, generators(seeds, *further), strict=True):
        assert made.bit_generator.state == PCG64(SeedSequence([seed, *further])).state


@pytest.mark.parametrize("further", [(), (0,), (3,), (0, 0), (5, 2**32 - 1)])
@pytest.mark.parametrize("times", [1, FEW])  # of few, and of many of which some are small
def test_so_is_each_of_any_size(further: tuple[int, ...], times: int) -> None:
    for seed, made in zip(EDGES * times, generators(EDGES * times, *further), strict=True):
        assert made.bit_generator.state == PCG64(SeedSequence([seed, *further])).state


@pytest.mark.parametrize("seed", EDGES)
def test_it_draws_the_same_numbers(seed: int) -> None:
    [ours], numpys = generators([seed]), default_rng(seed)
    assert (ours.lognormal(0.0, 0.1, 100) == numpys.lognormal(0.0, 0.1, 100)).all()
    assert (ours.integers(0, 1000, 100) == numpys.integers(0, 1000, 100)).all()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=8), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_seed_for_each_of_many_is_the_first_word_that_numpy_spawns(seeds: list[int], key: int) -> None:
    seeds += EDGES
    wanted = [SeedSequence(seed, spawn_key=(key,)).generate_state(1)[0] for seed in seeds]
    assert spawned(seeds, key) == wanted


def test_none_is_none() -> None:
    assert generators([]) == []
    assert spawned([], 3) == []


@pytest.mark.parametrize("count", [1, FEW])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32])
def test_numpys_integers_will_do(kind: type[np.integer[Any]], count: int) -> None:
    seeds = [kind(2**31 - 1 - k) for k in range(count)]
    for seed, made in zip(seeds, generators(seeds, kind(3)), strict=True):
        assert made.bit_generator.state == PCG64(SeedSequence([int(seed), 3])).state


@pytest.mark.parametrize("count", [1, FEW])
@pytest.mark.parametrize(
    ("seed", "further"), [(-1, ()), (2**64, ()), (1, (-1,)), (1, (2**32,)), (2**40, (1, 2, 3)), (1.5, ())]
)
def test_what_is_no_seed_is_refused(seed: int, further: tuple[int, ...], count: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        generators([2**40] * (count - 1) + [seed], *further)
