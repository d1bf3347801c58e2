"""Messages of one form that are encoded at once: the bytes are those that each has by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from network.wire import payload, rows
from network.wire.payload import DTYPES, Message

shapes = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: st.tuples(st.just(dtype), some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
names = st.sampled_from(["a", "bias", "layer.weight"])
forms = st.dictionaries(names, st.dictionaries(names, shapes, max_size=3), max_size=2)


def drawn(form: dict[str, dict[str, Any]], seed: int) -> Message:
    """A message of this form; every array has its axes in another order in memory than in the message."""
    rng = np.random.default_rng(seed)
    return {
        kind: {
            name: np.asarray((rng.random(shape[::-1]) * 9).astype(dtype)).T for name, (dtype, shape) in named.items()
        }
        for kind, named in form.items()
    }


@settings(max_examples=40, deadline=None, derandomize=True)
@given(forms, st.integers(1, 4))
def test_each_row_is_what_the_message_is_by_itself(form: dict[str, dict[str, Any]], count: int) -> None:
    messages = [drawn(form, seed) for seed in range(count)]
    found = rows.encoded(messages, payload.manifest(messages[0]))
    assert found is not None
    assert [row.tobytes() for row in found] == [payload.encode(message) for message in messages]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (30, 20), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC", "C/"])
def test_the_order_of_an_array_in_memory_is_not_that_of_the_message(
    dtype: str, shape: tuple[int, ...], orders: str
) -> None:
    def array(order: str, seed: int) -> np.ndarray:
        values = (9 * np.random.default_rng(seed).random((2, *shape))).astype(dtype)
        return values[::2][0] if order == "/" else np.asarray(values[0], order=order)  # type: ignore[arg-type]

    messages: list[Message] = [{"w": {"a": array(order, seed)}} for seed, order in enumerate(orders)]
    found = rows.encoded(messages, payload.manifest(messages[0]))
    assert found is not None
    assert [row.tobytes() for row in found] == [payload.encode(message) for message in messages]


ONE = {"weights": {"w": np.array([1.0, 2.0], np.float32), "n": np.array(3, np.int64)}}
FORM = payload.manifest(ONE)


@pytest.mark.parametrize(
    "other",
    [
        {"weights": {**ONE["weights"], "w": np.array([1.0, np.nan], np.float32)}},
        {"weights": {**ONE["weights"], "w": np.array([np.inf, 1.0], np.float32)}},
        {"weights": {**ONE["weights"], "w": np.array([1.0, 2.0], np.float64)}},
        {"weights": {**ONE["weights"], "w": np.array([[1.0, 2.0]], np.float32)}},
        {"weights": {"w": ONE["weights"]["w"]}},
        {**ONE, "more": {}},
    ],
    ids=["nan", "inf", "dtype", "shape", "a tensor less", "a kind more"],
)
def test_one_that_is_not_sound_leaves_them_to_be_looked_at_one_by_one(other: Message) -> None:
    assert rows.encoded([ONE, other], FORM) is None
    assert rows.encoded([other, ONE], FORM) is None


def test_values_whose_sum_is_not_finite_are() -> None:
    large: Message = {"weights": {**ONE["weights"], "w": np.array([3e38, 3e38], np.float32)}}
    assert rows.encoded([large, ONE], FORM) is not None
