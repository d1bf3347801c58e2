"""Generators that are seeded together draw what numpy's own draw."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import PCG64, SeedSequence, default_rng

from algorithms.generators import FEW, generators

EDGES = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=FEW, max_size=20), st.lists(st.integers(0, 2**32 - 1), max_size=2))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_each_is_the_one_that_numpy_makes_from_its_seed(seeds: list[int], further: list[int]) -> None:
    seeds += EDGES
    for seed, made in zip(seeds, generators(seeds, *further), strict=True):
        assert made.bit_generator.state == PCG64(SeedSequence([seed, *further])).state


@pytest.mark.parametrize("further", [(), (0,), (3,), (0, 0), (5, 2**32 - 1)])
def test_a_few_are_numpys_too(further: tuple[int, ...]) -> None:
    for seed, made in zip(EDGES, generators(EDGES, *further), strict=True):
        assert made.bit_generator.state == PCG64(SeedSequence([seed, *further])).state


@pytest.mark.parametrize("seed", EDGES)
def test_it_draws_the_same_numbers(seed: int) -> None:
    ours, numpys = generators([seed] * FEW)[0], default_rng(seed)
    assert (ours.lognormal(0.0, 0.1, 100) == numpys.lognormal(0.0, 0.1, 100)).all()
    assert (ours.integers(0, 1000, 100) == numpys.integers(0, 1000, 100)).all()


def test_none_is_none() -> None:
    assert generators([]) == []
