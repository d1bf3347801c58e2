"""A study's verdict and page: what they say of numbers that were worked out by hand."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from emulator.analysis import analysis
from emulator.analysis.answer import Answer, Null
from emulator.analysis.comparisons import comparisons, ranking
from emulator.analysis.protocol import ranked
from emulator.record.targets import Target
from emulator.results.comparison import OWN
from emulator.wording.names import role
from emulator.wording.study_page import markdown
from emulator.wording.study_verdict import LINES, short, verdict
from emulator.wording.verdict import over
from scenarios.schema.hardware import Presence
from scenarios.schema.scenario import Scenario
from tests.all_of import all_of
from tests.emulator.analysis.made import TARGET, answer, place, run, runs_of, scenario

PLACEBOS = "the placebos' times, as multiples of the originals'"
WRONG = Null("fedcl-0", 1, 4, 2)
PLACEBO = {"fedcl": {}, "name": "fedcl-shuffled"}
ROLES = {
    "algorithms": ["fedavg", "fedcl", "fedcurv", PLACEBO],
    "placebos": {"fedcl-shuffled": "fedcl"},
}


def with_placebo(rounds: int, seconds: float = 12.0) -> Answer:
    """FedCL takes 5 rounds of 12 s; its placebo what is given."""
    runs = {**runs_of(8), "fedcl-shuffled": {seed: run(rounds, seconds + seed / 9) for seed in range(1, 9)}}
    return answer(runs=runs, said=scenario(8, **ROLES))


def undecided(said: Scenario | None = None) -> Answer:
    """FedCurv takes 36 s in six seeds and 44 s in two, FedAvg 40 s in each."""
    runs = {**runs_of(8), "fedcurv": {seed: run(4, 9.0 if seed % 3 else 11.0) for seed in range(1, 9)}}
    return answer(runs=runs, said=said)


def test_it_begins_with_the_three_lines_of_a_ranking():
    """40 s, 44.5 s and 60 s, each over the first."""
    first, open_, slower = verdict(answer())[:3]
    assert first == "fedavg is fastest to test accuracy 0.8 on the study's own links: 40.0 s (mean of 8 seeds)."
    assert open_ == "Not distinguishable from it: no other algorithm."
    assert slower.startswith("Significantly slower: fedcurv 1.11x [1.")
    assert slower.endswith("] (44.5 s) and fedcl 1.50x [1.50, 1.50] (60.0 s).")


def test_a_pair_of_the_protocol_has_the_same_statistics_in_the_ranking():
    """FedCL takes 20 s: the baseline is compared with it as the protocol compares it with the baseline."""
    made = answer(runs={**runs_of(8), "fedcl": {seed: run(2, 10.0) for seed in range(1, 9)}})
    found = ranking(made.values, ranked(made.scenario), TARGET)
    assert found
    assert (found.best.label, found.fastest) == ("fedcl", "fedcl")
    (fedavg,) = (each for each in found.others if each.label == "fedavg")
    due = made.compared("fedcl", "fedavg", TARGET)
    assert due
    assert due.ratio
    assert (fedavg.ratio, fedavg.adjusted) == (pytest.approx(1 / due.ratio), due.adjusted)


def test_a_pair_is_told_with_its_reasons():
    """60 s over 44.5 s; 5 rounds over 4.5; 12 s a round over 44.5 / 4.5."""
    line = verdict(answer())[3]
    assert line.startswith("fedcl takes 1.35 [1.3")
    assert "] times as long as fedcurv to test accuracy 0.8, which is significant after Holm's cor" in line
    assert "rection: it needs 1.11 [" in line
    assert "times as many rounds, each 1.21 [" in line


def test_significant_and_other_differences_are_kept_apart():
    first, open_, slower, *_, last = verdict(undecided())
    assert first.startswith("No algorithm is significantly faster than all others to ")
    assert open_.startswith("Not distinguishable from it: fedavg 1.05x [")
    assert slower.startswith("Significantly slower: fedcl 1.")
    assert last == "Of 6 comparisons over 1 target and 2 links, 2 are not significant."


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        (7, f"Importance helps fedcl, because every placebo is significantly slower; {PLACEBOS}: fedcl-shuffled 1.4"),
        (3, f"Importance does not help fedcl, because a placebo is faster; {PLACEBOS}: fedcl-shuffled 0.6"),
    ],
)
def test_placebos_say_whether_importance_helps(rounds: int, said: str):
    assert any(line.startswith(said) for line in verdict(with_placebo(rounds)))


def test_a_placebo_that_does_as_well_shows_no_help():
    runs = {**runs_of(8), "fedcl-shuffled": runs_of(8)["fedcl"]}
    told = verdict(answer(runs=runs, said=scenario(8, **ROLES)))
    assert (
        f"Importance has no significant effect on fedcl, because not every placebo is significantly slower; "
        f"{PLACEBOS}: fedcl-shuffled 1.00."
    ) in told


def test_a_placebo_that_is_slower_only_because_its_rounds_are_longer_shows_no_help():
    """5 rounds of 17 s, as with more epochs, where the original has 5 of 12 s."""
    said = f"because not every placebo takes significantly more rounds; {PLACEBOS}: "
    (line,) = (line for line in verdict(with_placebo(5, 17.0)) if line.startswith("Importance"))
    assert line.startswith(f"Importance is not shown to help fedcl, {said}fedcl-shuffled 1.4")


def test_algorithms_whose_placebos_say_the_same_share_a_sentence():
    runs = {**runs_of(8), "fedcl-shuffled": runs_of(8)["fedcl"], "other": runs_of(8)["fedcurv"]}
    said = scenario(
        8,
        algorithms=["fedavg", "fedcl", "fedcurv", PLACEBO, {"fedcurv": {}, "name": "other"}],
        placebos={"fedcl-shuffled": "fedcl", "other": "fedcurv"},
    )
    (line,) = (line for line in verdict(answer(runs=runs, said=said)) if line.startswith("Importance"))
    assert line.startswith("Importance has no significant effect on fedcl and fedcurv, because not every placebo")
    assert line.endswith(": fedcl-shuffled 1.00 and other 1.00.")


def test_later_pairs_are_told_briefly():
    pairs = [["fedcl", "fedcurv"], ["fedcl", "fedavg"], ["fedcl", "fedcurv"], ["fedcurv", "fedavg"]]
    line = re.sub(r"\[[\d., ]+\]", "[]", verdict(answer(said=scenario(8, pairs=pairs)))[4])
    assert line == (
        "fedcl takes 1.50 [] times as long as fedavg (significant) and 1.35 [] times as long as fedcurv (significant); "
        "fedcurv takes 1.11 [] times as long as fedavg (significant)."
    )


def test_a_later_pair_says_whether_it_is_a_control_undecided_or_not_known():
    said = scenario(8, controls=["fedcurv"], pairs=[["fedcl", "fedavg"], ["fedcurv", "fedavg"], ["fedavg", "fedcurv"]])
    made = undecided(said)
    line = verdict(made)[4]
    assert line.startswith("fedcurv takes 0.95 [")
    assert " times as long as fedavg (not significant); fedavg takes 1.05 [" in line
    assert line.endswith(" times as long as fedcurv (a control, not significant).")
    nothing = replace(made, comparisons=[])
    assert (
        "fedavg takes an unknown multiple of fedcurv's time (a control, no time is known for both)."
        in verdict(nothing)[4]
    )


def test_a_control_is_called_one():
    told = verdict(answer(said=scenario(8, controls=["fedcurv"])))
    assert any(
        re.match(r"fedcl takes 1\.35 \[[^]]+\] times as long as fedcurv \(a control\) to", line) for line in told
    )
    assert all_of("fedcurv 1.11" not in line for line in told)  # it is not ranked


def test_shares_of_the_map_and_of_traces():
    told = verdict(answer())
    assert "Of the 2 links and device speeds on the map, fedavg is fastest on 2 (100 %)." in told
    open_ = replace(answer().cells[0], contrast=None)
    assert (
        "fedavg is fastest on 1 (50 %) and 1 (50 %) is undecided."
        in verdict(answer(cells=[answer().cells[0], open_]))[4]
    )


def test_between_the_two_of_a_pair_alone_it_says_who_is_first_on_recorded_links_too():
    cells = answer().cells
    told = verdict(answer(trace_duels={("fedavg", "fedcl"): [cells[0], replace(cells[0], contrast=None)]}))
    assert (
        "Of the 1 recorded links, fedavg is fastest on 1 (100 %); between fedavg and fedcl alone, fedavg is fastest on "
        "1 (50 %) and 1 (50 %) is undecided."
    ) in told


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(10.05, "Significantly slower: fedcl 1.005x ["), (9.95, "Significantly slower: fedavg 1.005x [")],
)
def test_next_to_nothing_is_called_so(seconds: float, said: str):
    """As many rounds as FedAvg's, each half a percent longer or shorter: significant, and of no consequence."""
    runs = {**runs_of(8), "fedcl": {seed: run(4, seconds, importance=True) for seed in range(1, 9)}}
    assert any(said in line for line in verdict(answer(runs=runs)))


