"""The store knows facts about a message without reading it, and holds the uploads of a stack as one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from emulator.messages.files import Drafts, Files, Memory
from emulator.messages.forms import UploadForm
from emulator.messages.store import Ref, read, stored, stored_together
from network.wire import payload
from network.wire.form import NotFinite, RefusedMessage
from network.wire.payload import DTYPES, Message

GOOD: Message = {"weights": {"w": np.array([1.0, 2.0], np.float32), "n": np.array(3, np.int64)}}
SHAPES = payload.manifest(GOOD)


def test_a_message_that_was_not_compared_has_no_fault() -> None:
    found = stored(Memory(), payload.encoded(GOOD))
    found.check(UploadForm(lambda: SHAPES))
    assert found.sizes == payload.sizes(GOOD)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"weights": {**GOOD["weights"], "w": np.array([1.0, np.nan], np.float32)}}, NotFinite),
        ({"weights": {**GOOD["weights"], "w": np.array([1.0], np.float32)}}, RefusedMessage),
        ({}, RefusedMessage),
    ],
    ids=["not finite", "another shape", "nothing"],
)
def test_what_its_maker_found_wrong_is_raised_wherever_it_is_checked(
    message: Message, fault: type[RefusedMessage]
) -> None:
    found = stored(Memory(), payload.encoded(message), SHAPES)
    with pytest.raises(fault):
        found.check(UploadForm(dict))


# --- a stack's uploads: each is what it is by itself ------------------------------------------------------------------

shapes = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: st.tuples(st.just(dtype), some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
names = st.sampled_from(["a", "bias", "layer.weight"])
NINE = {"w": {"a": ("float32", (9,))}}
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


def each_is_itself(messages: list[Message]) -> None:
    """Bytes, digest and sizes of each upload are those that it has alone."""
    store = Memory()
    found = stored_together(store, messages, UploadForm(lambda: payload.manifest(messages[0])))
    alone = [payload.encode(message) for message in messages]
    assert found is not None
    assert [read(store, each.ref).data for each in found] == alone
    assert [each.ref for each in found] == [Ref.of(data) for data in alone]
    assert [each.sizes for each in found] == [payload.sizes(message) for message in messages]
    assert len({each.ref.whole for each in found}) == 1


@settings(max_examples=40, deadline=None, derandomize=True)
@given(forms, st.integers(2, 4))
def test_each_row_is_what_the_message_is_by_itself(form: dict[str, dict[str, Any]], count: int) -> None:
    each_is_itself([drawn(form, seed) for seed in range(count)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (30, 20), (150, 200), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC", "C/"])
def test_the_order_of_an_array_in_memory_is_not_that_of_the_message(
    dtype: str, shape: tuple[int, ...], orders: str
) -> None:
    def array(order: str, seed: int) -> np.ndarray:
        values = (9 * np.random.default_rng(seed).random((2, *shape))).astype(dtype)
        return values[::2][0] if order == "/" else np.asarray(values[0], order=order)  # type: ignore[call-overload]

    each_is_itself([{"w": {"a": array(order, seed)}} for seed, order in enumerate(orders)])


@pytest.mark.parametrize(
    "other",
    [
        {"weights": {**GOOD["weights"], "w": np.array([1.0, np.nan], np.float32)}},
        {"weights": {**GOOD["weights"], "w": np.array([np.inf, 1.0], np.float32)}},
        {"weights": {**GOOD["weights"], "w": np.array([1.0, 2.0], np.float64)}},
        {"weights": {**GOOD["weights"], "w": np.array([[1.0, 2.0]], np.float32)}},
        {"weights": {"w": GOOD["weights"]["w"]}},
        {**GOOD, "more": {}},
    ],
    ids=["nan", "inf", "dtype", "shape", "a tensor less", "a kind more"],
)
def test_one_that_is_not_sound_leaves_them_to_be_looked_at_one_by_one(other: Message) -> None:
    form = UploadForm(lambda: SHAPES)
    assert stored_together(Memory(), [GOOD, other], form) is None
    assert stored_together(Memory(), [other, GOOD], form) is None


def test_values_whose_sum_is_not_finite_are() -> None:
    each_is_itself([{"weights": {**GOOD["weights"], "w": np.array([3e38, 3e38], np.float32)}}, GOOD])


def test_a_stack_s_file_is_written_once_and_stays_as_long_as_one_row_of_it_is_held(tmp_path: Path) -> None:
    store, drafts = Files([tmp_path]), Drafts([tmp_path])
    done = stored_together(drafts, [drawn(NINE, seed) for seed in range(3)], UploadForm(lambda: NINE))
    assert done is not None
    (draft,) = drafts.made
    store.take(draft)
    refs = [each.ref for each in done]
    del done, drafts, draft
    while refs:
        assert [path.name for path in tmp_path.iterdir()] == [refs[-1].whole.digest]
        assert Ref.of(read(store, refs[-1]).data) == refs[-1]
        refs.pop()
    assert list(tmp_path.iterdir()) == []
