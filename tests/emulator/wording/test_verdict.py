"""The verdict of `compare`: its lines say what the comparisons hold, and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from emulator.record.targets import Target
from emulator.wording.hints import Plan
from emulator.wording.verdict import Verdict, verdict
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.emulator.results.played import Rows, never, row, runs_of, until

TARGET = Target("accuracy", 0.85)


def said(targets: Sequence[Target] = (TARGET,), **labels: Sequence[Rows]) -> Verdict:
    return verdict(runs_of(**labels), targets)


def test_who_is_fastest_and_who_slower_by_how_much() -> None:
    times = [20.0, 30.0, 40.0, 50.0, 60.0, 40.0]
    assert said(fedavg=[until(2 * time) for time in times], fedcl=[*map(until, times)]).lines == [
        "fedcl is fastest to accuracy 0.85: 40.0 s (mean of 6 seeds).",
        "Not distinguishable from it: no other algorithm.",
        "Significantly slower: fedavg 2.00x [2.00, 2.00] (80.0 s).",
    ]


def test_the_first_words_claim_no_winner_that_the_seeds_do_not_show() -> None:
    assert said(a=[until(10)] * 7, b=[until(10)] * 7, c=[until(30)] * 7).lines == [
        (
            "No algorithm is significantly faster than all others to accuracy 0.85 (7 seeds). a has the lowest mean "
            "time, 10.0 s."
        ),
        "Not distinguishable from it: b 1.00x [1.00, 1.00] (10.0 s).",
        "Significantly slower: c 3.00x [3.00, 3.00] (30.0 s).",
    ]


def test_few_seeds_say_so_in_the_same_form() -> None:
    labels = {"slow": [until(40), until(44)], "quick": [until(12), until(10)], "other": [until(11), until(15)]}
    first, open_, slower = said(**labels).lines
    assert first.startswith("No algorithm can be called fastest to accuracy 0.85: 2 seeds are too few to tell a")
    assert first.endswith(" difference from chance. quick has the lowest mean time, 11.0 s.")
    assert open_ == "Not distinguishable from it: other 1.18x (13.0 s)."
    assert slower.startswith("Significantly slower: unknown with fewer than 7 seeds; every seed took longer than any")
    assert slower.endswith(" of quick's: slow 3.82x (42.0 s).")
    first, open_, slower = said(a=[until(10)], b=[until(20)]).lines
    assert first.endswith(": 1 seed is too few to tell a difference from chance. a has the lowest time, 10.0 s.")
    assert (open_, slower) == (
        "Not distinguishable from it: b 2.00x (20.0 s).",
        "Significantly slower: unknown with fewer than 6 seeds.",
    )


def test_five_seeds_have_intervals_and_cannot_tell_a_difference_from_chance() -> None:
    """Every seed takes three times as long, and of 2^5 ways to swap the two within seeds two are as extreme."""
    first, open_, slower = said(a=[until(10)] * 5, b=[until(30)] * 5).lines
    assert first.startswith("No algorithm can be called fastest to accuracy 0.85: 5 seeds are too few to tell a")
    assert open_ == "Not distinguishable from it: no other algorithm."
    assert slower == (
        "Significantly slower: unknown with fewer than 6 seeds; every seed took longer than any of a's: b 3.00x "
        "[1.00, 9.00] (30.0 s)."
    )


def test_where_seeds_were_cut_off_times_are_bounds_and_more_rounds_are_advised() -> None:
    """The horizon is 50 s: means 42 s and 50 s.  Runs have 2 rounds at most, so 100 s of all take twice as many."""
    found = said(a=[*[until(40)] * 4, never(50)], b=[until(100)] * 5)
    assert "a has the lowest mean time, at least 42.0 s, 4 of 5 seeds reached it in time." in found.lines[0]
    assert found.why[0] == (
        "Times are compared up to 50.0 s, the time up to which all runs are known; b with 5 of 5 seeds reached the "
        "target later, which ratios ignore."
    )
    assert (
        "With more rounds, times can be compared for longer: `fedlapse compare OUT/scenario.yaml rounds.max=4`."
        in found.hints
    )
    assert " each within 50.0 s; " in found.why[1]


def test_a_ratio_says_that_it_is_a_bound_and_so_do_its_rounds() -> None:
    """b's third run ends at 60 s without the target: (20 + 20 + 60) / 3 over 10 s, or more; it has 2 rounds in each."""
    found = said(a=[until(10)] * 3, b=[until(20), until(20), never(60)])
    assert "b ≥ 3.33x (at least 33.3 s, 2 of 3 seeds reached it in time)" in found.lines[2]
    assert found.why[2].startswith("b needed ≥ 1.00x as many rounds as a, each 3.33x as long")
    both = said(a=[until(10), until(10), never(60)], b=[until(20), until(20), never(60)])
    assert "b 1.25x (both cut off) (at least 33.3 s" in both.lines[1]
    assert "b needed 1.00x (both cut off) as many rounds as a within 60.0 s, each 1.25x as long" in both.why[2]


def test_a_difference_that_only_an_easier_target_shows_is_a_reason() -> None:
    targets, ends = (Target("accuracy", 0.5), Target("accuracy", 0.9)), [40.0, 42.0, 44.0, 46.0, 48.0, 44.0]

    def run(half: float, end: float) -> Rows:
        return [row(0, half, 0.5, half), row(1, end, 0.9, end - half)]

    a, b = [run(end / 4, end) for end in ends], [run(end / 2, end) for end in ends]
    easier = "For accuracy 0.5 alone, b takes 2.00x [2.00, 2.00] as long as a."
    assert said(targets, a=a, b=b).why[0] == easier
    c = [run(end, 3 * end) for end in ends]  # later at both: said once, of the hardest
    assert not said(targets, a=a, c=c).why[0].startswith("At ")


