"""The verdict of `compare`: no ranking without five seeds, intervals and Holm's adjustment with them, k of n always."""

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


def sentence(targets: Sequence[Target] = (TARGET,), **labels: Sequence[Rows]) -> str:
    return said(targets, **labels).sentence


def test_from_five_seeds_on_all_are_set_beside_the_first() -> None:
    """Means 40 and 80; every seed takes exactly twice as long, so the interval has no width."""
    times = [20.0, 30.0, 40.0, 50.0, 60.0]
    text = sentence(fedavg=[until(2 * time) for time in times], fedcl=[*map(until, times)])
    assert text == (
        "fedcl reached accuracy 0.85 first: 40.0 s; 2.00x [2.00, 2.00] sooner than fedavg (80.0 s) (means of 5 seeds)."
    )


def test_an_interval_around_one_shows_no_difference() -> None:
    text = sentence(a=[*map(until, [10, 10, 10, 10, 10])], b=[*map(until, [9, 9, 9.5, 11, 12])])
    assert text.startswith("a reached accuracy 0.85 first: 10.0 s; 1.01x [")
    assert "sooner than b (10.1 s; no difference shown)" in text


def test_equal_runs_show_no_difference() -> None:
    text = sentence(a=[until(10)] * 5, b=[until(10)] * 5)
    assert "1.00x [1.00, 1.00] sooner than b (10.0 s; no difference shown)" in text


def test_one_difference_among_many_comparisons_must_be_large_to_count() -> None:
    """p of the only one that differs lies between 0.05 / 20 and 0.05: alone it is a difference, among 20 it is none."""
    first, other = [10.0, 11, 12, 13, 14, 15], [10.2, 12.0, 11.9, 14.5, 15.0, 16.5]
    alone = sentence(a=[*map(until, first)], b=[*map(until, other)])
    assert "sooner than b (13.3 s)" in alone
    same = {f"c{number}": [*map(until, first)] for number in range(19)}
    among = sentence(a=[*map(until, first)], b=[*map(until, other)], **same)
    assert "sooner than b (13.3 s; not decided among 20 comparisons)" in among


def test_below_five_seeds_there_are_values_and_disjoint_ranges_are_said_to_be_so() -> None:
    text = sentence(slow=[until(40), until(44)], quick=[until(12), until(10)], other=[until(11), until(15)])
    assert text == (
        "accuracy 0.85 was reached by quick in 10.0 s and 12.0 s, other in 11.0 s and 15.0 s and slow in 40.0 s and "
        "44.0 s. 2 seeds: no ranking by statistics; the ranges are disjoint: quick and other before slow."
    )
    assert sentence(a=[until(10), until(20)], b=[until(15), until(30)]).endswith("2 seeds: no ranking by statistics.")


def test_a_seed_that_did_not_get_there_may_have_taken_any_longer() -> None:
    """b's missing seed was played for 11 s only, so it may have been sooner than a's 12 s."""
    assert "disjoint" not in sentence(a=[until(10), until(12)], b=[until(30), never(11)])
    assert "a before b" in sentence(a=[until(10), until(12)], b=[until(30), never(13)])
    assert "disjoint" not in sentence(a=[until(10), never(12)], b=[until(30), until(31)])


def test_k_of_n_is_said_with_how_long_the_others_were_played() -> None:
    text = sentence(a=[until(40), never(131)], b=[never(90), never(80)])
    assert "a in 40.0 s (1 seed not within 131 s) and b in 2 seeds not within 80.0 s to 90.0 s" in text
    five = sentence(a=[*[until(40)] * 4, never(50)], b=[until(10)] * 5)
    assert "sooner than a (4 of 5 seeds within 50.0 s)" in five
    assert five.endswith("Times count up to 50.0 s, as far as all runs are known.")


def test_who_got_there_after_the_horizon_is_named_and_more_rounds_are_advised() -> None:
    """One seed of a is known up to 50 s, so b's 100 s count as 50 s: mean 42 s beside 50 s, not 100 s.

    Runs have 2 rounds at most: to see 100 s of all, they need twice as many.
    """
    found = said(a=[*[until(40)] * 4, never(50)], b=[until(100)] * 5)
    assert "a reached accuracy 0.85 first: 4 of 5 seeds within 50.0 s; 1.19x [" in found.sentence
    assert found.sentence.endswith(
        "Times count up to 50.0 s, as far as all runs are known; b with 5 of 5 seeds got there later, which ratios "
        "leave out."
    )
    assert "More rounds let times count for longer: `fedlapse compare OUT/scenario.yaml rounds.max=4`." in found.hints
    assert " rounds of a within 50.0 s, each " in found.why[1]
    assert " each within 50.0 s; " in found.why[0]


