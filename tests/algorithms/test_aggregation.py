"""How the server makes one model of many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Reply


def reply(examples: int, **weights: Tensor) -> Reply:
    return Reply({"weights": weights}, examples)


def random_replies(dtype: torch.dtype, count: int = 9) -> dict[str, Reply]:
    draw = torch.Generator().manual_seed(0)
    return {
        f"device-{k}": reply(
            int(torch.randint(1, 90, (), generator=draw)), a=torch.randn(40, 3, generator=draw, dtype=dtype)
        )
        for k in range(count)
    }


def test_each_model_counts_by_its_examples() -> None:
    mean = weighted_mean({"a": reply(1, w=torch.tensor([1.0])), "b": reply(3, w=torch.tensor([5.0]))})
    assert mean["w"].item() == (1 * 1 + 3 * 5) / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_is_numpys_average(dtype: torch.dtype) -> None:
    replies = random_replies(dtype)
    expected = np.average(
        [r.upload["weights"]["a"].double().numpy() for r in replies.values()],
        axis=0,
        weights=[r.examples for r in replies.values()],
    )
    mean = weighted_mean(replies)["a"]
    assert mean.dtype == dtype
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(mean.double().numpy(), expected, rtol=eps, atol=8 * torch.finfo(torch.float64).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_one_model_is_that_model_bit_for_bit(dtype: torch.dtype) -> None:
    value = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=dtype)
    assert torch.equal(weighted_mean({"a": reply(7, w=value)})["w"], value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_equal_models_is_that_model_bit_for_bit(dtype: torch.dtype) -> None:
    value = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=dtype)
    replies = {name: reply(n, w=value.clone()) for name, n in (("a", 3), ("b", 11), ("c", 7))}
    assert torch.equal(weighted_mean(replies)["w"], value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_order_of_arrival_leaves_no_trace(dtype: torch.dtype) -> None:
    replies = random_replies(dtype)
    expected = weighted_mean(replies)["a"]
    names = list(replies)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(names))
        assert torch.equal(weighted_mean({names[k]: replies[names[k]] for k in order})["a"], expected)


def test_sums_are_kept_in_float64() -> None:
    # in float32, 1e8 + 1 is 1e8, and the 1 would be lost
    replies = {name: reply(1, w=torch.tensor([value])) for name, value in (("a", 1e8), ("b", 1.0), ("c", -1e8))}
    assert weighted_mean(replies)["w"].item() == pytest.approx(1 / 3, rel=1e-6)


def test_an_integer_buffer_takes_the_largest_value_and_stays_an_integer() -> None:
    replies = {
        "a": reply(1, w=torch.tensor([1.0]), n=torch.tensor(7)),
        "b": reply(9, w=torch.tensor([2.0]), n=torch.tensor(3)),
    }
    mean = weighted_mean(replies)
    assert mean["n"].item() == 7
    assert mean["n"].dtype == torch.int64


def test_a_reply_of_no_examples_does_not_count() -> None:
    mean = weighted_mean({"a": reply(0, w=torch.tensor([9.0])), "b": reply(2, w=torch.tensor([5.0]))})
    assert mean["w"].item() == 5.0


@pytest.mark.parametrize("replies", [{}, {"a": reply(0, w=torch.tensor([9.0]))}])
def test_a_mean_of_nothing_is_refused(replies: dict[str, Reply]) -> None:
    with pytest.raises(ValueError, match="0 examples"):
        weighted_mean(replies)


def test_the_mean_shares_no_memory_with_the_replies() -> None:
    value = torch.tensor([1.0])
    mean = weighted_mean({"a": reply(1, w=value)})
    mean["w"].zero_()
    assert value.item() == 1.0
