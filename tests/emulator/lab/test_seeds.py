"""Seeds derived from names: the same for ever, different for every other list of names."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.lab.seeds import seed

few = settings(max_examples=100, deadline=None, derandomize=True)
names = st.lists(st.one_of(st.text(max_size=5), st.integers(-3, 12)), max_size=4)


def test_a_seed_is_known_by_hand() -> None:
    """SHA-256 over each part's length (4 bytes, big-endian) and its type and value; the first 63 bits."""
    text = b"\0\0\0\x05int:1" + b"\0\0\0\x09str:train" + b"\0\0\0\x0bstr:pi-4-03" + b"\0\0\0\x06int:12"
    assert seed(1, "train", "pi-4-03", 12) == int(hashlib.sha256(text).hexdigest()[:16], 16) // 2


def test_a_number_is_not_its_digits() -> None:
    assert len({seed(1, 1), seed(1, "1"), seed(1, "int:1"), seed(11), seed(1)}) == 5


def test_names_do_not_run_together() -> None:
    assert (
        len({seed(1, "ab", "c"), seed(1, "a", "bc"), seed(1, "abc"), seed(1, "a", "b", "c"), seed(1, "", "abc")}) == 5
    )


def test_the_order_of_names_matters() -> None:
    assert seed(1, "a", "b") != seed(1, "b", "a")


@few
@given(names, names, st.integers(0, 5), st.integers(0, 5))
def test_equal_names_give_equal_seeds_and_others_give_others(
    a: list[str | int], b: list[str | int], root: int, other: int
) -> None:
    same = (root, *a) == (other, *b) and [type(name) for name in a] == [type(name) for name in b]
    assert (seed(root, *a) == seed(other, *b)) is same
    assert 0 <= seed(root, *a) < 2**63
