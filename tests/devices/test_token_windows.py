import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.data import token_windows
from devices.data.dataset import UNLABELLED

STREAMS = st.lists(st.integers(0, 9), max_size=60).map(lambda tokens: np.array(tokens, np.int64))
COUNTS = st.lists(st.tuples(st.integers(0, 3), st.text(max_size=3)), max_size=12, unique_by=lambda pair: pair[1])


@given(STREAMS, st.integers(1, 12))
def test_windows_are_the_stream_and_each_label_is_the_token_after(stream, length):
    x, y = token_windows.windows(stream, length)
    assert x.shape == y.shape == (max(0, len(stream) - 1) // length, length)
    np.testing.assert_array_equal(x.ravel(), stream[: x.size])
    np.testing.assert_array_equal(y.ravel(), stream[1 : x.size + 1])


def test_a_stream_of_seven_has_two_windows_of_three():
    x, y = token_windows.windows(np.array([1, 2, 3, 4, 5, 6, 7]), 3)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert y.tolist() == [[2, 3, 4], [5, 6, 7]]


def test_the_commonest_words_are_numbered_first_and_equals_by_their_names():
    numbers = token_windows.renumbered(np.array([1, 5, 0, 5, 2]), ["e", "d", "c", "b", "a"], most=3, first=2)
    assert numbers.tolist() == [token_windows.UNKNOWN, 3, token_windows.UNKNOWN, 2, 4]


@settings(max_examples=40)
@given(COUNTS, st.integers(1, 12), st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_numbers_do_not_depend_on_the_order_in_which_words_came(words, most, first, chance):
    def numbers(pairs: list) -> dict[str, int]:
        found = token_windows.renumbered(np.array([c for c, _ in pairs], np.int64), [w for _, w in pairs], most, first)
        return dict(zip([w for _, w in pairs], found.tolist(), strict=True))

    shuffled = list(words)
    chance.shuffle(shuffled)
    assert numbers(shuffled) == numbers(words)
    known = sorted(n for n in numbers(words).values() if n != token_windows.UNKNOWN)
    assert known == list(range(first, first + min(most, sum(c > 0 for c, _ in words))))


def test_an_unknown_word_is_no_label():
    assert token_windows.only_known(np.array([[3, token_windows.UNKNOWN, 1]])).tolist() == [[3, UNLABELLED, 1]]


def divided(owner: list[int], cycle: list[int], labels: list[int]) -> token_windows.Dataset:
    """Windows of one position that hold their own place."""
    n = len(owner)
    x, y = np.arange(n).reshape(n, 1), np.array(labels).reshape(n, 1)
    return token_windows.divided("d", x, y, max(n, 2), ["a", "b"], np.array(owner), 2, np.array(cycle))


def test_each_owner_and_cycle_gives_every_tenth_window_or_the_last_to_the_test_set():
    # windows 0-10 of a in cycle 0; 11, 12 of a in cycle 1; 13-15 of b in cycle 0; 16 of b in cycle 1
    data = divided([0] * 13 + [1] * 4, [0] * 11 + [1] * 2 + [0] * 3 + [1], [0] * 17)
    assert data.x_test.ravel().tolist() == [9, 12, 15]
    assert data.owner_test.tolist() == [0, 0, 1]
    assert data.cycle_test.tolist() == [0, 1, 0]
    assert data.x.ravel().tolist() == [*range(9), 10, 11, 13, 14, 16]
    assert data.owner.tolist() == [0] * 11 + [1] * 3
    assert data.cycle.tolist() == [0] * 10 + [1] + [0] * 2 + [1]


@pytest.mark.parametrize("place", [1, 9])
def test_a_window_without_a_label_is_left_out_and_moves_no_other(place):
    labels = [0] * 11
    labels[place] = UNLABELLED
    data = divided([0] * 11, [0] * 11, labels)
    everything = [[*range(9), 10], [9]]
    assert [data.x.ravel().tolist(), data.x_test.ravel().tolist()] == [
        [i for i in part if i != place] for part in everything
    ]