def test_places_that_are_won_by_next_to_nothing_are_counted():
    runs = {"fedavg": runs_of(8)["fedavg"], "fedcl": {seed: run(4, 10.05) for seed in range(1, 9)}}
    cells = [place({"up_mbit_s": 1.0}, runs), place({"up_mbit_s": 2.0}, {k: runs_of(8)[k] for k in runs})]
    assert [each.slight for each in cells] == [True, False]
    told = verdict(answer(cells=[cells[0]]))
    assert any("fedavg is fastest on 1 (100 %; all of them by less than 1 %)." in line for line in told)


def test_the_main_target_is_that_of_the_middle_share():
    """0.9, 0.95 and 0.99 of 0.9, beside two that papers name: the middle of all five would be another."""
    targets = [Target("accuracy", value, 1) for value in (0.5, 0.6, 0.81, 0.855, 0.891)]
    assert answer(targets=targets).main.value == 0.855
    without = scenario(8, shares=[], values=[0.5, 0.6, 0.81])
    assert answer(targets=targets[:3], said=without).main.value == 0.6


def test_the_first_crossing_stands_beside_the_time_from_which_a_target_was_held():
    """The target is touched in the second round of 10 s, and held from the fourth on."""
    held = Target("accuracy", 0.8, 3)
    runs = {label: {seed: run(4, 10.0, early=2) for seed in range(1, 9)} for label in ("fedavg", "fedcl", "fedcurv")}
    page = markdown(answer(values=analysis.all_values({OWN: runs}, [held]), targets=[held]), {})
    assert "| fedavg | baseline | 40.0 (8 of 8) | 20.0 (8 of 8) |" in page
    assert "test accuracy 0.8, first crossing |" in page
    assert "first crossing" not in markdown(answer(), {})


