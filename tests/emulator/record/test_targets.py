"""A target is reached in the first of `hold` evaluated rounds in a row at or above its value."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.targets import Target, reached

few = settings(max_examples=25, deadline=None, derandomize=True)


def rows(values: Sequence[float | None]) -> list[dict[str, float | None]]:
    return [{"round": i, "accuracy": value} for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "hold", "round"),
    [
        ([0.1, 0.8, 0.9], 1, 1),  # at the value is enough
        ([0.1, 0.79999], 1, None),
        ([], 1, None),
        ([0.9, 0.7, 0.8, 0.9], 2, 2),  # once above is not held
        ([0.9, 0.7, 0.9], 2, None),
        ([0.9, None, 0.8], 2, 0),  # not evaluated is not below
        ([None, None], 1, None),
        ([0.9, None, 0.1, 0.9, None, None, 0.9, 0.9], 3, 3),
        ([0.8, 0.8], 3, None),  # the run ended before
    ],
)
def test_the_first_of_the_rounds_that_held(values: list[float | None], hold: int, round: int | None) -> None:
    row = reached(rows(values), Target("accuracy", 0.8, hold))
    assert (row["round"] if row else None) == round


@pytest.mark.parametrize(("hold_s", "round"), [(0.0, 1), (2.0, 1), (2.1, 5), (6.0, 5), (6.1, None)])
def test_a_value_is_held_for_seconds_whatever_the_number_of_rounds(hold_s: float, round: int | None) -> None:
    """It is reached from second 2 to 4, and from 10 to 16."""
    seen = {1.0: 0.1, 2.0: 0.8, 3.0: 0.9, 4.0: 0.8, 5.0: 0.7, 10.0: 0.8, 11.0: 0.9, 16.0: 0.9}
    table = [{**row, "time_s": t} for row, t in zip(rows([*seen.values()]), seen, strict=True)]
    row = reached(table, Target("accuracy", 0.8, 1, hold_s))
    assert (row["round"] if row else None) == round


def test_another_metric_does_not_count() -> None:
    table = [{"round": 0, "accuracy": 0.9, "personalised": 0.1}]
    assert reached(table, Target("personalised", 0.5)) is None
    assert reached(table, Target("accuracy", 0.5)) is table[0]


def test_names_say_metric_value_and_hold() -> None:
    assert Target("accuracy", 0.8).name == "accuracy 0.8"
    assert Target("initial", 0.9, 3).name == "initial 0.9 held 3"


@few
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12), st.integers(1, 4))
def test_whatever_the_values_the_definition_holds(values: list[float | None], hold: int) -> None:
    evaluated = [(i, value >= 0.5) for i, value in enumerate(values) if value is not None]
    starts = range(len(evaluated) - hold + 1)
    held = [evaluated[at][0] for at in starts if all(above for _, above in evaluated[at : at + hold])]
    row = reached(rows(values), Target("accuracy", 0.5, hold))
    assert (row["round"] if row else None) == (held[0] if held else None)


@few
@given(st.lists(st.floats(0, 1), max_size=12), st.integers(1, 3))
def test_more_rounds_never_undo_what_was_reached(values: list[float], hold: int) -> None:
    target = Target("accuracy", 0.5, hold)
    found = [reached(rows(values[:n]), target) for n in range(len(values) + 1)]
    known = [row for row in found if row]
    assert found == [None] * (len(found) - len(known)) + known[:1] * len(known)


def test_a_target_is_harder_the_closer_to_the_best_value_and_the_longer_it_is_held() -> None:
    up = [Target("accuracy", 0.5), Target("accuracy", 0.9), Target("accuracy", 0.9, hold=2)]
    down = [Target("mse", 0.8, lower=True), Target("mse", 0.1, lower=True), Target("mse", 0.1, hold=2, lower=True)]
    for targets in (up, down):
        found = [target.hardness for target in targets]
        assert found == sorted(set(found))