def test_one_label_is_told_without_a_comparison() -> None:
    assert said(a=[until(10)] * 5).lines == ["a reached accuracy 0.85 in 10.0 s (mean of 5 seeds)."]
    assert said(a=[until(10)] * 2).hints == []


def test_hints_fit_the_scenario() -> None:
    """A map is drawn of replays, which are exact only where no decision depends on time."""
    runs = runs_of(a=[until(10)] * 6, b=[until(11)] * 6)
    (map_,) = verdict(runs, (TARGET,)).hints
    assert "fedlapse map" in map_
    assert verdict(runs, (TARGET,), Plan(replayed_exactly=False)).hints == []
    tune, _ = verdict(runs, (TARGET,), Plan(tuned=False)).hints
    assert "`fedlapse tune --help`" in tune


def test_what_a_scenario_means_for_hints() -> None:
    assert Plan.of(build(SMALL)) == Plan(tuned=False)
    for changes in (
        {"rounds": {"deadline_s": 60}},
        {"rounds": {"ask": 4}},
        {"fleet": [{**SMALL["fleet"][0], "presence": {"off": [[1, 2]]}}]},
    ):
        assert not Plan.of(build(merged(SMALL, changes))).replayed_exactly
    assert Plan.of(build(merged(SMALL, {"tuned": {"fedavg": "by hand"}}))).tuned


def test_nobody_got_there_but_would_with_more_rounds() -> None:
    """Errors of 1/2, 1/3, 1/4 and 1/5 after 1 to 4 rounds of 10 s."""
    rows = [row(k, 10.0 * (k + 1), 1 - 1 / (k + 2), 10) for k in range(4)]
    found = said((Target("accuracy", 0.875),), a=[rows])
    ((pace,), (hint,)) = found.why, found.hints
    rounds = int(re.search(r"about (\d+) rounds", pace)[1])  # type: ignore[index]
    assert 6 <= rounds <= 9  # a power law of the last rounds: a little sooner than 1/8 after 7
    assert f"({10 * rounds}.0 s)" in pace
    assert hint == f"More rounds: `fedlapse compare OUT/scenario.yaml rounds.max={rounds}`."


def test_nobody_reached_it() -> None:
    """Best values are means over seeds; at 90 s, when b ended, a had only its first evaluation, of 0.1."""
    assert said((Target("accuracy", 0.99), TARGET), a=[never(131), never(100)], b=[never(90)]).lines == [
        "No run reached accuracy 0.85 (0 of 3 runs).",
        "Best accuracy by the end: a 0.200 in 116 s, b 0.200 in 90.0 s.",
        "After the same time, 90.0 s: b 0.200, a 0.100.",
    ]


def test_a_run_that_was_stopped_before_its_first_round_is_no_obstacle() -> None:
    assert said(a=[[], []], b=[[]]).lines == ["No round has finished."]
    found = said(a=[until(10)] * 5, b=[[]] * 5)
    assert len(found.lines) == 1
    assert found.why[0] == "No round of b has finished."


def test_without_a_target_the_sentence_says_how_to_set_one() -> None:
    assert "rounds.targets" in said((), a=[until(10)]).lines[0]


def test_hints_name_the_pair_whose_rounds_differ_most() -> None:
    """Rounds of 5, 5.5 and 20 s."""
    found = said(a=[until(10)], b=[until(11)], c=[until(40)])
    assert found.hints[-1].endswith("`fedlapse map OUT -a a -a c`.")
    assert "seeds=[1,2,3,4,5,6,7,8]" in found.hints[0]


# --- why --------------------------------------------------------------------------------------------------------


def test_why_is_rounds_times_seconds_a_round_and_the_largest_part() -> None:
    """quick: 2 rounds of 5 s, 40 % upload. slow: 1 round of 20 s, of which 0.4 x 20 - 0.4 x 5 = 6 s more upload."""
    slow = [row(0, 20, 0.9, 20)]
    longer = "the upload of weights took 6.0 s more and computing took 4.5 s more"
    found = said(quick=[until(10)], slow=[slow])
    assert found.why == [
        "quick: 2 rounds of 5.0 s each; 40 % of the time goes to the upload of weights.",
        f"slow needed 0.50x as many rounds as quick, each 4.00x as long (20.0 s), because {longer}.",
    ]


def test_parts_that_make_rounds_shorter_are_named_too() -> None:
    """quick: 4 rounds of 2.5 s to the target; slow: 2 rounds of 10 s; the best is the faster one."""
    quick = [row(number, 2.5 * (number + 1), 0.9 if number == 3 else 0.1, 2.5) for number in range(4)]
    found = said(slow=[until(9)], quick=[quick])
    assert found.why[1].startswith(
        "quick needed 2.00x as many rounds as slow, each 0.56x as long (2.5 s), because the upload of weights took 0.8"
    )
    assert found.why[1].endswith("0.6 s less.")


def test_with_six_seeds_both_ratios_have_intervals() -> None:
    found = said(a=[until(10)] * 6, b=[until(30)] * 6)
    assert found.why[1].startswith(
        "b needed 1.00x [1.00, 1.00] as many rounds as a, each 3.00x [3.00, 3.00] as long (15.0 s)"
    )
