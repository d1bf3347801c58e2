"""Ratios to the baseline in the summary: of restricted means, over one horizon for all, from five shared seeds on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from emulator.record.targets import Target
from emulator.results.standings import with_means
from emulator.results.summary import summarise
from emulator.wording.tables import to_targets
from tests.emulator.results.played import Rows, never, row, runs_of, until

TARGET = Target("accuracy", 0.85)


def summed(runs: Mapping[str, Mapping[int, Rows]]) -> dict[str, Any]:
    return with_means(summarise(runs, (TARGET,), dict.fromkeys(runs, 0.0)), runs, (TARGET,))


def paired(runs: Mapping[str, Mapping[int, Rows]]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = summed(runs)["labels"]["b"]["targets"][TARGET.name]["paired"]
    return found


def of(base: Sequence[Rows], other: Sequence[Rows]) -> dict[str, Any] | None:
    return paired(runs_of(a=base, b=other))


def test_seeds_are_paired() -> None:
    """Seeds differ a thousandfold, the labels by 2 in each."""
    times = [1.0, 10.0, 100.0, 1000.0, 5.0, 50.0]
    found = of([*map(until, times)], [until(2 * time) for time in times])
    assert found is not None
    assert (found["ratio"], found["low"], found["high"]) == pytest.approx((2, 2, 2))
    assert (found["seeds"], found["reached"], found["base_reached"], found["tau"]) == (6, 6, 6, None)


def test_a_run_that_was_cut_off_counts_up_to_the_horizon() -> None:
    """The horizon is 50 s, where the first run ended without the target: (4 x 40 + 50) / (5 x 10) = 4.2."""
    found = of([until(10)] * 5, [*[until(40)] * 4, never(50)])
    assert found is not None
    assert found["ratio"] == pytest.approx(4.2)
    assert (found["reached"], found["tau"]) == (4, 50)


def test_the_table_has_the_means_that_are_compared() -> None:
    """As above: b's times are 40 four times and the horizon of 50 s, 42 in the mean; its rounds are two each time."""
    shown = to_targets(summed(runs_of(a=[until(10)] * 5, b=[*[until(40)] * 4, never(50)])))
    assert shown.headings[3:7] == ("time, s", "/ a", "rounds", "/ a")
    assert [row[3] for row in shown.rows] == ["10.0", "≥ 42.0 [40.0, 40.0]"]
    assert shown.rows[1][4] == "≥ 4.20× [1.00, ∞]"  # five seeds decide nothing
    assert [row[5:7] for row in shown.rows] == [("2", "1.00×"), ("≥ 2", "≥ 1.00×")]
    assert "≥, ≤: " in shown.caption
    few = to_targets(summed(runs_of(a=[until(10)] * 4, b=[until(40)] * 4)))
    assert few.rows[1][4] == "4.00×"
    assert {len(row) for row in [*few.rows, few.headings]} == {9}


def test_the_summary_says_what_the_verdict_says() -> None:
    """One number for seconds, one for the ratio, wherever they stand."""
    summary = summed(runs_of(a=[until(10)] * 8, b=[*[until(40)] * 6, *[never(50)] * 2]))
    (other,), entry = summary["ranking"]["others"], summary["labels"]["b"]["targets"][TARGET.name]
    assert (summary["ranking"]["fastest"], summary["ranking"]["horizon_s"]) == ("a", 50)
    assert other["seconds"] == entry["time_s"]["mean"] == 42.5
    assert other["ratio"] == entry["paired"]["ratio"] == entry["ratio_to_baseline"]["time_s"] == pytest.approx(4.25)


@pytest.mark.parametrize("seeds", [3, 6])
def test_where_runs_were_cut_off_ratios_are_bounds(seeds: int) -> None:
    """One seed of b ends at 50 s without the target; or of a, the baseline; or of both.  Ratios stay numbers."""
    all_, some = [until(10)] * seeds, [*[until(10)] * (seeds - 1), never(50)]
    for base, other, bound in ((all_, some, "low"), (some, all_, "high"), (some, some, "neither"), (all_, all_, None)):
        summary = summed(runs_of(a=base, b=other))
        entry = summary["labels"]["b"]["targets"][TARGET.name]
        assert entry["bound"] == bound
        assert isinstance(entry["ratio_to_baseline"]["time_s"], float)
        (ranked,) = summary["ranking"]["others"]  # over the one with the least mean
        assert ranked["bound"] == (bound and {"high": "low"}.get(bound, bound))
        assert seeds < 5 or entry["paired"]["bound"] == bound


def test_ratios_of_rounds_are_those_of_means_too() -> None:
    """Rounds to the target: 2 in each seed of a; of b 2 four times, and once 3: 11 / 10, 2.2 over 2."""
    late = [row(0, 5, 0.1, 5), row(1, 10, 0.1, 5), row(2, 15, 0.9, 5)]
    shown = to_targets(summed(runs_of(a=[until(10)] * 5, b=[*[until(10)] * 4, late])))
    assert (shown.rows[1][5], shown.rows[1][6]) == ("2.2 [2, 2]", "1.10×")


def test_a_target_that_no_seed_reached_has_no_mean() -> None:
    harder = Target("accuracy", 0.99)
    runs = runs_of(a=[until(10)] * 5, b=[until(40)] * 5)
    made = summarise(runs, (TARGET, harder), dict.fromkeys(runs, 0.0))
    shown = to_targets(with_means(made, runs, (TARGET, harder)))
    assert {len(row) for row in [*shown.rows, shown.headings]} == {9}
    assert [row[3] for row in shown.rows] == ["10.0", "best 0.900", "40.0", "best 0.900"]


def test_below_five_shared_seeds_there_is_no_ratio() -> None:
    assert of([until(1)] * 4, [until(2)] * 4) is None
    runs = {"a": {seed: until(1) for seed in range(7)}, "b": {seed: until(2) for seed in range(3, 10)}}
    assert paired(runs) is None
    runs["a"] |= {7: until(1)}
    found = paired(runs)
    assert found is not None
    assert found["seeds"] == 5


def test_a_third_that_ends_early_shortens_the_horizon_of_all() -> None:
    runs = runs_of(a=[until(10)] * 5, b=[until(40)] * 5, c=[never(20)] * 5)
    found = paired(runs)
    assert found is not None
    assert (found["ratio"], found["tau"]) == (pytest.approx(2.0), 20)