def test_the_short_verdict_has_the_answer_importance_and_how_much_is_not_significant():
    made = with_placebo(7)
    told = verdict(made)
    assert short(made) == [*told[:3], next(line for line in told if line.startswith("Importance ")), told[-1]]
    warned = verdict(replace(made, exploratory=True))
    assert short(replace(made, exploratory=True)) == [*warned[:4], warned[-1]]
    assert short(answer(3)) == verdict(answer(3))


def test_where_not_all_seeds_got_there_the_page_says_so_beside_the_rounds():
    """FedCL gets there in none of eight seeds, so that its ten rounds of 12 s count."""
    runs = {**runs_of(8), "fedcl": {seed: run(99, 12.0) for seed in range(1, 9)}}
    made = answer(runs=runs)
    line = next(line for line in verdict(made) if line.startswith("fedcl takes "))
    assert " times as many rounds, each " in line
    assert line.endswith(
        " times as long (rounds are counted until 120 s, because fedcl reached it in only 0 of 8 seeds)."
    )
    (row,) = (
        line for line in markdown(made, {}).splitlines() if line.startswith("| fedcl | fedcurv | 0 and 8 of 8 | ")
    )
    _, rounds, pace, *amounts = row.removeprefix("| fedcl | fedcurv | 0 and 8 of 8 | ").strip("| ").split(" | ")
    assert all("[" in each for each in (rounds, pace, *amounts))


