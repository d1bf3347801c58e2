"""A message that is read by the layout of another one: as parsing reads it, or not at all."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from network.wire import payload
from network.wire.form import unpacked
from network.wire.layout import Layout

shapes = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.dictionaries(
        st.text("xyz.", min_size=1, max_size=3),
        st.tuples(st.sampled_from(["<f4", "u1"]), array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)),
        max_size=3,
    ),
    max_size=2,
)


def message(shapes: Any, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    return payload.encode(
        {
            kind: {name: np.asarray(rng.random(shape) * 99).astype(dtype) for name, (dtype, shape) in arrays.items()}
            for kind, arrays in shapes.items()
        }
    )


def layout(data: bytes) -> Layout:
    return Layout(memoryview(data), unpacked(memoryview(data)))


def values(data: bytes) -> list[bytes]:
    """Of its tensors."""
    return [bytes(entry["data"]) for entry in unpacked(memoryview(data))["weights"].values()]


@given(shapes)
def test_messages_of_one_form_are_read_as_parsing_reads_them(form: Any) -> None:
    one, other = message(form, 1), message(form, 2)
    assert layout(one).tree(memoryview(other)) == unpacked(memoryview(other))


@given(shapes, shapes)
def test_messages_of_another_form_are_not_read(form: Any, another: Any) -> None:
    found = layout(message(form, 1)).tree(memoryview(message(another, 1)))
    assert (found is None) == (form != another)


def test_of_all_bytes_around_the_tensors_none_may_differ() -> None:
    data = message({"weights": {"b": ("<f4", (2,)), "w": ("<f4", (3,))}}, 1)
    lengths = {data.index(value): len(value) for value in values(data)}
    inside = {k for begin, length in lengths.items() for k in range(begin, begin + length)}
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        found = layout(data).tree(memoryview(changed))
        assert (found is not None) == (place in inside)


def test_what_is_read_lies_in_the_message_itself() -> None:
    form = {"weights": {"w": ("<f4", (3,))}}
    data = bytearray(message(form, 2))
    found = layout(message(form, 1)).tree(memoryview(data))
    assert found
    before = bytes(found["weights"]["w"]["data"])
    data[:] = message(form, 3)
    assert bytes(found["weights"]["w"]["data"]) != before


def test_the_message_that_was_parsed_is_not_kept() -> None:
    """It may be a map of a file on a disk that is about to be unmounted."""
    data = np.frombuffer(message({"weights": {"w": ("<f4", (3,))}}, 1), np.uint8).copy()
    gone = weakref.ref(data)
    found = layout(data.data)  # type: ignore[arg-type]
    del data
    assert gone() is None
    assert found.nbytes
