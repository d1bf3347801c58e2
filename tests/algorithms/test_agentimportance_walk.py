"""Path scores of the Riemannian walk."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from algorithms.agentimportance_walk import HELD, SCORE, Walk, traffic
from algorithms.counting.cost import FloatCounter


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def walked(walk: Walk, places: list[float], slopes: list[float]) -> float:
    """The score of one coordinate that was at these places; there is one place more than slopes."""
    for place, slope in zip(places, slopes, strict=False):
        walk("w", number(place), number(slope))
    return walk.scores({"w": number(places[-1])})["w"].item()


def test_one_coordinate_by_hand() -> None:
    # slope 2, steps of -0.5: each gains 2 x 0.5 = 1 over ½ x 2² x 0.5² + 0.25 = 0.75
    assert walked(Walk(1, 0.25), [3.0, 2.5, 2.0, 1.5], [2.0, 2.0, 2.0]) == pytest.approx(3 / 0.75, rel=1e-15)


def test_a_window_counts_from_its_first_place_to_its_last() -> None:
    # two steps: 2 over ½ x 2² x 1² + 0.25 = 2.25; the third, alone in the last window: 1 over 0.75
    assert walked(Walk(2, 0.25), [3.0, 2.5, 2.0, 1.5], [2.0, 2.0, 2.0]) == pytest.approx(2 / 2.25 + 1 / 0.75, rel=1e-15)


def test_the_running_fisher_is_nine_tenths_the_latest_square() -> None:
    # slopes 2, then 4: F = 4, then 0.1 x 4 + 0.9 x 16 = 14.8; gains 2 x 1 and 4 x 1 for moves of 1
    expected = 2 / (0.5 * 4 + 1) + 4 / (0.5 * 14.8 + 1)
    assert walked(Walk(1, 1.0), [0.0, -1.0, -2.0], [2.0, 4.0]) == pytest.approx(expected, rel=1e-15)


def test_a_window_that_went_uphill_scores_nothing() -> None:
    # up 1 and down 1 on a slope of 1: alone the second counts, 1 over ½ + 1; in one window, of move 0, nothing
    assert walked(Walk(1, 1.0), [0.0, 1.0, 0.0], [1.0, 1.0]) == pytest.approx(1 / 1.5, rel=1e-15)
    assert walked(Walk(2, 1.0), [0.0, 1.0, 0.0], [1.0, 1.0]) == 0.0


def test_what_did_not_move_scores_nothing() -> None:
    assert walked(Walk(1, 1e-3), [1.0, 1.0, 1.0], [5.0, -5.0]) == 0.0


def test_it_leaves_parameter_and_gradient_as_they_are() -> None:
    walk, parameter, slope = Walk(1, 1.0), number(2.0), number(3.0)
    for _ in range(3):
        walk("w", parameter, slope)
        parameter -= 0.5
    assert (parameter.item(), slope.item()) == (0.5, 3.0)


@pytest.mark.slow  # the first use of a dispatch mode takes a second
@pytest.mark.parametrize("window", [1, 3])
def test_it_moves_the_floats_that_it_declares(window: int) -> None:
    walk, n = Walk(window, 1e-3), 1000
    place, slope = torch.randn(n), torch.randn(n)
    walk("w", place, slope)
    with FloatCounter() as moved:
        for _ in range(6 * window):
            walk("w", place, slope)
    # copy_ and zero_ are counted as if they also read what they overwrite: two in a step, two at a window's end
    assert moved.floats / n == pytest.approx(6 * window * (traffic(window) + 2) + 6 * 2, rel=1e-12)


def test_it_holds_the_floats_that_it_declares() -> None:
    walk, n = Walk(2, 1e-3), 100
    walk("w", torch.randn(n), torch.randn(n))
    assert sum(value.numel() for value in vars(walk.paths["w"]).values() if isinstance(value, Tensor)) == HELD * n


def test_once_it_has_told_its_scores_it_holds_no_more() -> None:
    walk, place = Walk(2, 1e-3), torch.randn(100)
    walk("w", place, torch.randn(100))
    assert walk.scores({"w": place})["w"].numel() == SCORE * 100
    assert walk.paths == {}