def test_a_ratio_says_who_got_there_where_not_all_did():
    nobody = {label: {seed: run(99, 12.0) for seed in range(1, 9)} for label in ("fedavg", "fedcl", "fedcurv")}
    assert "| fedcl | fedavg | neither reached it |" in markdown(answer(runs=nobody), {})
    some = {**runs_of(8), "fedcl": {seed: run(5 if seed < 4 else 99, 12.0) for seed in range(1, 9)}}
    page = markdown(answer(runs=some), {})
    assert " (3 and 8 of 8) |" in page
    assert "| fedcl | ranked | ≥ " in page


def cut(reached: int) -> Answer:
    """FedCL gets there in so many of eight seeds; else it stops after ten rounds of 12 s."""
    runs = {**runs_of(8), "fedcl": {seed: run(5 if seed <= reached else 99, 12.0) for seed in range(1, 9)}}
    return answer(runs=runs)


def test_a_ratio_of_which_one_side_never_got_there_is_a_bound():
    """120 s over 40 s at least."""
    page = markdown(cut(0), {})
    assert "| fedcl | fedavg | ≥ 3.00 [3.00, ∞] ✓ (0 and 8 of 8) |" in page
    assert "| fedcl | fedavg | ≥ 3.00 [3.00, ∞] ✓ (0 and 8 of 8 in 120 s) |" in page  # on the other link
    assert "fedcl ≥ 3.00x [3.00, ∞] (at least 120 s, 0 of 8 seeds reached it in time)" in verdict(cut(0))[2]


def test_a_ratio_of_which_one_side_missed_some_seeds_is_a_bound_in_each_place():
    """FedCL gets there in seven of eight seeds: (7 x 60 + 120) / 8 = 67.5 s or more, over 40 s; (7 x 5 + 10) / 8 rounds
    over 4.  FedAvg over it is at most the inverse."""
    made = cut(7)
    assert " fedcl ≥ 1.69x [1." in verdict(made)[2]
    assert "∞] (at least 67.5 s, 7 of 8 seeds" in verdict(made)[2]
    page = markdown(made, {})
    assert re.search(r"\| fedcl \| fedavg \| ≥ 1\.69 \[1\.\d+, ∞\] ✓? ?\(7 and 8 of 8\) \|", page)
    (row,) = (line for line in page.splitlines() if line.startswith("| fedcl | fedavg | 7 and 8 of 8 | "))
    time, rounds, pace, *amounts = row.split(" | ")[3:]
    assert time.startswith("≥ 1.69 [")
    assert rounds.startswith("≥ 1.41 [")
    assert pace == "1.20 [1.20, 1.20]"
    assert all_of(each.startswith("≥ ") for each in amounts)
    (back,) = comparisons(made.values[:2], [("fedavg", "fedcl")])
    assert (back.bound, over(back).split(" [")[0]) == ("high", "≤ 0.59x")


def test_a_ratio_of_too_few_seeds_is_not_shown():
    runs = {label: {seed: run(4 if seed < 3 else 99, 12.0) for seed in range(1, 9)} for label in ("fedavg", "fedcl")}
    page = markdown(answer(runs={**runs_of(8), **runs}), {})
    assert "| fedcl | fedavg | too few (2 and 2 of 8) |" in page


