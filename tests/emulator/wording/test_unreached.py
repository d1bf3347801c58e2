"""A target that nobody reached: at what pace it would have been."""

from __future__ import annotations

import re
from math import ceil

import pytest

from emulator.record.targets import Target
from emulator.results.pace import best, rounds_at_pace
from emulator.results.standings import observed
from emulator.wording.verdict import paces
from tests.emulator.results.played import Rows, row, runs_of


def falling(power: float, rounds: int = 20) -> Rows:
    """Its error is 0.8 / rounds ** power."""
    return [row(number, 3.0 * (number + 1), 1 - 0.8 / (number + 1) ** power, 3.0) for number in range(rounds)]


@pytest.mark.parametrize("power", [0.3, 0.5, 1.0])
def test_errors_that_fall_as_a_power_of_rounds_are_followed_exactly(power: float) -> None:
    """0.8 / n ** power = 0.2 if n = 4 ** (1 / power)."""
    needed = 4 ** (1 / power)
    played = falling(power, rounds=max(8, int(needed / 2)))
    rounds = rounds_at_pace([played, played], Target("accuracy", 1 - 0.8 / 4))
    expected = max(len(played) + 1, ceil(needed))
    assert rounds in (expected, expected + 1)  # rounding of logs may cross a whole number


def test_what_rises_no_longer_has_no_pace() -> None:
    flat = [row(number, 3.0 * (number + 1), 0.5, 3.0) for number in range(20)]
    assert rounds_at_pace([flat], Target("accuracy", 0.9)) is None
    few = falling(0.5, rounds=3)
    assert rounds_at_pace([few], Target("accuracy", 0.9)) is None
    (said,) = paces(observed(runs_of(a=[few])), Target("accuracy", 0.9))
    assert said == "a ran 3 rounds, too few to estimate when it would reach 0.9."
    assert rounds_at_pace([falling(0.01)], Target("accuracy", 0.99)) is None  # far beyond what was played


def test_the_line_says_rounds_and_seconds() -> None:
    """0.8 / sqrt(n) = 0.1 at n = 64, of 3 s each."""
    seen = observed(runs_of(a=[falling(0.5)]))
    (said,) = paces(seen, Target("accuracy", 0.9))
    begin = "a ran 20 rounds; at the pace of the last ones, it would reach 0.9 after about"
    assert said in (f"{begin} 64 rounds (192 s).", f"{begin} 65 rounds (195 s).")  # rounding of logs, as above


def test_all_lines_have_one_unit() -> None:
    """0.8 / n ** power = 0.2 after 16 and 64 rounds, of 3 s each: 48 and 192 s, minutes if taken by themselves."""
    seen = observed(runs_of(a=[falling(0.5, rounds=14)], b=[falling(1 / 3, rounds=14)]))
    a, b = paces(seen, Target("accuracy", 1 - 0.8 / 4))
    assert re.search(r" 1[67] rounds \([\d.]+ s\)", a)
    assert re.search(r" 6[45] rounds \(\d+ s\)", b)


def test_the_best_value_need_not_be_the_last() -> None:
    rows = [row(0, 1, 0.3, 1), row(1, 2, 0.6, 1), row(2, 3, 0.5, 1)]
    assert best(rows, Target("accuracy", 0.9)) == 0.6
    assert best(rows, Target("accuracy", 0.1, lower=True)) == 0.3
    assert best([], Target("accuracy", 0.9)) is None