def test_the_hardest_target_that_somebody_reached_is_spoken_of() -> None:
    targets = (Target("accuracy", 0.9), Target("accuracy", 0.99), Target("accuracy", 0.1), TARGET)
    assert sentence(targets, a=[until(10)]) == "accuracy 0.9 was reached by a in 10.0 s."
    held = (Target("accuracy", 0.1), Target("accuracy", 0.1, hold=2))  # harder: for longer
    assert sentence(held, a=[until(10)]).startswith("accuracy 0.1 held 2 was reached by a in 5.0 s")


def test_a_difference_that_only_an_easier_target_shows_is_said() -> None:
    """Halfway `b` takes twice as long, at the end both take the same."""
    targets, ends = (Target("accuracy", 0.5), Target("accuracy", 0.9)), [40.0, 42.0, 44.0, 46.0, 48.0]

    def run(half: float, end: float) -> Rows:
        return [row(0, half, 0.5, half), row(1, end, 0.9, end - half)]

    a, b = [run(end / 4, end) for end in ends], [run(end / 2, end) for end in ends]
    text = sentence(targets, a=a, b=b)
    assert "(44.0 s; no difference shown)" in text
    assert text.endswith(" At accuracy 0.5, taken by itself, a is 2.00x [2.00, 2.00] sooner than b.")
    c = [run(end, 3 * end) for end in ends]  # later at both: said once, of the hardest
    assert sentence(targets, a=a, c=c).count("sooner than c") == 1


def test_one_label_is_told_without_a_comparison() -> None:
    assert sentence(a=[until(10)] * 5) == "a reached accuracy 0.85 in 10.0 s (means of 5 seeds)."
    assert said(a=[until(10)] * 2).hints == []


def test_hints_fit_the_scenario() -> None:
    """A map is drawn of replays, which are exact only where no decision depends on time."""
    runs = runs_of(a=[until(10)] * 5, b=[until(11)] * 5)
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
    text = sentence((Target("accuracy", 0.99), TARGET), a=[never(131), never(100)], b=[never(90)])
    assert text == (
        "No run reached accuracy 0.85 (0 of 3 runs). Best accuracy by the end: a 0.200 in 115.5 s, b 0.200 in 90.0 s. "
        "At equal time, after 90.0 s: b 0.200, a 0.100."
    ).replace("115.5 s", "116 s")


def test_a_run_that_was_stopped_before_its_first_round_is_no_obstacle() -> None:
    assert sentence(a=[[], []], b=[[]]) == "No round was played."
    text = sentence(a=[until(10)] * 5, b=[[]] * 5)
    assert text == "a reached accuracy 0.85 in 10.0 s (means of 5 seeds). No round of b was played."


def test_without_a_target_the_sentence_says_how_to_set_one() -> None:
    assert "rounds.targets" in sentence((), a=[until(10)])


def test_hints_name_the_pair_whose_rounds_differ_most() -> None:
    """Rounds of 5, 5.5 and 20 s."""
    found = said(a=[until(10)], b=[until(11)], c=[until(40)])
    assert found.hints[-1].endswith("`fedlapse map OUT -a a -a c`.")
    assert "seeds=[1,2,3,4,5]" in found.hints[0]
    assert len(said(a=[until(10)] * 5, b=[until(11)] * 5).hints) == 1


# --- why --------------------------------------------------------------------------------------------------------


def test_why_is_rounds_times_seconds_a_round_and_the_largest_part() -> None:
    """quick: 2 rounds of 5 s, 40 % upload. slow: 1 round of 20 s, of which 0.4 x 20 - 0.4 x 5 = 6 s more upload."""
    slow = [row(0, 20, 0.9, 20)]
    longer = "upload of weights 6.0 s longer and compute 4.5 s longer"
    found = said(quick=[until(10)], slow=[slow])
    assert found.why == [
        "quick: 2 rounds of 5.0 s each; 40 % of the time is upload of weights.",
        f"slow: 0.50x the rounds of quick, each 4.00x as long (20.0 s): {longer}.",
    ]


def test_parts_that_make_rounds_shorter_are_named_too() -> None:
    """quick: 4 rounds of 2.5 s to the target; slow: 2 rounds of 10 s; the best is the sooner one."""
    quick = [row(number, 2.5 * (number + 1), 0.9 if number == 3 else 0.1, 2.5) for number in range(4)]
    found = said(slow=[until(9)], quick=[quick])
    assert found.why[1].startswith(
        "quick: 2.00x the rounds of slow, each 0.56x as long (2.5 s): upload of weights 0.8 s "
    )
    assert found.why[1].endswith("shorter.")


def test_with_five_seeds_both_ratios_have_intervals() -> None:
    found = said(a=[until(10)] * 5, b=[until(30)] * 5)
    assert found.why[1].startswith("b: 1.00x [1.00, 1.00] the rounds of a, each 3.00x [3.00, 3.00] as long (15.0 s)")
