"""Choices of devices by what the server knows of them, against values worked out by hand from the papers' formulas."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from algorithms.selection.oort import Oort
from algorithms.selection.past import Past, Pasts, by_weight
from algorithms.selection.power_of_choice import PowerOfChoice
from tests.all_of import all_of

ALL = 1e6  # candidates: every device


def past(loss: float | None, asked: int = 1, examples: int = 100, **more: Any) -> Past:
    return Past(examples, asked, loss=loss, **more)


# ---- Power-of-Choice


def test_devices_that_were_never_asked_come_first_then_the_largest_losses() -> None:
    known = {"a": past(0.5), "b": past(2.0), "c": past(None, asked=0), "d": past(None), "e": past(1.0)}
    rule = PowerOfChoice(candidates=ALL)
    assert rule.cohort(0, list(known), 1, known, 7) == ["c"]
    assert rule.cohort(0, list(known), 2, known, 7) == ["b", "c"]
    assert rule.cohort(0, list(known), 4, known, 7) == ["a", "b", "c", "e"]  # d was asked, and never answered
    assert rule.cohort(0, list(known), 9, known, 7) == ["a", "b", "c", "d", "e"]


def test_candidates_are_drawn_in_proportion_to_their_examples() -> None:
    """One candidate for one place: nothing is left to choose.  Sizes 1 : 1 : 2."""
    known = {"a": past(9.0, examples=1), "b": past(1.0, examples=1), "c": past(0.1, examples=2)}
    rule = PowerOfChoice(candidates=1)
    drawn = Counter(rule.cohort(0, list(known), 1, known, seed)[0] for seed in range(3000))
    for name, share in (("a", 0.25), ("b", 0.25), ("c", 0.5)):
        assert abs(drawn[name] / 3000 - share) < 4 * (share * (1 - share) / 3000) ** 0.5


def test_of_two_candidates_the_one_with_the_larger_loss_is_asked() -> None:
    """d = 2, m = 1, three devices of one size: the device with the smallest loss is never asked, the one with the
    largest in two of three draws."""
    known = {"a": past(3.0), "b": past(2.0), "c": past(1.0)}
    asked = Counter(PowerOfChoice(2).cohort(0, list(known), 1, known, seed)[0] for seed in range(3000))
    assert asked["c"] == 0
    assert abs(asked["a"] / 3000 - 2 / 3) < 4 * (2 / 9 / 3000) ** 0.5


def test_weights_are_drawn_one_after_another_without_replacement() -> None:
    """P(second, first) = 2/3 · 1/1 for weights 1 and 2; a weight of 0 comes last."""
    rng = np.random.default_rng(1)
    drawn = [tuple(by_weight([1.0, 2.0, 0.0], 3, rng)) for _ in range(3000)]
    assert all_of(each[2] == 2 for each in drawn)
    assert abs(drawn.count((1, 0, 2)) / 3000 - 2 / 3) < 4 * (2 / 9 / 3000) ** 0.5


# ---- Oort

# Utilities n √(mean loss²) = 200, 100, 150.  On the scale from 0.999 · 100 = 99.9 to 200: 1, 0.1 / 100.1, 50.1 / 100.1.
THREE = [
    Past(100, 1, 1, round=3, seconds=5.0, loss=2.0),
    Past(50, 1, 1, round=8, seconds=20.0, loss=2.0),
    Past(100, 1, 1, round=0, seconds=10.0, loss=1.5),
]


def test_oort_s_utility_is_as_on_paper() -> None:
    """In round R = 10, with last replies in rounds L = 4, 9, 1 (all counted from 1) and T = 10 s:

    1.000000 + √(0.1 ln 10 / 4) = 1.239926, as 5 s is fast;
    (0.000999 + √(0.1 ln 10 / 9)) · (10 / 20)² = 0.160950 / 4 = 0.040238, as 20 s is slow;
    0.500500 + √(0.1 ln 10 / 1) = 0.980352, as 10 s is not above T.
    """
    found = Oort(clip=1.0, preferred_s=10.0).utility(9, THREE)
    np.testing.assert_allclose(found, [1.239926, 0.040238, 0.980352], atol=2e-6)


def test_without_a_penalty_slow_devices_lose_nothing() -> None:
    found = Oort(clip=1.0, preferred_s=10.0, alpha=0.0).utility(9, THREE)
    np.testing.assert_allclose(found[1], 0.160950, atol=2e-6)


def test_large_utilities_are_cut_at_the_quantile() -> None:
    """The median of 200, 100 and 150 is 150: the largest is no better than that.  Round 1: ln 1 = 0."""
    found = Oort(clip=0.5, preferred_s=99.0).utility(0, THREE)
    np.testing.assert_allclose(found, [1.0, 0.1 / 50.1, 1.0], atol=1e-9)


def test_by_default_the_preferred_seconds_are_a_quantile_of_the_devices() -> None:
    """Of 1, 2, ..., 11 s the quantile 0.3 is the fourth: 4 s.  With equal utilities the score is (4 / t)²."""
    alike = [Past(10, 1, 1, round=0, seconds=float(s), loss=1.0) for s in range(1, 12)]
    due = [1.0 if s <= 4 else (4 / s) ** 2 for s in range(1, 12)]
    np.testing.assert_allclose(Oort().utility(0, alike), due)


@pytest.mark.parametrize(("round", "new"), [(0, 9), (10, 7), (200, 2)])
def test_exploration_decays(round: int, new: int) -> None:
    """10 places: 0.9 · 10 = 9 for new devices; after 10 rounds 0.9 · 0.98^10 · 10 = 7.35, and the fraction of a place
    by chance; after 200 rounds the least, 0.2 · 10 = 2."""
    known = {f"k{n}": past(1.0 + n / 100, round=0, seconds=1.0) for n in range(20)}
    known |= {f"n{n}": past(None, asked=0) for n in range(20)}
    names = sorted(known)
    found = [len([name for name in Oort().cohort(round, names, 10, known, s) if name[0] == "n"]) for s in range(200)]
    assert set(found) == ({new, new + 1} if round == 10 else {new})
    if round == 10:
        exact = 9 * 0.98**10
        assert abs(np.mean(found) - exact) < 4 * (0.25 / 200) ** 0.5


def test_places_that_nobody_new_can_take_are_exploited_and_the_other_way_round() -> None:
    known = {f"k{n}": past(1.0, round=0) for n in range(4)} | {"n0": past(None, asked=0), "s0": past(None)}
    names = sorted(known)
    assert Oort().cohort(0, names, 5, known, 1) == ["k0", "k1", "k2", "k3", "n0"]  # s0 was asked in vain: last
    assert Oort().cohort(0, names, 6, known, 1) == names
    fresh = {name: past(None, asked=0) for name in names}
    assert len(Oort().cohort(0, names, 3, fresh, 1)) == 3


def test_only_devices_near_the_best_are_exploited() -> None:
    """One place; the others' utilities are below 95 % of the best."""
    known = {f"k{n}": past(float(n), round=0, seconds=1.0) for n in range(1, 6)}
    rule = Oort(exploration=0.0, exploration_least=0.0, clip=1.0)
    assert {tuple(rule.cohort(0, sorted(known), 1, known, seed)) for seed in range(50)} == {("k5",)}


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"alpha": -1.0}, {"clip": 1.5}, {"preferred_s": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Oort(**wrong)
    with pytest.raises(ValueError, match="candidates"):
        PowerOfChoice(0.5)


def test_of_a_device_that_never_replied_the_server_knows_its_size_alone() -> None:
    pasts = Pasts({"a": 30, "b": 40}.__getitem__)
    pasts.ask(["a"])
    pasts.count("a", round=2, seconds=1.5, staleness=1, loss=0.7)
    assert pasts["b"] == Past(40)
    assert pasts["a"] == Past(30, 1, 1, 2, 1.5, 1, 0.7)
