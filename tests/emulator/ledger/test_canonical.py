"""Equal values have equal canonical bytes; values that differ, or only their types, have others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from emulator.ledger.canonical import CHUNK, digest, packed, plain


@dataclass(frozen=True)
class One:
    a: Any = 1


@dataclass(frozen=True)
class Other:
    a: Any = 1


class Colour(Enum):
    RED = 1


APART: list[Any] = [
    *(None, False, True, 0, 1, -1, 2**63, 0.0, -0.0, 1.0, 1.0000000000000002, float("inf"), float("nan")),
    *("", "1", "a", b"", b"1", [], [1], [[1]], [1, 2], [2, 1], {}, {"a": 1}, {"a": 1.0}, {1: "a"}, set(), {1}, {1, 2}),
    *(One(), One(2), One(One()), Other(), Colour.RED, [Colour.RED], "Colour.RED"),
    *(np.array([1]), np.array([1.0]), np.array([[1]]), np.array([1], dtype=np.int32), np.array([], dtype=np.int64)),
]


def bytes_of(value: Any) -> bytes:
    return packed(plain(value))


def test_no_two_different_values_have_the_same_bytes() -> None:
    for one, other in combinations(APART, 2):
        assert bytes_of(one) != bytes_of(other), (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        ((1, 2), [1, 2]),
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy()),
        (np.arange(10)[::2], np.array([0, 2, 4, 6, 8])),
    ],
    ids=["maps", "sets", "tuples", "floats", "integers", "transposed", "sliced"],
)
def test_equal_values_have_the_same_bytes(one: Any, other: Any) -> None:
    assert bytes_of(one) == bytes_of(other)


@pytest.mark.parametrize("make", [object, lambda: len, lambda: One, lambda: 2**64, lambda: 1j, lambda: One(object())])
def test_a_value_without_canonical_bytes_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="has no canonical bytes"):
        plain(make())


def test_bytes_are_those_of_msgpack() -> None:
    """By hand: a map of one, "a" (a1 61), and a 64-bit float (cb) of 1.5, 0x3ff8 followed by zeros."""
    assert packed({"a": 1.5}) == bytes.fromhex("81 a161 cb 3ff8000000000000")


def test_each_byte_of_an_array_that_is_hashed_in_pieces_counts() -> None:
    large = np.zeros(2 * CHUNK + 5, dtype=np.uint8)
    found = {digest(large)}
    for at in (0, CHUNK - 1, CHUNK, 2 * CHUNK + 4):
        other = large.copy()
        other[at] = 1
        found.add(digest(other))
    assert len(found) == 5
