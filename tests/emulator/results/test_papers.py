"""Numbers that papers state, beside ours: shown, never judged."""

import pytest

from emulator.results.papers import beside, steps
from emulator.wording import tables
from scenarios.schema.scenario import Published


def rows(*accuracies):
    return [
        {"round": number, "time_s": float(number), "accuracy": accuracy, "bytes": {"down": {}, "up": {}}}
        for number, accuracy in enumerate(accuracies)
    ]


def runs(**seeds):
    return {label: dict(enumerate(of, 1)) for label, of in seeds.items()}


def test_a_final_value_is_the_last_that_was_measured():
    (found,) = beside([Published(label="a", final=0.8, source="Table 1")], runs(a=[rows(0.1, 0.5, None), rows(0.7)]))
    assert found["ours"] == {"mean": pytest.approx(0.6), "low": 0.5, "high": 0.7}
    assert (found["theirs"], found["seeds"], found["what"]) == (0.8, {"1": 0.5, "2": 0.7}, "accuracy at the end")


def test_rounds_to_a_value_count_from_one_and_a_seed_that_never_gets_there_is_infinite():
    said = Published(label="a", value=0.5, rounds=9)
    (found,) = beside([said], runs(a=[rows(0.1, 0.5), rows(0.2, 0.3)]))
    assert found["seeds"] == {"1": 2, "2": None}
    assert (found["reached"], found["of"], found["ours"]["high"]) == (1, 2, None)


def test_a_ratio_to_the_baselines_rounds_is_taken_seed_by_seed():
    said = Published(label="b", value=0.5, ratio=0.528)
    ran = runs(a=[rows(0.1, 0.1, 0.1, 0.5), rows(0.1, 0.5)], b=[rows(0.1, 0.5), rows(0.5)])
    (found,) = beside([said], ran)
    assert found["seeds"] == {"1": 0.5, "2": 0.5}
    (step,) = steps([found])
    assert (step.theirs, step.agrees) == (0.528, "as published")


def test_a_gap_to_another_algorithm_is_taken_seed_by_seed_and_is_a_lead_by_itself():
    """As Yao et al. say of Fig. 4: 13.83 points above one, 5.58 above another, and no number of either."""
    said = [Published(label="c", final=0.1383, over="a"), Published(label="c", final=0.0558, over="b")]
    ran = runs(a=[rows(0.4), rows(0.5)], b=[rows(0.7), rows(0.6)], c=[rows(0.5), rows(0.6)])
    first, second = beside(said, ran)
    assert first["seeds"] == {"1": pytest.approx(0.1), "2": pytest.approx(0.1)}
    assert first["what"] == "accuracy at the end, above a's"
    assert [(step.theirs, step.agrees) for step in steps([first, second])] == [
        (0.1383, "as published"),
        (0.0558, "undecided"),  # 0.2 below in one seed, and none above in the other
    ]


def test_a_gap_to_an_algorithm_that_was_not_run_is_not_known():
    (found,) = beside([Published(label="c", final=0.1383, over="a")], runs(c=[rows(0.5)]))
    assert (found["seeds"], found["of"]) == ({}, 0)
    assert steps([found])[0].agrees == "undecided"


def test_a_label_that_was_not_run_is_left_out():
    assert beside([Published(label="zzz", final=0.8)], runs(a=[rows(0.1)])) == []


@pytest.mark.parametrize(
    ("ours", "agrees"),
    [
        ((0.41, 0.45), "as published"),  # the median is +0.03, less than twice +0.02
        ((0.412, 0.414), "as published"),  # 0.013 is more than half of it
        ((0.3, 0.5), "undecided"),  # +0.02 lies between, but so does no difference at all
        ((0.39, 0.45), "undecided"),  # the median is +0.02, but one seed has the other sign
        ((0.401, 0.402), "same direction"),
        ((0.5, 0.6), "same direction"),
        ((0.3, 0.2), "against it"),
        ((0.4, 0.41), "undecided"),  # one seed differs in no direction
        ((0.4, 0.4), "undecided"),
    ],
)
def test_a_step_is_as_published_if_its_direction_and_its_size_are(ours, agrees):
    said = [Published(label="a", final=0.8), Published(label="b", final=0.82)]
    found = beside(said, runs(a=[rows(0.4), rows(0.4)], b=[rows(value) for value in ours]))
    (step,) = steps(found)
    assert step.theirs == pytest.approx(0.02)
    assert step.agrees == agrees
    assert step.ours["low"] == pytest.approx(min(ours) - 0.4)


def test_the_size_is_that_of_the_median():
    """Seeds differ by 0.01, 0.03 and 0.4: their mean, 0.147, is more than twice 0.02, and their median is not."""
    said = [Published(label="a", final=0.8), Published(label="b", final=0.82)]
    ran = runs(a=[rows(0.4)] * 3, b=[rows(0.41), rows(0.43), rows(0.8)])
    (step,) = steps(beside(said, ran))
    assert (step.median, step.agrees) == (pytest.approx(0.03), "as published")


