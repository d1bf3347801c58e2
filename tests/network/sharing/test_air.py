"""The levels of links under air, from a guess and from nothing, and the equations that they follow from."""

from __future__ import annotations

import numpy as np
import pytest

from network.sharing.air import on_air
from network.sharing.flow import MOST
from network.sharing.level import Floats, FlowLayout, layout
from network.sharing.linear import solved

INSTANTS, HOMES, EACH = 5, 12, 4
LINKS = HOMES + 2  # the air of the homes, a line before the first six, the server


def homes() -> FlowLayout:
    columns = [[1 + home * EACH + k for k in range(EACH)] for home in range(HOMES)]
    columns += [[i for there in columns[:6] for i in there], [i for there in columns for i in there]]
    above = [[HOMES, HOMES + 1] if home < 6 else [HOMES + 1] for home in range(HOMES)] + [[HOMES + 1], []]
    return layout(columns, above, [True] * HOMES + [False] * 2, 1 + HOMES * EACH)


def flows(draws: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Caps, weights, radios and capacities, at each instant others."""
    size = INSTANTS, 1 + HOMES * EACH
    caps, radios = draws.uniform(0.1, 5.0, size), draws.uniform(1.0, 9.0, size)
    caps[:, 0] = radios[:, 0] = 0
    weights = np.concatenate(([1.0], np.repeat(draws.choice([0.5, 1.0, 3.0], HOMES), EACH)))
    capacities = np.ones((INSTANTS, LINKS))
    capacities[:, HOMES:] = draws.uniform((1, 10), (30, 60), (INSTANTS, 2))
    return caps, weights, radios, capacities


@pytest.mark.parametrize("seed", range(20))
def test_the_levels_are_the_same_whatever_the_guess(seed: int) -> None:
    draws, laid = np.random.default_rng(seed), homes()
    caps, weights, radios, capacities = flows(draws)
    wanted, right = on_air(caps, weights, radios, laid, capacities, None)

    random = draws.uniform(0, 5, (1, LINKS + 1))
    for guess in (right, random, np.zeros_like(random), np.full_like(random, MOST), random * np.nan):
        guess[:, -1] = MOST  # no link
        found, _ = on_air(caps, weights, radios, laid, capacities, guess)
        assert found == pytest.approx(wanted, rel=1e-11)


def test_each_instant_has_the_levels_that_it_has_alone() -> None:
    caps, weights, radios, capacities = flows(np.random.default_rng(1))
    together, _ = on_air(caps, weights, radios, homes(), capacities, None)

    for i in range(INSTANTS):
        at = slice(i, i + 1)
        alone, _ = on_air(caps[at], weights, radios[at], homes(), capacities[at], None)
        assert together[at] == pytest.approx(alone, rel=1e-12)


def test_equations_of_a_wifi_behind_a_line() -> None:
    """Radios of 2, 20 and 20 bytes/s, a line of 9: x/2 + 2y/20 = 1 and x + 2y = 9 for x = 11/9, y = 35/9.

    The first flow is held by the air, at half its radio's rate times x; the others by the line.
    """
    laid = layout([[1, 2, 3], [1, 2, 3]], [[1], []], [True, False], 4)
    radios = np.array([2.0, 20.0, 20.0])
    used = np.zeros((1, 2, 4))  # of the line, and of the air, at a level of 1
    used[0, :, 1:] = [2.0, 1.0, 1.0], [1.0, *(1 / radios[1:])]

    levels = solved(laid, np.array([[-1, 1, 0, 0]]), used, np.array([[1.0, 9.0]]))

    assert levels[0].tolist() == [pytest.approx(11 / 9 / 2), pytest.approx(35 / 9), MOST]


def test_a_link_that_holds_nobody_has_no_level_whatever_is_fixed() -> None:
    laid = layout([[], [1], [1, 2]], [[1, 2], [2], []], [True, False, False], 3)
    used = np.zeros((1, 3, 3))
    used[0, :2, 1], used[0, 0, 2] = 1.0, 4.0  # a flow of weight 1 that the root holds, and 4 bytes/s beside it

    levels = solved(laid, np.array([[-1, 0, -1]]), used, np.array([[1.0, 1.0, 9.0]]))

    assert levels[0].tolist() == [MOST, MOST, 5.0, MOST]
