"""The sentence that ends `compare`: no ranking without five seeds, no ratio that censored seeds do not bear out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.record.targets import Target
from emulator.results.summary import summarise
from emulator.results.verdict import Ratio, paired, sentence

few = settings(max_examples=8, deadline=None, derandomize=True)
TARGET = Target("accuracy", 0.85)
NAME = "accuracy 0.85"
UPLOAD = {"setup_s": 0.0, "down_s": 0.2, "compute_s": 0.3, "up_s": 0.4, "server_s": 0.1, "wait_s": 0.0}

Rows = list[dict[str, Any]]


def row(round: int, time: float, accuracy: float, length: float, path: Mapping[str, float] = UPLOAD) -> dict[str, Any]:
    critical = {
        part: {"weights": share * length} if part in ("down_s", "up_s") else share * length
        for part, share in path.items()
    }
    nothing: dict[str, Any] = {"bytes": {"down": {}, "up": {}}, "leverage": {}, "initial": None, "personalised": None}
    fates = {"asked": 1, "counted": 1, "late": 0, "lost": 0, "refused": 0}
    return {"round": round, "time_s": time, "accuracy": accuracy, "critical": critical, **nothing, **fates}


def until(time: float, path: Mapping[str, float] = UPLOAD) -> Rows:
    """A run that reaches the target at `time`, in its second round."""
    return [row(0, time / 2, 0.1, time / 2, path), row(1, time, 0.9, time / 2, path)]


def never(end: float) -> Rows:
    return [row(0, end / 2, 0.1, end / 2), row(1, end, 0.2, end / 2)]


def runs_of(**labels: Sequence[Rows]) -> dict[str, dict[int, Rows]]:
    return {label: dict(enumerate(seeds, 1)) for label, seeds in labels.items()}


def summed(runs: Mapping[str, Mapping[int, Rows]], targets: Sequence[Target] = (TARGET,)) -> dict[str, Any]:
    return summarise(runs, targets, dict.fromkeys(runs, 0.0))


def said(targets: Sequence[Target] = (TARGET,), **labels: Sequence[Rows]) -> str:
    runs = runs_of(**labels)
    return sentence(summed(runs, targets), runs)


def ratio(over: Sequence[Rows], under: Sequence[Rows]) -> Ratio | None:
    runs = runs_of(a=over, b=under)
    return paired(summed(runs), runs, NAME, "a", "b")


# --- the sentence -----------------------------------------------------------------------------------------------


def test_from_five_seeds_on_the_sooner_is_compared_with_the_baseline() -> None:
    """Ratios 1.5, 1.5, 1.62, 1.75, 1.75; with 5 seeds a resample is of the least alone often enough (see below)."""
    times = [20.0, 30.0, 40.0, 50.0, 60.0]
    slower = [30.0, 45.0, 64.8, 87.5, 105.0]
    assert said(fedavg=[*map(until, slower)], fedcl=[*map(until, times)]) == (
        "fedcl reached accuracy 0.85 in 40.0 s (median; 5 of 5 seeds), "
        "1.62x [1.50, 1.75] as fast as fedavg (5 of 5 seeds); 40 % of its time was upload."
    )


def test_the_best_of_three_is_compared_with_the_baseline_and_the_baseline_with_the_next() -> None:
    three = {"slow": [until(40)] * 5, "slower": [until(60)] * 5, "quick": [until(10)] * 5}
    assert "quick reached" in said(**three)
    assert "4.00x [4.00, 4.00] as fast as slow (5 of 5 seeds)" in said(**three)
    swapped = {"quick": three["quick"], "slower": three["slower"], "slow": three["slow"]}
    assert "4.00x [4.00, 4.00] as fast as slow (5 of 5 seeds)" in said(**swapped)


def test_an_interval_around_one_ranks_nobody() -> None:
    text = said(a=[*map(until, [10, 10, 10, 10, 10])], b=[*map(until, [9, 9, 9.5, 11, 12])])
    assert text == (
        "b reached accuracy 0.85 in 9.5 s (median; 5 of 5 seeds); "
        "against a (5 of 5 seeds) no difference shown: ratio 1.05 [0.83, 1.11]; 40 % of its time was upload."
    )


def test_equal_runs_show_no_difference() -> None:
    text = said(a=[until(10)] * 5, b=[until(10)] * 5)
    assert "no difference shown: ratio 1.00 [1.00, 1.00]" in text
    assert "as fast as" not in text


def test_below_five_seeds_there_are_values_and_no_ranking() -> None:
    text = said(slow=[until(40), until(44)], quick=[until(12), until(10)])
    assert text == (
        "accuracy 0.85 was reached by slow in 40.0 s and 44.0 s (2 of 2 seeds; 40 % of it was upload), "
        "by quick in 10.0 s and 12.0 s (2 of 2 seeds; 40 % of it was upload). No ranking: fewer than 5 seeds."
    )
    assert not any(word in text for word in ("as fast as", "±", "x ["))


def test_k_of_n_is_said_with_how_long_the_others_were_played() -> None:
    text = said(a=[until(40), never(131)], b=[never(90), never(80)])
    assert "by a in 40.0 s (1 of 2 seeds within 131 s; 40 % of it was upload)" in text
    assert "never by b (0 of 2 seeds within 80.0 s to 90.0 s)" in text


def test_the_hardest_target_that_somebody_reached_is_spoken_of() -> None:
    targets = (Target("accuracy", 0.9), Target("accuracy", 0.99), Target("accuracy", 0.1), TARGET)
    assert said(targets, a=[until(10)]).startswith("accuracy 0.9 was reached by a in 10.0 s (1 of 1 seed;")
    held = (Target("accuracy", 0.1), Target("accuracy", 0.1, hold=2))  # harder: for longer
    assert said(held, a=[until(10)]).startswith("accuracy 0.1 held 2 was reached by a in 5.0 s")


def test_one_label_is_told_without_a_comparison() -> None:
    assert said(a=[until(10)] * 5) == (
        "a reached accuracy 0.85 in 10.0 s (median; 5 of 5 seeds); 40 % of its time was upload."
    )
    assert "ranking" not in said(a=[until(10)] * 2)


def test_nobody_reached_it() -> None:
    targets = (Target("accuracy", 0.99), TARGET)
    assert said(targets, a=[never(131), never(100)], b=[never(90)]) == (
        "No run reached accuracy 0.85 (0 of 3 runs; they lasted 90.0 s to 131 s)."
    )


def test_a_run_that_was_stopped_before_its_first_round_is_no_obstacle() -> None:
    assert said(a=[[], []], b=[[]]) == "No round was played."
    assert "never by b (0 of 1 seed within 0.0 s)" in said(a=[until(10)], b=[[]])
    five = said(a=[until(10)] * 5, b=[[]] * 5)
    assert "against b (0 of 5 seeds within 0.0 s) no ratio is known: too few seeds of both reached it" in five


def test_without_a_target_the_sentence_says_how_to_set_one() -> None:
    assert "rounds.targets" in said((), a=[until(10)])


def test_a_label_that_most_seeds_of_never_got_there_is_not_ranked() -> None:
    text = said(a=[until(10), until(20), never(50), never(50), never(50)], b=[never(60)] * 5)
    assert text.startswith("accuracy 0.85 was reached by a in 10.0 s and 20.0 s (2 of 5 seeds within 50.0 s;")
    assert text.endswith("never by b (0 of 5 seeds within 60.0 s). No ranking: most seeds never reached it.")


def test_the_share_is_of_the_rounds_up_to_the_target_and_of_the_seeds_that_got_there() -> None:
    """Computing takes 0.9 x 10 s of seed 1; uploads 0.4 x 2 s of seed 2: (9 + 0.3 x 2) / 12 = 80 %."""
    computing = {**dict.fromkeys(UPLOAD, 0.0), "compute_s": 0.9, "down_s": 0.1}
    long_after = [*until(2), row(2, 1000, 0.9, 998)]
    text = said(a=[until(10, computing), long_after, never(5000)])
    assert "80 % of it was compute" in text


def test_medians_and_pairs_may_disagree() -> None:
    """Medians 10 and 9; but in 8 of 9 pairs a is sooner."""
    a, b = [1.0, 2, 3, 4, 10, 20, 30, 40, 50], [1.5, 3, 4.5, 6, 9, 30, 45, 60, 75]
    text = said(a=[*map(until, a)], b=[*map(until, b)])
    assert text.startswith("b reached accuracy 0.85 in 9.0 s")
    assert "against a (9 of 9 seeds) medians and pairs of seeds disagree: ratio 0.67 [0.67, 0.67]" in text


def test_a_slower_label_that_is_censored_is_slower_by_at_least_so_much() -> None:
    text = said(a=[never(30)] * 5, b=[until(10)] * 5)
    assert "at least 3.00x [3.00, ∞] as fast as a (0 of 5 seeds within 30.0 s)" in text


# --- ratios -----------------------------------------------------------------------------------------------------


def test_with_five_seeds_the_interval_is_from_least_to_greatest() -> None:
    """A resample's median is the least one if that was drawn 3 times of 5: in 10/125·16/25 + 5·4/3125 + 1/3125 =
    5.8 % of them, which is more than 2.5 %."""
    assert ratio([*map(until, [1, 2, 3, 4, 5])], [until(1)] * 5) == Ratio(3.0, 1.0, 5.0, 5, "exact")


def test_with_seven_seeds_the_interval_leaves_out_one_at_either_end() -> None:
    """4 or more of 7 draws are the least one in 1.0 % of resamples; one of the two least in 10.8 %."""
    assert ratio([*map(until, [1, 2, 3, 4, 5, 6, 7])], [until(1)] * 7) == Ratio(4.0, 2.0, 6.0, 7, "exact")


def test_ratios_are_paired_by_seed() -> None:
    """Seeds differ a thousandfold, the labels by 2 in each."""
    times = [1.0, 10.0, 100.0, 1000.0, 5.0]
    over = [until(2 * time) for time in times]
    assert ratio(over, [*map(until, times)]) == Ratio(2.0, 2.0, 2.0, 5, "exact")
    runs = {"a": dict(enumerate(over)), "b": dict(reversed(list(enumerate(map(until, times)))))}
    assert paired(summed(runs), runs, NAME, "a", "b") == Ratio(2.0, 2.0, 2.0, 5, "exact")


def test_only_seeds_that_both_have_are_paired() -> None:
    runs = {"a": {seed: until(2) for seed in range(7)}, "b": {seed: until(1) for seed in range(2, 9)}}
    assert paired(summed(runs), runs, NAME, "a", "b") == Ratio(2.0, 2.0, 2.0, 5, "exact")
    runs["b"].pop(6)
    assert paired(summed(runs), runs, NAME, "a", "b") is None


def test_one_censored_seed_opens_the_interval_and_not_the_median() -> None:
    """Ratios 2, 2, 2, 2 and at least 2.5: the median is 2 whatever the last one is."""
    assert ratio([*[until(2)] * 4, never(2.5)], [until(1)] * 5) == Ratio(2.0, 2.0, None, 5, "exact")


def test_a_censored_seed_below_the_median_leaves_a_lower_bound() -> None:
    """Ratios 3, 3, 4, 4 and at least 1: the median is 3 at least (4 at most)."""
    assert ratio([*map(until, [3, 3, 4, 4]), never(1)], [until(1)] * 5) == Ratio(3.0, 1.0, None, 5, "at least")


def test_where_the_baseline_is_censored_the_ratio_is_at_most_so_much() -> None:
    assert ratio([until(1)] * 5, [never(4)] * 5) == Ratio(0.25, 0.0, 0.25, 5, "at most")


def test_where_both_are_censored_nothing_is_known() -> None:
    assert ratio([never(1)] * 5, [never(4)] * 5) is None


def test_runs_that_take_no_time_are_equal() -> None:
    assert ratio([until(0)] * 5, [until(0)] * 5) == Ratio(1.0, 1.0, 1.0, 5, "exact")


times = st.lists(st.tuples(st.floats(0.1, 1e5), st.floats(0.1, 1e5)), min_size=5, max_size=12)


@few
@given(times, st.randoms(use_true_random=False))
def test_the_interval_holds_the_median_and_seeds_have_no_order(
    pairs: list[tuple[float, float]], chance: random.Random
) -> None:
    found = ratio([until(a) for a, _ in pairs], [until(b) for _, b in pairs])
    assert found is not None
    assert found.high is not None
    assert found.low <= found.median <= found.high
    all_ratios = [a / b for a, b in pairs]
    assert min(all_ratios) <= found.low
    assert found.high <= max(all_ratios)
    shuffled = chance.sample(pairs, len(pairs))
    assert ratio([until(a) for a, _ in shuffled], [until(b) for _, b in shuffled]) == found


@few
@given(times, st.data())
def test_to_know_less_never_narrows_the_interval(pairs: list[tuple[float, float]], data: st.DataObject) -> None:
    """A seed is stopped before it got there, on either side: what was known before still lies within."""
    over, under = [until(a) for a, _ in pairs], [until(b) for _, b in pairs]
    full = ratio(over, under)
    for side, times in ((over, [a for a, _ in pairs]), (under, [b for _, b in pairs])):
        seed = data.draw(st.integers(0, len(pairs) - 1))
        side[seed] = never(times[seed] * data.draw(st.floats(0.01, 1)))
    less = ratio(over, under)
    assert full is not None
    assert full.high is not None
    if less is not None:
        assert less.low <= full.low
        assert less.high is None or less.high >= full.high
        if less.bound != "at most":
            assert less.median <= full.median
        if less.bound != "at least":
            assert less.median >= full.median


@few
@given(times, st.floats(1, 10))
def test_a_longer_horizon_raises_the_least_ratio(pairs: list[tuple[float, float]], longer: float) -> None:
    under = [until(b) for _, b in pairs]
    short, long = (ratio([never(a * factor) for a, _ in pairs], under) for factor in (1.0, longer))
    assert short is not None
    assert long is not None
    assert (short.bound, short.high) == (long.bound, long.high) == ("at least", None)
    assert short.median <= long.median
    assert short.low <= long.low


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Ratio(1.618, 1.5, 1.75, 5, "exact"), "1.62 [1.50, 1.75]"),
        (Ratio(31.44, 1.5, None, 5, "at least"), "at least 31.4 [1.50, ∞]"),
    ],
)
def test_ratios_in_words(found: Ratio, text: str) -> None:
    assert str(found) == text


def test_an_interval_that_is_printed_as_reaching_one_does() -> None:
    assert not Ratio(1.1, 1.004, 1.2, 5, "exact").above
    assert Ratio(1.1, 1.006, 1.2, 5, "exact").above
    assert not Ratio(0.9, 0.8, 0.996, 5, "exact").below