@pytest.mark.parametrize(
    ("ours", "agrees"), [((0.4, 0.4), "as published"), ((0.41, 0.42), "undecided"), ((0.4, 0.41), "undecided")]
)
def test_where_a_paper_has_no_difference_only_none_is_as_published(ours, agrees):
    said = [Published(label="a", final=0.8), Published(label="b", final=0.8)]
    (step,) = steps(beside(said, runs(a=[rows(0.4)] * 2, b=[rows(value) for value in ours])))
    assert (step.theirs, step.agrees) == (0.0, agrees)


def test_an_infinite_ratio_is_of_no_size_but_one_of_three_seeds_leaves_the_median():
    said = [Published(label="b", value=0.5, ratio=0.528)]
    slow, quick = rows(0.1, 0.1, 0.1, 0.5), rows(0.1, 0.5)
    (step,) = steps(beside(said, runs(a=[slow, slow, rows(0.1)], b=[quick] * 3)))
    assert (step.median, step.ours["low"], step.agrees) == (0.5, 0.0, "as published")
    (step,) = steps(beside(said, runs(a=[slow, rows(0.1), rows(0.1)], b=[quick] * 3)))
    assert (step.median, step.agrees) == (0.0, "same direction")


def test_the_mean_of_the_last_values_is_asked_for():
    said = [Published(label="a", final=0.8)]
    (found,) = beside(said, runs(a=[rows(0.9, 0.5, None, 0.7)]), ending=2)
    assert found["seeds"] == {"1": pytest.approx(0.6)}


def test_only_seeds_that_both_have_played_are_compared():
    ran = {"a": {1: rows(0.1, 0.5)}, "b": {1: rows(0.5), 2: rows(0.5)}}
    for said in (FEWER, AS_RATIOS[0]):
        (step,) = steps(beside(said, ran))
        assert (step.ours["low"], step.known, step.of) == (0.5, 1, 1)


def test_fewer_rounds_are_a_ratio_below_one():
    said = [Published(label="a", value=0.5, rounds=30), Published(label="b", value=0.5, rounds=9)]
    found = beside(said, runs(a=[rows(0.1, 0.1, 0.1, 0.5)], b=[rows(0.1, 0.5)]))
    (step,) = steps(found)
    assert (step.theirs, step.ours["mean"], step.agrees) == (0.3, 0.5, "as published")  # log 0.5 / log 0.3 = 0.58


FEWER = [Published(label="a", value=0.5, rounds=30), Published(label="b", value=0.5, rounds=9)]
MORE = [Published(label="a", value=0.5, rounds=9), Published(label="b", value=0.5, rounds=30)]
AS_RATIOS = [[Published(label="b", value=0.5, ratio=ratio)] for ratio in (0.3, 3.0)]  # the same, where no rounds stand
EITHER_WAY = pytest.mark.parametrize("stated", [(FEWER, MORE), AS_RATIOS], ids=["rounds", "ratio"])


@EITHER_WAY
def test_a_baseline_that_never_got_there_is_evidence_for_the_other_one(stated):
    ran = runs(a=[rows(0.1, 0.5), rows(0.1)], b=[rows(0.5), rows(0.5)])
    (fewer,), (more,) = (steps(beside(said, ran)) for said in stated)
    assert (fewer.ours["low"], fewer.ours["high"]) == (0.0, 0.5)
    assert (fewer.agrees, more.agrees) == ("same direction", "against it")


@EITHER_WAY
def test_one_that_never_got_there_where_the_baseline_did_is_evidence_against_it(stated):
    ran = runs(a=[rows(0.1, 0.5), rows(0.5)], b=[rows(0.1, 0.1, 0.5), rows(0.1)])
    (fewer,), (more,) = (steps(beside(said, ran)) for said in stated)
    assert fewer.ours["high"] is None
    assert (fewer.agrees, more.agrees) == ("against it", "same direction")


@EITHER_WAY
def test_where_neither_got_there_in_a_seed_a_step_is_undecided(stated):
    said, _ = stated
    (step,) = steps(beside(said, runs(a=[rows(0.1, 0.5), rows(0.1)], b=[rows(0.5), rows(0.1)])))
    assert (step.agrees, step.known, step.of) == ("undecided", 1, 2)
    (step,) = steps(beside(said, runs(a=[rows(0.1)], b=[rows(0.1)])))
    assert (step.agrees, step.ours["low"]) == ("undecided", None)


def test_the_table_shows_both():
    said = [Published(label="a", final=0.8, source="Table 1"), Published(label="a", value=0.5, rounds=30)]
    shown = tables.published({"published": beside(said, runs(a=[rows(0.25, 0.5)]))})
    assert shown.rows == [
        ("a", "accuracy at the end", "Table 1", "0.800", "0.500", ""),
        ("a", "rounds to accuracy 0.5", "", "30", "2", ""),
    ]


@pytest.mark.parametrize("said", [{}, {"final": 0.5, "value": 0.5}, {"value": 0.5}, {"rounds": 3}])
def test_a_number_is_a_final_value_or_rounds_to_one(said):
    with pytest.raises(ValueError, match="a published number is"):
        Published(label="a", **said)
