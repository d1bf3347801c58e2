"""The server's aggregation of many models to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aggregation import BLOCK, importance_weighted_mean, plain_mean, weighted_mean
from algorithms.algorithm import Reply
from emulator.messages.codec import encode, unread
from network.wire import payload
from tests.all_of import all_of

FINITE: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}


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


@pytest.mark.parametrize("size", [BLOCK + 1, 3 * BLOCK - 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_blocks_change_no_bit_of_the_mean(size: int, dtype: torch.dtype) -> None:
    """This holds for whole uploads and for uploads that are read in parts.  The expected mean takes each tensor as a
    whole."""
    draw = torch.Generator().manual_seed(0)
    values = [(100 * torch.randn(size, generator=draw, dtype=torch.float64)).to(dtype).reshape(1, -1) for _ in range(3)]
    examples, mean, total = [7, 1, 23], torch.zeros(1, size, dtype=torch.float64), 0
    for value, n in zip(values, examples, strict=True):
        total += n
        mean = mean.lerp(value.double(), n / total)
    expected = torch.stack(values).amax(dim=0) if dtype is torch.int64 else mean.to(dtype)
    whole = {str(k): reply(n, w=value) for k, (value, n) in enumerate(zip(values, examples, strict=True))}
    assert torch.equal(weighted_mean(whole)["w"], expected)
    for buffer in (bytes, bytearray):  # what may not be written to is copied for torch
        views = {k: payload.trusted(buffer(encode(each.upload).data)) for k, each in whole.items()}
        parts = {k: replace(each, upload=unread(views[k], {})) for k, each in whole.items()}
        assert hasattr(parts["0"].upload["weights"], "in_place")
        assert torch.equal(weighted_mean(parts)["w"], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_order_of_arrival_leaves_no_trace(dtype: torch.dtype) -> None:
    replies = random_replies(dtype)
    expected = weighted_mean(replies)["a"]
    names = list(replies)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(names))
        assert torch.equal(weighted_mean({names[k]: replies[names[k]] for k in order})["a"], expected)


FLOATS = {torch.float32: st.floats(width=32, **FINITE), torch.float64: st.floats(**FINITE)}
EXAMPLES = st.lists(st.integers(1, 10**6), min_size=1, max_size=9)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=40)
@given(data=st.data(), examples=EXAMPLES)
def test_any_number_of_equal_models_are_that_model_bit_for_bit(
    dtype: torch.dtype, data: st.DataObject, examples: list[int]
) -> None:
    value = torch.tensor(data.draw(st.lists(FLOATS[dtype], min_size=1, max_size=5)), dtype=dtype)
    mean = weighted_mean({str(k): reply(n, w=value.clone()) for k, n in enumerate(examples)})["w"]
    assert mean.dtype == dtype
    assert torch.equal(mean, value)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=40)
@given(examples=EXAMPLES, seed=st.integers(0, 10**6), random=st.randoms(use_true_random=False))
def test_no_order_of_arrival_leaves_a_trace(dtype: torch.dtype, examples: list[int], seed: int, random: Random) -> None:
    draw = torch.Generator().manual_seed(seed)
    replies = {str(k): reply(n, w=torch.randn(7, generator=draw, dtype=dtype)) for k, n in enumerate(examples)}
    shuffled = random.sample(list(replies), len(replies))
    again = weighted_mean({name: replies[name] for name in shuffled})["w"]
    assert torch.equal(again, weighted_mean(replies)["w"])


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


# ---- each device counted once


def test_a_plain_mean_counts_every_device_once() -> None:
    uploads = {
        "a": Reply({"fisher": {"w": torch.tensor([1.0])}}, 1),
        "b": Reply({"fisher": {"w": torch.tensor([5.0])}}, 9),
    }
    assert plain_mean(uploads, "fisher")["w"].item() == 3.0


# ---- counted by importance (docs/design/algorithms.md §13, importance from agents)


COORDINATES = 6
VALUES = st.floats(-1e3, 1e3, allow_nan=False)
IMPORTANCES = st.one_of(st.just(0.0), st.floats(1e-12, 1e3))


@st.composite
def important(draw: st.DrawFn, least: float | None = None) -> dict[str, Reply]:
    """Up to five devices with two layers each, in float64; `least`: no importance is below it."""
    fisher = IMPORTANCES if least is None else st.floats(least, 1e3)
    replies = {}
    for name in "abcde"[: draw(st.integers(1, 5))]:
        kinds: dict[str, dict[str, Tensor]] = {"weights": {}, "fisher": {}}
        for layer in ("w", "v"):
            for kind, of in (("weights", VALUES), ("fisher", fisher)):
                drawn = draw(st.lists(of, min_size=COORDINATES, max_size=COORDINATES))
                kinds[kind][layer] = torch.tensor(drawn, dtype=torch.float64)
        replies[name] = Reply(kinds, draw(st.integers(1, 50)))
    return replies


def changed(replies: dict[str, Reply], kind: str, change: Callable[[str, str, Tensor], Tensor]) -> dict[str, Reply]:
    return {
        device: replace(
            reply,
            upload=reply.upload
            | {kind: {name: change(device, name, value) for name, value in reply.upload[kind].items()}},
        )
        for device, reply in replies.items()
    }


@pytest.mark.slow
@given(important())
def test_identical_models_stay_that_model_whatever_the_importance(replies: dict[str, Reply]) -> None:
    one = replies["a"].upload["weights"]
    mean = importance_weighted_mean(changed(replies, "weights", lambda _, name, __: one[name]), "fisher")
    assert all_of(torch.equal(mean[name], one[name]) for name in one)


@pytest.mark.slow
@given(important(least=1e-6))
def test_equal_importance_is_the_plain_mean_over_devices(replies: dict[str, Reply]) -> None:
    """Whatever it is, as long as it is above 0: then examples count."""
    fisher = replies["a"].upload["fisher"]
    equal = changed(replies, "fisher", lambda _, name, __: fisher[name])
    mean, plain = importance_weighted_mean(equal, "fisher"), plain_mean(replies, "weights")
    for name, value in plain.items():
        torch.testing.assert_close(mean[name], value, rtol=1e-14, atol=1e-11)


@pytest.mark.slow
@given(important(), st.sampled_from("ab"), st.sampled_from("wv"), st.integers(-30, 30))
def test_the_scale_of_a_device_s_importance_in_a_layer_does_not_matter(
    replies: dict[str, Reply], device: str, layer: str, power: int
) -> None:
    # powers of 2 change no digit, so not even the last bit may differ
    scaled = changed(replies, "fisher", lambda d, n, value: value * (2.0**power if (d, n) == (device, layer) else 1.0))
    mean, again = importance_weighted_mean(replies, "fisher"), importance_weighted_mean(scaled, "fisher")
    assert all_of(torch.equal(mean[name], again[name]) for name in mean)


@pytest.mark.slow
@given(important(least=1e-6), st.lists(st.integers(-6, 6), min_size=10, max_size=10))
def test_nor_does_a_scale_of_tens_of_each_device_s_layers(replies: dict[str, Reply], powers: list[int]) -> None:
    tens = {(d, n): 10.0**power for (d, n), power in zip(product("abcde", "wv"), powers, strict=True)}
    scaled = changed(replies, "fisher", lambda d, n, value: value * tens[d, n])
    mean, again = importance_weighted_mean(replies, "fisher"), importance_weighted_mean(scaled, "fisher")
    for name, value in mean.items():
        torch.testing.assert_close(again[name], value, rtol=1e-11, atol=1e-9)


@pytest.mark.slow
@given(important())
def test_every_coordinate_lies_between_those_of_the_devices(replies: dict[str, Reply]) -> None:
    mean = importance_weighted_mean(replies, "fisher")
    for name, value in mean.items():
        all_of_them = torch.stack([reply.upload["weights"][name] for reply in replies.values()])
        slack = 1e-13 * all_of_them.abs().amax(0)
        assert ((value >= all_of_them.amin(0) - slack) & (value <= all_of_them.amax(0) + slack)).all()


@pytest.mark.slow
@given(important(), st.integers(0, COORDINATES - 1))
def test_a_coordinate_that_matters_to_one_device_alone_takes_its_value(replies: dict[str, Reply], at: int) -> None:
    def alone(device: str, _: str, value: Tensor) -> Tensor:
        value = value.clone()
        value[at] = 1.0 if device == "a" else 0.0
        return value

    mean = importance_weighted_mean(changed(replies, "fisher", alone), "fisher")
    for name, value in replies["a"].upload["weights"].items():
        assert torch.equal(mean[name][at], value[at])


@pytest.mark.slow
@given(important())
def test_what_matters_to_no_device_is_counted_by_examples(replies: dict[str, Reply]) -> None:
    dead = changed(replies, "fisher", lambda _, __, value: torch.cat([torch.zeros(3), value[3:]]))
    mean, by_examples = importance_weighted_mean(dead, "fisher"), weighted_mean(replies)
    assert all_of(torch.equal(mean[name][:3], value[:3]) for name, value in by_examples.items())


@pytest.mark.slow
@given(important(), st.randoms(use_true_random=False))
def test_arrival_leaves_no_trace_in_a_mean_by_importance(replies: dict[str, Reply], random: Random) -> None:
    names = list(replies)
    random.shuffle(names)
    mean = importance_weighted_mean(replies, "fisher")
    again = importance_weighted_mean({name: replies[name] for name in names}, "fisher")
    assert all_of(torch.equal(mean[name], again[name]) for name in mean)


def test_negative_importance_counts_as_none() -> None:
    replies = {
        "a": Reply({"weights": {"w": torch.tensor([1.0, 2.0])}, "fisher": {"w": torch.tensor([-0.5, 1.0])}}, 1),
        "b": Reply({"weights": {"w": torch.tensor([3.0, 4.0])}, "fisher": {"w": torch.tensor([0.1, 0.9])}}, 1),
    }
    mean = importance_weighted_mean(replies, "fisher")["w"]
    assert mean[0].item() == 3.0  # not beyond it, to where a negative share would push
    assert mean[1].item() == pytest.approx((1.0 * 2 + 0.9 * 4) / 1.9)  # layer sums 1 and 1


def test_each_layer_is_normalised_before_the_devices_are() -> None:
    # F̄ of a: 1/4, 3/4; of b: 20/40, 20/40; so the shares are 1/3, 2/3 in the first and 3/5, 2/5 in the second
    replies = {
        "a": Reply({"weights": {"w": torch.tensor([3.0, 5.0])}, "fisher": {"w": torch.tensor([1.0, 3.0])}}, 1),
        "b": Reply({"weights": {"w": torch.tensor([6.0, 10.0])}, "fisher": {"w": torch.tensor([20.0, 20.0])}}, 7),
    }
    mean = importance_weighted_mean(replies, "fisher")["w"]
    assert mean.tolist() == pytest.approx([3 / 3 + 6 * 2 / 3, 5 * 3 / 5 + 10 * 2 / 5])


def test_buffers_are_counted_by_examples() -> None:
    weights = [{"w": torch.tensor([float(k)]), "b": torch.tensor([float(k)]), "n": torch.tensor(k)} for k in (1, 5)]
    fisher = {"w": torch.tensor([1.0])}
    replies = {
        str(k): Reply({"weights": w, "fisher": fisher}, n) for k, (w, n) in enumerate(zip(weights, (1, 3), strict=True))
    }
    mean = importance_weighted_mean(replies, "fisher")
    assert (mean["w"].item(), mean["b"].item(), mean["n"].item()) == (3.0, 4.0, 5)


def test_a_mean_by_importance_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 examples"):
        importance_weighted_mean({}, "fisher")
