import hashlib
from typing import Any

import numpy as np
import pytest

from devices.data.babble import babble
from devices.data.dataset import Dataset


def pairs(data: Dataset, **where: int) -> np.ndarray:
    """For each pair of words, how often the second follows the first in all examples of an owner or cycle, (words + 1,
    words + 1)."""
    table = np.zeros((data.classes, data.classes), np.int64)
    for x, y, of in (
        (data.x, data.y, {"owner": data.owner, "cycle": data.cycle}),
        (data.x_test, data.y_test, {"owner": data.owner_test, "cycle": data.cycle_test}),
    ):
        kept = np.all([of[name] == number for name, number in where.items()], axis=0)
        np.add.at(table, (x[kept].ravel(), y[kept].ravel()), 1)
    return table


def foreseen(table: np.ndarray, truth: np.ndarray) -> float:
    """Share of the pairs of `truth` that are right if each word is followed by its commonest successor of `table`."""
    best = table.argmax(axis=1)
    return float(truth[np.arange(len(best)), best].sum() / truth.sum())


def test_every_community_says_as_many_windows_in_every_cycle_one_of_ten_for_the_test():
    data = babble(communities=3, cycles=2, words=16, length=5, windows=20)
    assert (data.x.shape, data.x_test.shape, data.classes) == ((108, 5), (12, 5), 17)
    assert np.bincount(data.owner * 2 + data.cycle).tolist() == [18] * 6
    assert np.bincount(data.owner_test * 2 + data.cycle_test).tolist() == [2] * 6
    assert data.x.min() >= 1  # the unknown word never comes
    assert (data.owners, data.cycles) == (("community 0", "community 1", "community 2"), 2)


def test_within_a_window_the_label_is_the_next_word():
    data = babble(cycles=2)
    np.testing.assert_array_equal(data.x[:, 1:], data.y[:, :-1])
    np.testing.assert_array_equal(data.x_test[:, 1:], data.y_test[:, :-1])


def test_another_seed_says_something_else():
    assert not np.array_equal(babble(1, cycles=1).x, babble(2, cycles=1).x)


def test_the_text_is_the_same_for_every_user():
    # golden: no law says which text it is, only that it must never change, whatever numpy
    data = babble(7, communities=3, cycles=3, words=20, length=4, windows=10)
    content = np.concatenate([data.x.ravel(), data.y.ravel(), data.x_test.ravel()]).astype(np.uint8).tobytes()
    assert hashlib.sha256(content).hexdigest() == "df2f30ed43f63a4e73b5a19f1e922ffebf31eacc387ae647b8bdeac991c666b0"


@pytest.mark.slow
def test_the_best_that_can_be_foreseen_is_what_the_docstring_says():
    data = babble(communities=1, cycles=1, windows=20_000)
    table = pairs(data)
    assert foreseen(table, table) == pytest.approx(18 / 32 + 8 / 32 / 64, abs=0.01)
    # the first word is any word
    assert np.bincount(data.x[:, 0])[1:] / len(data.x) == pytest.approx(1 / 64, abs=0.004)


@pytest.mark.slow
def test_words_of_a_kind_are_followed_alike_in_every_community():
    data = babble(communities=2, cycles=1, words=24, windows=4000)
    best = [pairs(data, owner=k)[1:].argmax(axis=1) for k in (0, 1)]
    # eight kinds, each with one commonest successor a community: words that agree in one agree in the other
    kinds = set(zip(*(b.tolist() for b in best), strict=True))
    assert len(kinds) <= 8
    assert best[0].tolist() != best[1].tolist()


@pytest.mark.slow
def test_a_community_is_foreseen_from_itself_and_not_from_the_others_or_from_another_cycle():
    data = babble(communities=4, cycles=5, windows=1000, drift=0.1)
    own = pairs(data, owner=0, cycle=0)
    others = sum(pairs(data, owner=k, cycle=0) for k in (1, 2, 3))
    assert foreseen(own, own) > 0.5
    assert foreseen(others, own) < 0.2
    fading = [foreseen(own, pairs(data, owner=0, cycle=t)) for t in range(5)]
    # from a cycle to the next 0.9 of the words keep their kind and 0.9 of what follows a kind stays
    assert 0.3 < fading[1] < 0.5 < fading[0]
    assert fading[4] < fading[1] - 0.1


@pytest.mark.slow
def test_without_drift_nothing_changes_and_with_all_of_it_all_does():
    for drift, low, high in ((0.0, 0.5, 1.0), (1.0, 0.0, 0.2)):
        data = babble(communities=1, cycles=2, windows=2000, drift=drift)
        assert low < foreseen(pairs(data, cycle=0), pairs(data, cycle=1)) < high


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("seed", -1, "0 or more"),
        ("communities", 0, "1 or more"),
        ("cycles", 0, "1 or more"),
        ("words", 7, "8 or more"),
        ("length", 0, "1 or more"),
        ("windows", 1, "2 or more"),
        ("drift", -0.1, "0 to 1"),
        ("drift", 1.5, "0 to 1"),
        ("drift", float("nan"), "0 to 1"),
    ],
)
def test_arguments_out_of_range_are_refused(argument, value, reason):
    changed: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=f"{argument} is {value}; .*{reason}"):
        babble(**changed)


@pytest.mark.parametrize("changed", [{"windows": 10**12}, {"cycles": 10**7, "communities": 1}, {"words": 10**9}])
def test_more_than_fits_is_refused_before_anything_is_made(changed):
    with pytest.raises(ValueError, match="babble of .* words; at most"):
        babble(**changed)
