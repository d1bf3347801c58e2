"""Profiles that are fitted to measured steps, and what the steps tell of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.counting.step_counts import StepCounts
from devices.device import profiles
from emulator.forecast.fitting import RATES, fitted, left_out, off, predicted, rate_of, told, with_rates

LIKE = profiles()["pi-4"]
TRUE = with_rates(LIKE, [3e10, 4e10, 2e10, 5e8, 8e9, 1.5e9, 2e8])
DRAW = np.random.default_rng(3)


def step() -> StepCounts:
    """Returns a step with all kinds of work, in proportions that are drawn."""
    dense, conv, recurrent, grouped, pointwise = 10 ** DRAW.uniform([9, 9, 9, 7, 8], [11, 11, 11, 9.5, 10.5])
    floats, moved = 10 ** DRAW.uniform([7, 6], [9, 8])
    convs = conv + grouped + pointwise
    return StepCounts(
        dense + convs + recurrent, floats + moved, convs, recurrent, 0, 0, 0, grouped, pointwise, conv_floats=moved
    )


CELLS = [(one, predicted(one, TRUE)) for one in (step() for _ in range(20))]


def rates(profile: object) -> list[float]:
    return [rate_of(profile, rate) for rate in RATES]  # type: ignore[arg-type]


def test_rates_are_found_again_from_the_seconds_that_they_give() -> None:
    assert rates(fitted(CELLS, LIKE, 1e-9)) == pytest.approx(rates(TRUE), rel=1e-3)


def test_a_group_that_is_left_out_is_predicted_from_the_others() -> None:
    cells = {number: [cell] for number, cell in enumerate(CELLS)}
    assert [seconds for (seconds,) in left_out(cells, TRUE).values()] == pytest.approx([s for _, s in CELLS], rel=1e-4)
    slow = cells | {7: [(CELLS[7][0], 100 * CELLS[7][1])]}  # it alone: the prediction does not know
    assert left_out(slow, TRUE)[7] == pytest.approx([CELLS[7][1]], rel=1e-4)


def test_a_rate_that_nobody_measured_has_the_common_factor() -> None:
    """A board that is three times as slow as TRUE in all, measured with two networks without convolutions."""
    cells = [(StepCounts(1e9 * n, 1e7 * n**2), 0.0) for n in (1, 2)]
    base = replace(TRUE, overhead_s=0.0)
    cells = [(one, 3 * predicted(one, base)) for one, _ in cells]
    assert rates(fitted(cells, base)) == pytest.approx([rate / 3 for rate in rates(TRUE)], rel=1e-3)


def test_without_cells_there_is_no_fit() -> None:
    with pytest.raises(ValueError, match="at least one"):
        fitted([], LIKE)


def test_a_rate_that_neither_the_steps_nor_the_other_profile_name_stays_unnamed() -> None:
    base = replace(TRUE, recurrent_flops_per_s=None, grouped_flops_per_s=None)
    cells = [(one, predicted(one, base)) for one in (StepCounts(1e10 * n, 1e7 * n**2, 5e9) for n in (1, 2, 3))]
    found = fitted(cells, base)
    assert (found.recurrent_flops_per_s, found.grouped_flops_per_s) == (None, None)
    assert found.pointwise_flops_per_s == pytest.approx(TRUE.pointwise_flops_per_s, rel=1e-3)


def test_a_step_tells_the_rates_on_which_a_part_of_its_seconds_depends() -> None:
    """At 4e10 FLOP/s and 1.5e9 bytes/s: 1 s dense; 0.8 s moved; 0.02 s in grouped convolutions of 1e7 FLOPs."""
    dense, moves, grouped = StepCounts(4e10), StepCounts(4e10, 3e8), StepCounts(4e10 + 1e7, 0.0, 1e7, grouped=1e7)
    assert told([dense], TRUE) == told([dense, grouped], TRUE) == ["dense_flops_per_s"]
    assert told([moves, dense], TRUE) == ["dense_flops_per_s", "memory_bytes_per_s"]


def test_errors_are_of_the_measured_seconds_in_either_direction() -> None:
    assert off([("a", 2.0, 2.2), ("b", 2.0, 1.0), ("c", 1.0, 1.2)]) == "20 % in the median, 50 % at worst"
