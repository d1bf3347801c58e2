"""Splits that go by label pieces (devices/splits.py) and by natural owners (devices/owners.py)."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices import owners, splits
from tests.all_of import all_of

SEEDS = st.integers(0, 2**32)
LABELS = st.lists(st.integers(0, 6), min_size=48, max_size=120).map(np.array)  # enough for 12 devices with 4 pieces
OWNER = st.lists(st.integers(0, 8), min_size=1, max_size=100).map(np.array)
MNIST = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])  # its class counts
NAMES = tuple(f"{'census' if k % 3 else 'student'}-{k}" for k in range(9))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def assert_apart(parts: list[np.ndarray], size: int) -> None:
    """Asserts that all parts have one size, are sorted, and share no example."""
    assert {len(part) for part in parts} == {size}
    assert all_of((np.diff(part) > 0).all() for part in parts)
    assert len(np.unique(np.concatenate(parts))) == size * len(parts)


@settings(max_examples=50)
@given(LABELS, st.integers(1, 12), st.integers(1, 4), SEEDS)
def test_pieces_are_equal_and_share_no_example(labels, devices, each, seed):
    parts = splits.labelled(labels, devices, rng(seed), each)
    assert_apart(parts, len(labels) // (devices * each) * each)


@given(LABELS, st.integers(2, 12), SEEDS)
def test_devices_with_one_piece_each_hold_the_labels_in_turn(labels, devices, seed):
    parts = sorted((labels[part] for part in splits.labelled(labels, devices, rng(seed), 1)), key=lambda y: y.tolist())
    ends = sorted((y.min(), y.max()) for y in parts)
    # pieces of the sorted labels: one ends where the next begins, or before
    assert all_of(one[1] <= other[0] for one, other in pairwise(ends))


@settings(max_examples=50)
@given(LABELS, st.integers(1, 12), st.integers(1, 4), SEEDS)
def test_homogeneous_pieces_have_one_label_each_and_no_larger_ones_would_do(labels, devices, each, seed):
    parts = splits.labelled(labels, devices, rng(seed), each, homogeneous=True)
    size = len(parts[0]) // each
    assert_apart(parts, size * each)
    for part in parts:
        assert all_of(count % size == 0 for count in Counter(labels[part].tolist()).values())
    assert (np.bincount(labels) // (size + 1)).sum() < devices * each


def test_mcmahans_200_shards_of_mnist_have_300_examples_and_two_to_a_device():
    # McMahan et al. 2017, section 3: 200 shards of size 300, each client 2; "most clients have two digits"
    parts = splits.labelled(MNIST, 100, rng())
    assert_apart(parts, 600)
    labels = [len(np.unique(MNIST[part])) for part in parts]
    assert max(labels) <= 4
    assert np.median(labels) == 2


def test_fedcurvs_blocks_of_mnist_have_306_examples_and_58752_are_used():
    # docs/design/algorithms.md §5: 193 whole blocks of 306, of which 192 are dealt to 96 devices: 58,752 of 60,000
    assert sum(count // 306 for count in np.bincount(MNIST)) == 193
    parts = splits.labelled(MNIST, 96, rng(), homogeneous=True)
    assert_apart(parts, 612)
    assert sum(map(len, parts)) == 58_752
    for part in parts:
        assert sorted(np.bincount(MNIST[part]))[-2:] in ([306, 306], [0, 612])


def test_what_is_left_over_is_not_always_of_the_last_label():
    labels = np.repeat([0, 1], [50, 53])  # 100 are used
    left = {int(100 - labels[np.concatenate(splits.labelled(labels, 10, rng(s), 1))].sum()) for s in range(9)}
    assert len(left) > 1


@pytest.mark.parametrize(("devices", "each"), [(0, 2), (5, 0), (-1, -1), (51, 2)])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_more_pieces_than_examples_or_none_are_refused(devices, each, homogeneous):
    with pytest.raises(ValueError, match=f"{devices} devices with {each} pieces each do not fit 100 examples"):
        splits.labelled(np.arange(100) % 10, devices, rng(), each, homogeneous)


def test_pieces_of_labels_of_two_dimensions_are_refused():
    with pytest.raises(ValueError, match="shape"):
        splits.labelled(np.zeros((4, 2), np.int64), 2, rng())


@given(st.integers(1, 60), st.integers(1, 90), st.data(), SEEDS)
def test_each_device_draws_so_many_different_examples_in_order(n, devices, data, seed):
    each = data.draw(st.integers(1, n))
    parts = splits.draw(n, devices, each, rng(seed))
    assert len(parts) == devices
    for part in parts:
        assert_apart([part], each)
        assert 0 <= part[0] <= part[-1] < n


def test_draws_are_blind_so_every_example_is_as_likely_as_any_other():
    # 4,000 devices draw 5 of 20: each example 1,000 times, deviation sqrt(4000 * 1/4 * 3/4) = 27
    counts = np.bincount(np.concatenate(splits.draw(20, 4000, 5, rng())))
    np.testing.assert_allclose(counts, 1000, atol=5 * 27)


@pytest.mark.parametrize(("devices", "each", "reason"), [(3, 0, "draw 0 of 9"), (3, 10, "draw 10"), (0, 3, "is 0")])
def test_draws_that_cannot_be_made_are_refused(devices, each, reason):
    with pytest.raises(ValueError, match=reason):
        splits.draw(9, devices, each, rng())


@given(OWNER, st.lists(st.integers(0, 10), max_size=12))
def test_owned_are_all_examples_of_an_owner_and_no_others(owner, chosen):
    for k, part in zip(chosen, owners.owned(owner, np.array(chosen, np.int64)), strict=True):
        assert part.tolist() == [i for i, o in enumerate(owner) if o == k]


@given(OWNER, st.integers(1, 9), st.sampled_from(["*", "census-*", "*-[0-3]"]), st.integers(0, 9), SEEDS)
def test_natural_devices_are_different_owners_that_match_and_have_enough(owner, devices, glob, least, seed):
    fits = [
        k
        for k in range(9)
        if {"*": True, "census-*": k % 3 > 0, "*-[0-3]": k < 4}[glob] and sum(owner == k) >= max(1, least)
    ]
    if devices > len(fits):
        with pytest.raises(ValueError, match=f"devices is {devices} and {len(fits)} owners called"):
            owners.natural(owner, NAMES, devices, rng(seed), glob, least)
        return
    chosen, parts = owners.natural(owner, NAMES, devices, rng(seed), glob, least)
    assert len(set(chosen.tolist())) == devices
    assert set(chosen.tolist()) <= set(fits)
    assert [part.tolist() for part in parts] == [np.flatnonzero(owner == k).tolist() for k in chosen]


def test_owners_who_are_taken_are_not_drawn_again():
    owner = np.arange(9)
    first, _ = owners.natural(owner, NAMES, 4, rng(1), "census-*")
    others, _ = owners.natural(owner, NAMES, 5, rng(1), taken=first)
    assert sorted([*first, *others]) == list(range(9))


@given(OWNER)
def test_tenths_are_a_partition_that_holds_out_a_tenth_of_each_owner_and_at_least_one_of_two(owner):
    train, test = owners.tenths(owner)
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(len(owner)))
    for k in range(9):
        n, held = int((owner == k).sum()), int((owner[test] == k).sum())
        assert held == max(n // 10, int(n >= 2))


def test_tenths_of_one_owner_are_each_tenth_example_in_the_order_of_the_data():
    assert owners.tenths(np.zeros(25, np.int64))[1].tolist() == [9, 19]
    assert owners.tenths(np.array([4, 7, 4, 7, 4]))[1].tolist() == [3, 4]


@given(OWNER, st.sets(st.integers(0, 8), min_size=1), st.floats(0, 1), st.integers(1, 9), SEEDS)
def test_a_population_has_its_share_of_the_devices_owners_and_the_rest_are_others(owner, own, overlap, count, seed):
    chosen = np.array(sorted(own & set(owner.tolist())), np.int64)
    others = set(owner.tolist()) - own
    inside = round(overlap * count)
    if inside > len(chosen) or count - inside > len(others):
        with pytest.raises(ValueError, match=f"{count} owners with overlap"):
            owners.population(owner, chosen, overlap, count, rng(seed))
        return
    found = owners.population(owner, chosen, overlap, count, rng(seed)).tolist()
    assert len(set(found)) == count
    assert len(own & set(found)) == inside
    assert set(found) - own <= others


@pytest.mark.parametrize(("overlap", "inside"), [(0, 0), (0.25, 25), (0.5, 50), (0.75, 75), (1, 100)])
def test_fedmetas_fig_5_mixes_a_hundred_writers_at_five_rates(overlap, inside):
    owner = np.repeat(np.arange(300), 10)
    chosen = np.arange(100)
    found = owners.population(owner, chosen, overlap, 100, rng())
    assert (len(found), np.isin(found, chosen).sum()) == (100, inside)
    meta = owners.among(owner, found, 10, rng())
    assert_apart([meta], 10)
    assert np.isin(owner[meta], found).all()


def test_examples_among_owners_are_drawn_from_them_alone_up_to_all_they_have():
    owner = np.array([0, 1, 2, 1, 0, 2, 1])
    np.testing.assert_array_equal(owners.among(owner, np.array([1, 2]), 5, rng()), [1, 2, 3, 5, 6])
    for size in (0, 6):
        with pytest.raises(ValueError, match=f"{size} examples of 2 owners who have 5"):
            owners.among(owner, np.array([1, 2]), size, rng())


@pytest.mark.parametrize("overlap", [-0.1, 1.1, float("nan")])
def test_an_overlap_that_is_none_is_refused(overlap):
    with pytest.raises(ValueError, match="it must lie in 0 to 1"):
        owners.population(np.arange(9), np.arange(4), overlap, 2, rng())
