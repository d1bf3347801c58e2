import hashlib
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from devices import splits
from tests.all_of import all_of

SEEDS = st.integers(0, 2**32)
LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(np.array)
ALPHAS = st.sampled_from([0.01, 0.1, 1.0, 10.0, 1000.0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def balanced(n: int, classes: int = 10) -> np.ndarray:
    return np.arange(n) % classes


def table(parts: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """(devices, classes): how many examples of each class a device holds."""
    return np.array([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])


def mean_largest_share(alpha: float, devices: int = 1000, size: int = 60) -> float:
    labels = balanced(devices * size)
    parts = splits.dirichlet(labels, devices, alpha, rng())
    return float(table(parts, labels).max(axis=1).mean() / size)


def assert_partition(parts: list[np.ndarray], n: int, devices: int) -> None:
    assert [len(part) for part in parts] == [n // devices] * devices
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < n
    assert all_of((np.diff(part) > 0).all() for part in parts)


@given(LABELS, st.integers(1, 30), SEEDS)
def test_even_shards_are_equal_and_share_no_example(labels, devices, seed):
    assume(devices <= len(labels))
    assert_partition(splits.iid(labels, devices, rng(seed)), len(labels), devices)


@given(LABELS, st.integers(1, 30), ALPHAS, SEEDS)
def test_dirichlet_shards_are_equal_and_share_no_example(labels, devices, alpha, seed):
    assume(devices <= len(labels))
    assert_partition(splits.dirichlet(labels, devices, alpha, rng(seed)), len(labels), devices)


@given(LABELS, SEEDS, ALPHAS)
def test_the_same_seed_gives_the_same_shards(labels, seed, alpha):
    for once, again in zip(
        splits.dirichlet(labels, 1 + len(labels) // 9, alpha, rng(seed)),
        splits.dirichlet(labels, 1 + len(labels) // 9, alpha, rng(seed)),
        strict=True,
    ):
        np.testing.assert_array_equal(once, again)


def test_another_seed_gives_other_shards():
    labels = balanced(600)
    for split in (splits.iid, lambda *a: splits.dirichlet(a[0], a[1], 1.0, a[2])):
        one, other = split(labels, 6, rng(1)), split(labels, 6, rng(2))
        assert any((a != b).any() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1, 10, 100])
@pytest.mark.parametrize("devices", [1, 2, 10, 100, 1000])
def test_a_split_of_many_labels_always_ends(alpha, devices):
    labels = np.sort(balanced(6000)) ** 2 // 9  # uneven classes, and numbers missing between them
    assert_partition(splits.dirichlet(labels, devices, alpha, rng()), len(labels), devices)


def test_one_device_of_all_receives_everything():
    (all_of_it,) = splits.dirichlet(balanced(50), 1, 0.01, rng())
    np.testing.assert_array_equal(all_of_it, np.arange(50))


def test_where_sizes_divide_evenly_every_example_is_given_out():
    parts = splits.dirichlet(balanced(1000), 20, 0.1, rng())
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


def test_at_alpha_one_the_largest_share_is_that_of_the_law():
    # E max of Dir(1, ..., 1) over C classes is H_C / C; the deviation of its mean over 1,000 devices is
    # 0.003.  Fitting and rounding move a share by a few hundredths of itself.
    law = sum(1 / c for c in range(1, 11)) / 10  # 0.293
    assert mean_largest_share(1.0) == pytest.approx(law, abs=0.015)


def test_a_large_alpha_is_nearly_even_and_a_small_one_nearly_one_class_each():
    # the deviation of a share is sqrt(0.09 / (10 alpha + 1)): 0.0009 at 1e4, less than rounding to 1/60;
    # a tenth is 6 examples, and one above it 7
    assert mean_largest_share(1e4) <= 7 / 60
    # E sum q^2 = (alpha + 1)/(10 alpha + 1) = 0.918 at 0.01, and the largest share is at least that
    assert mean_largest_share(0.01) > 0.9


def test_the_last_device_is_no_more_uneven_than_the_first():
    labels = balanced(60_000)
    largest = table(splits.dirichlet(labels, 1000, 0.5, rng()), labels).max(axis=1) / 60
    # halves of 500: both means deviate by about 0.17/sqrt(500) = 0.008; sequential filling gives 0.1 and more
    assert largest[500:].mean() == pytest.approx(largest[:500].mean(), abs=0.04)


def test_classes_are_given_out_in_proportion_to_their_examples():
    labels = np.repeat([0, 1, 2], [700, 200, 103])
    total = table(splits.dirichlet(labels, 10, 1.0, rng()), labels).sum(axis=0)
    # 1,000 of 1,003 in proportion are 697.9, 199.4, 102.7; fitted within a half, and rounded by one a class
    # at most where remainders do not run out
    np.testing.assert_allclose(total, [697.9, 199.4, 102.7], atol=5)


@pytest.mark.slow
def test_a_thousand_devices_share_sixty_thousand_labels():
    labels = balanced(60_000)
    assert_partition(splits.dirichlet(labels, 1000, 0.01, rng()), 60_000, 1000)


@pytest.mark.parametrize("alpha", [0, -1, math.nan, math.inf])
def test_an_alpha_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match=f"alpha is {alpha}"):
        splits.dirichlet(balanced(100), 4, alpha, rng())


def test_an_alpha_beyond_the_floats_is_refused_and_not_drawn_as_nonsense():
    with pytest.raises(ValueError, match="alpha is 1e\\+308"):
        splits.dirichlet(balanced(100), 4, 1e308, rng())


@pytest.mark.parametrize("devices", [0, -3, 101])
def test_more_devices_than_examples_or_none_are_refused(devices):
    with pytest.raises(ValueError, match=f"devices is {devices} for 100 examples"):
        splits.iid(balanced(100), devices, rng())
    with pytest.raises(ValueError, match=f"devices is {devices} for 100 examples"):
        splits.dirichlet(balanced(100), devices, 1, rng())


def test_labels_of_two_dimensions_are_refused():
    with pytest.raises(ValueError, match="shape"):
        splits.iid(np.zeros((4, 2), np.int64), 2, rng())


def test_a_fit_that_does_not_come_to_rest_is_refused(monkeypatch):
    monkeypatch.setattr(splits, "SWEEPS", 1)
    with pytest.raises(ValueError, match="did not fit after 1 sweeps"):
        splits.dirichlet(balanced(1000), 10, 0.01, rng())


UNEVEN = [
    lambda labels, devices, sigma, of: splits.iid(labels, devices, of, sigma),
    lambda labels, devices, sigma, of: splits.dirichlet(labels, devices, 1.0, of, sigma),
]


@pytest.mark.parametrize("split", UNEVEN, ids=["iid", "dirichlet"])
@pytest.mark.parametrize("sigma", [0.0, 0.5, 3.0, 1e6])
@pytest.mark.parametrize(("n", "devices"), [(600, 7), (60, 59), (7, 7), (50, 1)])
def test_uneven_sizes_share_out_what_even_ones_do_and_leave_nobody_without(split, sigma, n, devices):
    parts = split(balanced(n), devices, sigma, rng())
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together) == n // devices * devices
    assert min(len(part) for part in parts) >= 1
    assert all_of((np.diff(part) > 0).all() for part in parts)
    if not sigma:
        assert {len(part) for part in parts} == {n // devices}


@pytest.mark.parametrize("split", UNEVEN, ids=["iid", "dirichlet"])
def test_the_logarithms_of_uneven_sizes_spread_as_they_should(split):
    """The standard error of the deviation of 400 normal draws is sigma / sqrt(800)."""
    sizes = np.log([len(part) for part in split(balanced(40_000), 400, 0.7, rng())])
    assert sizes.std() == pytest.approx(0.7, abs=3 * 0.7 / math.sqrt(800))


def test_who_is_due_less_than_one_gets_one_and_the_others_share_the_rest():
    """By hand: of 12 by 1 : 60 : 39, the first is due 0.12 and gets 1; 11 by 60 : 39 are 6.67 and 4.33."""
    assert splits._at_least_one(np.array([1.0, 60.0, 39.0]), 12).tolist() == [1, 7, 4]
    assert splits._at_least_one(np.array([1.0, 0.0, 0.0]), 3).tolist() == [1, 1, 1]


def test_the_class_shares_of_uneven_devices_are_those_of_the_law():
    """At alpha = 1 and ten classes a device's largest share is H(10) / 10 = 0.293 in the mean."""
    labels = balanced(60_000)
    held = table(splits.dirichlet(labels, 1000, 1.0, rng(), 0.5), labels)
    assert held.sum(axis=0).tolist() == [6000] * 10
    large = held[held.sum(axis=1) >= 60]
    assert (large.max(axis=1) / large.sum(axis=1)).mean() == pytest.approx(0.293, abs=0.02)


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (lambda: splits.iid(balanced(60), 5, rng(3)), "5c247ce7706b92ce"),
        (lambda: splits.dirichlet(balanced(60), 5, 0.5, rng(3)), "3193c1ff300fb65b"),
    ],
    ids=["iid", "dirichlet"],
)
def test_equal_sizes_draw_what_they_always_drew(split, said):
    """The digests are those of the splits before sizes could differ."""
    assert hashlib.sha256(b"|".join(part.tobytes() for part in split())).hexdigest()[:16] == said


DEALS = [
    (balanced(600), 20, 2),
    (balanced(600), 7, 3),
    (balanced(600), 13, 10),
    (np.repeat([1, 4, 6], [90, 20, 3]), 5, 2),
]


@pytest.mark.parametrize(("labels", "devices", "each"), DEALS)
@pytest.mark.parametrize("sigma", [None, 0.0, 1.0, 1e6])
@pytest.mark.parametrize("seed", [0, 1])
def test_each_device_holds_so_many_classes_and_each_example_is_on_one_device(labels, devices, each, sigma, seed):
    parts = splits.classes(labels, devices, rng(seed), each, sigma)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all_of((np.diff(part) > 0).all() for part in parts)
    held = table(parts, labels)
    assert ((held > 0).sum(axis=1) == each).all()


@pytest.mark.parametrize(("labels", "devices", "each"), DEALS)
def test_the_examples_of_a_class_are_shared_out_evenly(labels, devices, each):
    for held in table(splits.classes(labels, devices, rng(), each), labels).T:
        mine = held[held > 0]
        assert mine.max(initial=0) - mine.min(initial=mine.max(initial=0)) <= 1


def test_where_places_and_classes_divide_evenly_all_devices_hold_equally_many():
    """20 devices with 2 classes each are 40 places, 4 of each of 10 classes, whose 60 examples are 15 for each."""
    held = table(splits.classes(balanced(600), 20, rng(), 2), balanced(600))
    assert set(held[held > 0].tolist()) == {15}
    assert ((held > 0).sum(axis=0) == 4).all()


def test_classes_have_places_in_proportion_to_their_examples():
    """D'Hondt by hand, of 700 : 200 : 100 and 6 places, one each first: 350, 233, 175 are above 100 and 50."""
    assert splits._places(np.array([700, 200, 100]), np.array([9, 9, 9]), 6).tolist() == [4, 1, 1]
    assert splits._places(np.array([700, 200, 100]), np.array([3, 9, 9]), 6).tolist() == [3, 2, 1]


def test_which_classes_meet_is_chance_and_follows_from_the_seed():
    """With 450 devices of 2 classes each out of 10, each of the 45 pairs is expected 10 times, with a deviation of
    about 3.1."""
    labels = balanced(4500)
    parts = splits.classes(labels, 450, rng(), 2)
    counts = np.unique([np.unique(labels[part]) for part in parts], axis=0, return_counts=True)[1]
    assert len(counts) == 45
    assert counts.max() < 10 + 5 * 3.1
    again, other = (splits.classes(labels, 450, rng(seed), 2) for seed in (0, 1))
    assert all_of((a == b).all() for a, b in zip(parts, again, strict=True))
    assert any((a != b).any() for a, b in zip(parts, other, strict=True))


@pytest.mark.parametrize(
    ("labels", "devices", "each", "said"),
    [
        (balanced(100), 20, 11, "each device is to hold 11 of 10 classes; it must be 1 to 10"),
        (balanced(100), 20, 0, "each device is to hold 0 of 10 classes; it must be 1 to 10"),
        (
            balanced(100),
            3,
            2,
            "3 devices with 2 classes each leave some of 10 classes to nobody; each must be 4 at least",
        ),
        (np.array([0] * 9 + [1]), 4, 2, "too few examples to be on 8 places; each must be 1 at most"),
        (balanced(100), 101, 1, "devices is 101 for 100 examples"),
    ],
)
def test_classes_that_cannot_be_dealt_are_refused(labels, devices, each, said):
    with pytest.raises(ValueError, match=said):
        splits.classes(labels, devices, rng(), each)


def test_a_proxy_set_is_a_percentage_but_at_least_64_examples():
    assert len(splits.proxy(60_000, 0.01, rng())) == 600
    assert len(splits.proxy(1437, 0.01, rng())) == 64
    np.testing.assert_array_equal(splits.proxy(100, 1.0, rng()), np.arange(100))


@given(st.integers(64, 500), st.floats(0, 1), SEEDS)
def test_a_proxy_set_holds_different_examples_in_order(n, fraction, seed):
    indices = splits.proxy(n, fraction, rng(seed))
    assert (np.diff(indices) > 0).all()
    assert 0 <= indices[0] <= indices[-1] < n


def test_a_proxy_set_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match="needs 64 examples and there are 63"):
        splits.proxy(63, 0.5, rng())


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_a_fraction_that_is_none_is_refused(fraction):
    with pytest.raises(ValueError, match=f"fraction is {fraction}"):
        splits.proxy(1000, fraction, rng())
    with pytest.raises(ValueError, match=f"fraction is {fraction}"):
        splits.hold_out(np.arange(10), fraction, rng())


@given(st.sets(st.integers(0, 1000), max_size=60), st.floats(0, 1, exclude_max=True), SEEDS)
def test_holding_out_loses_no_example_and_invents_none(members, fraction, seed):
    indices = np.array(sorted(members), dtype=np.int64)
    train, validation = splits.hold_out(indices, fraction, rng(seed))
    assert len(validation) == math.floor(fraction * len(indices))
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation])), indices)