@pytest.mark.parametrize(
    ("reached", "said"),
    [
        (0, ", 6 of them because neither algorithm reached the target in 3 seeds."),
        (2, ", 6 of them because neither "),
        (3, "."),
    ],
)
def test_comparisons_of_which_too_few_seeds_got_there_are_counted_apart(reached: int, said: str):
    each = {seed: run(4 if seed <= reached else 99, 12.0) for seed in range(1, 9)}
    told = verdict(answer(runs=dict.fromkeys(("fedavg", "fedcl", "fedcurv"), each)))
    assert f" 6 are not significant{said}" in told[-1]


def test_the_page_says_in_how_many_rounds_a_null_is_the_baseline():
    some = [Null("fedcl-0", 1, 4, None), Null("fedcl-0", 2, 3, None)]
    assert "| fedcl-0 | yes, in all 7 rounds |" in markdown(answer(nulls=some), {})
    assert "| fedcl-0 | no: seed 1, round 3 |" in markdown(answer(nulls=[WRONG, *some[1:]]), {})


def test_a_null_that_differs_is_said_first():
    assert verdict(answer(nulls=[WRONG]))[0] == (
        "The study is invalid: without their penalty, fedcl-0 must learn exactly as fedavg does, but did not."
    )


def test_exploratory_is_the_first_word():
    assert verdict(answer(exploratory=True))[0] == "Exploratory: the protocol was changed after records were made."
    both = verdict(answer(exploratory=True, nulls=[WRONG]))[0]
    assert both.startswith("Exploratory: the protocol was changed after records were made, and the study is invalid: ")


def test_below_6_seeds_nothing_is_called_significant():
    """FedAvg is faster in every seed, by the same factor; the least p of five seeds is 1/16."""
    first, open_, slower, ratios, *_ = verdict(answer(5))
    assert ": 5 seeds are too few to tell a difference from chance. fedavg has the lowest mean time" in first
    assert open_ == "Not distinguishable from it: no other algorithm."
    assert slower.startswith("Significantly slower: unknown with fewer than 7 seeds; every seed took longer than any")
    assert ratios == "In mean times, fedcl takes 1.35 times as long as fedcurv."


def test_too_few_seeds_for_so_many_comparisons_are_said():
    """Two links, so two comparisons of each pair: six seeds give an adjusted p of 2/32 at the least."""
    told = verdict(answer(6))
    assert told[-1] == (
        "Of 6 comparisons over 1 target and 2 links, 6 are not significant, because 6 seeds are too few for so many."
    )
    assert "too few for so many" not in verdict(answer(7))[-1]


def test_below_5_seeds_there_are_values_only():
    told = verdict(answer(3))
    assert "3 seeds are too few to tell a difference from chance. fedavg has the lowest mean time, 40.0 s." in told[0]
    assert told[3] == "In mean times, fedcl takes 1.34 times as long as fedcurv."
    assert all_of("[" not in line for line in told)


def test_where_a_seed_did_not_get_there_the_horizon_is_told():
    """FedCL's last seed stops after 120 s, when FedCurv's and FedAvg's have long got there: (7 x 60 + 120) / 8."""
    runs = runs_of(8)
    made = answer(runs={**runs, "fedcl": {**runs["fedcl"], 5: run(11, 12.0)}})
    assert "(at least 67.5 s, 7 of 8 seeds reached it in time)" in "".join(verdict(made)[:3])
    page = markdown(made, {})
    assert "| fedcl | ranked | ≥ 67.5 (7 of 8) |" in page


def test_nobody_reached_it():
    runs = {label: {seed: run(11, 10.0) for seed in of} for label, of in runs_of(8).items()}
    assert verdict(answer(runs=runs))[0] == "No ranked algorithm reached test accuracy 0.8 on the study's own links."


def test_never_more_than_eleven_lines():
    made = replace(with_placebo(7), exploratory=True, nulls=[WRONG], unknown=["fedcl is unknown on fast"])
    pairs = [["fedcl", "fedcurv"], ["fedcurv", "fedcl"], ["fedcl-shuffled", "fedcurv"]]
    told = verdict(replace(made, scenario=scenario(8, **{**ROLES, "pairs": pairs})))
    assert len(told) <= LINES
    assert all_of((line.endswith(".") and line[0].isupper()) or line.startswith("fed") for line in told)
    assert told == verdict(replace(made, scenario=scenario(8, **{**ROLES, "pairs": pairs})))
    assert told[-1].endswith("are not significant, and 1 time could not be replayed.")


def test_the_page_says_what_is_wrong_with_the_runs():
    page = markdown(answer(warnings=["fedcurv: in 9 of 9 rounds the penalty does nothing"]), {})
    assert "- fedcurv: in 9 of 9 rounds the penalty does nothing." in page
    assert "Warnings about the runs" not in markdown(answer(), {})


@pytest.mark.parametrize("away", [True, False])
def test_where_time_decides_who_learns_a_null_may_differ(away: bool):
    said = scenario(8)
    group = said.fleet[0].model_copy(update={"presence": Presence(off=((5.0, 6.0),))})
    made = replace(answer(nulls=[WRONG]), scenario=said.model_copy(update={"fleet": (group,)} if away else {}))
    assert verdict(made)[0].startswith("The study is invalid") is not away
    assert ("Not so here" in markdown(made, {})) is away


@pytest.mark.parametrize(
    ("tuned", "said"),
    [
        ({}, ", with the settings for the study's own links. ✓"),
        ({"fast": {"up_mbit_s": 9}}, ", each with the best settings there. ✓"),
        ({"slow": {"up_mbit_s": 9}}, ", with the settings for the study's own links. ✓"),
    ],
)
def test_the_page_says_for_which_links_settings_were_chosen(tuned: dict[str, object], said: str):
    plain = scenario(8)
    assert plain.tune
    tune = plain.tune.model_copy(update={"links": tuned})
    page = markdown(replace(answer(), scenario=plain.model_copy(update={"tune": tune})), {})
    assert (
        f"Time to test accuracy 0.8 of the first algorithm divided by the second's on other links{said}: significant."
        in page
    )


def test_the_page_says_where_replays_are_not_known():
    cell = answer().cells[0]
    lost = replace(cell, means={"fedavg": 40.0})
    page = markdown(answer(cells=[cell, lost]), {})
    assert "fedcl is unknown in 1 of them, because other devices would be selected or aggregated there" in page
    assert "is unknown in" not in markdown(answer(), {})


def test_the_page_names_everything():
    made = with_placebo(7)
    page = markdown(made, {"ratios": "figures/ratios.png"})
    assert made.digest in page
    for entry in made.scenario.algorithms:
        assert f"| {entry.name} | {role(made.scenario, entry.name)} |" in page
    assert "placebo of fedcl" in page
    assert "](figures/ratios.png)" in page
    assert "figures/map.png" not in page
    assert all_of(line in page for line in verdict(made))
    assert page == markdown(with_placebo(7), {"ratios": "figures/ratios.png"})


def test_a_row_that_ends_early_cuts_no_times_but_its_own():
    """The row stops after 30 s, and FedCurv takes 40 s and more; over FedAvg's 40 s, cut there to 30 s, it takes 1
    times."""
    runs = {**runs_of(8), "row": {seed: run(99, 3.0) for seed in range(1, 9)}}
    found = analysis.all_values({OWN: runs}, [TARGET])
    assert {each.label: (each.tau, each.reached) for each in found} == {
        **dict.fromkeys(runs_of(8), (math.inf, 8)),
        "row": (30.0, 0),
    }
    (compared,) = comparisons(found, [("row", "fedavg")])
    assert compared.contrast
    assert (compared.contrast.ratio, compared.contrast.tau, compared.contrast.base_reached) == (1.0, 30.0, 0)
    (why,) = analysis.reasons(found, runs, [("row", "fedavg")], OWN)
    assert why.split
    assert why.split.time.ratio == 1.0