def test_a_test_shard_has_the_labels_of_its_device_by_largest_remainder():
    # 10 of (5, 3, 1)/9: quotas 5.56, 3.33, 1.11; floors 5, 3, 1; the tenth goes to the largest remainder
    train, test = np.repeat([0, 1, 2], [5, 3, 1]), np.repeat([0, 1, 2, 3], 50)
    chosen = splits.test_shard(train, test, 10, rng())
    assert np.bincount(test[chosen], minlength=4).tolist() == [6, 3, 1, 0]


def test_where_a_class_runs_out_the_other_labels_share_the_rest_in_proportion():
    # label 0 is due 12 of 20 and has 4; the 16 left go 3 : 1 to labels 1 and 2
    train, test = np.repeat([0, 1, 2], [12, 6, 2]), np.repeat([0, 1, 2, 3], [4, 50, 50, 50])
    chosen = splits.test_shard(train, test, 20, rng())
    assert np.bincount(test[chosen], minlength=4).tolist() == [4, 12, 4, 0]


@given(LABELS, LABELS, st.integers(1, 120), SEEDS)
def test_a_test_shard_is_of_its_size_without_repetition_and_of_its_labels(train, test, size, seed):
    usable = int(np.isin(test, train).sum())
    if size > usable:
        with pytest.raises(ValueError, match=f"size of a test shard is {size}; it must lie in 1 to {usable}"):
            splits.test_shard(train, test, size, rng(seed))
        return
    chosen = splits.test_shard(train, test, size, rng(seed))
    assert len(np.unique(chosen)) == len(chosen) == size
    assert set(test[chosen]) <= set(train)


@given(LABELS, st.integers(1, 120), SEEDS)
def test_with_plenty_of_test_examples_each_label_is_within_one_of_its_quota(train, size, seed):
    test = np.repeat(np.arange(7), 200)
    chosen = splits.test_shard(train, test, size, rng(seed))
    quota = size * np.bincount(train, minlength=7) / len(train)
    assert (np.abs(np.bincount(test[chosen], minlength=7) - quota) < 1).all()
