"""Runs on other links, horizons, cells and borders of a study, with numbers that are worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from emulator.analysis import analysis
from emulator.analysis.answer import Null
from emulator.analysis.cells import AXES, UNDECIDED, UNKNOWN, Cell, borders, cell, crossing, grid, winners
from emulator.analysis.comparisons import comparisons, ranking
from emulator.analysis.protocol import pairs, protocol_of, ranked
from emulator.record.targets import Target
from emulator.results import resampling
from emulator.results.comparison import LEVEL
from emulator.results.holm import holm
from emulator.results.observed import Observed
from emulator.results.restricted import Timed, contrast
from emulator.results.times import Values, common, values
from emulator.sessions.places import Places, alike
from emulator.tuning.digest import digest
from emulator.tuning.scores import ScoreCurve
from emulator.tuning.search import SearchResult
from emulator.tuning.space import Dimension, Space
from network.links.remark import Remark
from scenarios.load import build
from scenarios.schema.study import Grid, Rule
from scenarios.text.faults import BadScenario

TARGET = Target("accuracy", 0.5, 1)
SEEDS = range(1, 9)


def rows(accuracies: Sequence[float], length: float = 10.0) -> list[dict[str, Any]]:
    """Rounds of equal length that carry 100 bytes each."""
    return [
        {
            "round": n,
            "time_s": length * (n + 1),
            "accuracy": value,
            "bytes": {"up": {"weights": 60}, "down": {"weights": 40}},
        }
        for n, value in enumerate(accuracies)
    ]


def test_what_is_assumed_of_several_recordings_is_said_once() -> None:
    form = "{} lie there, with {} left"
    said = [(Remark.of(form, 0.41, 0.484), "a"), (Remark.of(form, 0.454, 0.476), "b"), ("no {} uplink, 5% of it", "b")]
    assert said[0][0] == "41% lie there, with 48% left"
    assert list(alike(said)) == ["41 to 45% lie there, with 48% left (a and b)", "no {} uplink, 5% of it (b)"]


def test_what_a_run_has_used_until_a_time() -> None:
    run = Observed.of(rows([0.1, 0.2, 0.6]), due=3)
    assert [run.rounds_until(time) for time in (0, 5, 10, 25, 30, 99)] == [0, 0.5, 1, 2.5, 3, 3]
    assert [run.bytes_until(time) for time in (5, 10, 25, 99)] == [50, 100, 250, 300]
    assert run.joules_until(10) is None  # nobody says what devices draw


def test_on_other_links_a_target_is_reached_in_the_same_round() -> None:
    run = Observed.of(rows([0.1, 0.6, 0.7]), due=3)
    assert run.timed(TARGET) == Timed(20, 30)
    assert run.elsewhere([1, 3, 6]).timed(TARGET) == Timed(3, 6)


def test_what_is_held_at_the_end_may_have_been_reached_when_it_began() -> None:
    """Rounds end at 10, 20, ... s; a target that is to be held for three of them."""
    held = Target("accuracy", 0.5, 3)
    assert Observed.of(rows([0.1, 0.2, 0.6, 0.7]), due=4).timed(held) == Timed(None, 30)
    assert Observed.of(rows([0.6, 0.7, 0.2, 0.6]), due=4).timed(held) == Timed(None, 40)
    assert Observed.of(rows([0.6, 0.7, 0.6, 0.2]), due=4).timed(held) == Timed(10, 40)
    assert Observed.of(rows([0.6, 0.7, 0.2, 0.3]), due=4).timed(held) == Timed(None, 40)


def test_a_run_that_failed_is_watched_for_ever() -> None:
    assert Observed.of(rows([0.1]), due=3).timed(TARGET) == Timed(None, inf)
    assert Observed.of(rows([0.1]), due=3, until=10).timed(TARGET) == Timed(None, 10)  # it came to its end


@pytest.mark.parametrize(
    ("times", "wanted", "tau"),
    [
        ([Timed(5, 5), Timed(None, 8), Timed(None, 7)], None, 7),
        ([Timed(5, 5), Timed(None, 8)], 6, 6),
        ([Timed(5, 5), Timed(9, 9)], None, inf),
        ([Timed(5, 5), Timed(9, 9), Timed(None, inf)], None, 9),  # all that did not get there have failed
        ([Timed(None, inf)], None, 0),
    ],
)
def test_the_horizon_is_the_same_for_all(times: Sequence[Timed], wanted: float | None, tau: float) -> None:
    assert common(times, wanted) == tau


def runs(ends: Mapping[str, Sequence[float]]) -> dict[str, dict[int, Observed]]:
    """For each label and seed a run that reaches the target in its first round, at this second."""
    return {
        label: {seed: Observed.of(rows([0.6], end), due=1) for seed, end in zip(SEEDS, of, strict=True)}
        for label, of in ends.items()
    }


FAST, SLOW = (10.0, 11, 9, 10, 12, 10, 11, 9), (30.0, 31, 29, 30, 33, 30, 31, 29)
SAME = (10.0, 9, 11, 12, 10, 9, 10, 11)


def test_p_values_are_adjusted_over_the_targets_and_links_of_a_pair() -> None:
    here = runs({"a": FAST, "b": SAME, "c": SLOW})
    late = {
        label: {seed: run.elsewhere([100 - run.stamps[0]]) for seed, run in of.items()} for label, of in here.items()
    }
    found = [each for link, on in (("own", here), ("late", late)) for each in values(link, TARGET, on, None)]
    made = comparisons(found, [("b", "a"), ("c", "a")])
    assert [(each.link, each.label) for each in made] == [("own", "b"), ("late", "b"), ("own", "c"), ("late", "c")]
    for pair in (made[:2], made[2:]):
        adjusted = holm({n: each.contrast.p for n, each in enumerate(pair) if each.contrast})
        assert [each.adjusted for each in pair] == list(adjusted.values())
    assert [each.faster for each in made] == [None, None, "a", "c"]


def test_a_third_that_ended_early_decides_nothing_between_two() -> None:
    """C stops after 5 s without the target, before anybody gets there."""
    cut = {seed: Observed.of(rows([0.1], 5.0), due=1) for seed in SEEDS}
    on = {**runs({"a": FAST, "b": SLOW}), "c": cut}
    there = comparisons(values("own links", TARGET, on, None), [("b", "a"), ("c", "a")])
    assert [each.contrast.tau for each in there if each.contrast] == [inf, 5]
    assert [(each.contrast.reached, each.contrast.base_reached) for each in there if each.contrast] == [(8, 8), (0, 0)]
    assert there[0].contrast
    assert there[0].contrast.ratio == pytest.approx(sum(SLOW) / sum(FAST))
    third = {seed: Timed(None, 5.0) for seed in SEEDS}
    found = cell({}, {"c": third, "b": timed(SLOW), "a": timed(FAST)}, {})
    assert {*found.means.values()} == {5.0}
    assert (found.first, found.second, found.winner) == ("a", "b", UNDECIDED)  # nobody knows of c


def test_of_two_that_lead_the_sooner_over_their_own_horizon_is_first() -> None:
    """Up to 9.5 s, where the third ends, b is ahead of a by one early seed; over all their times a is."""
    early = (6.0, *[30] * 7)
    third = {seed: Timed(None, 9.5) for seed in SEEDS}
    found = cell({}, {"a": timed([10.0] * 8), "b": timed(early), "c": third}, {})
    assert found.means["b"] < found.means["a"] == found.means["c"]
    assert (found.first, found.second) == ("a", "b")


def test_one_that_ends_early_changes_no_other_s_mean_and_not_who_is_best() -> None:
    """B misses once, at 700 s, and is ahead until 12 s; over all that is known of A and B, A takes 10.25 s on average
    and B (7 x 6 + 700) / 8 s.  C ends after 5 s, and D fails without reaching anything."""
    on = runs({"a": FAST, "b": [6.0] * 8})
    on["b"][8] = Observed.of(rows([0.1], 700.0), due=1)
    on["c"] = {seed: Observed.of(rows([0.1], 5.0), due=1) for seed in SEEDS}
    on["d"] = {seed: Observed.of(rows([0.1], 1.0), due=9) for seed in SEEDS}
    found = analysis.all_values({"own links": on}, [TARGET])
    assert [(each.label, each.mean, each.reached, each.tau) for each in found] == [
        ("a", 10.25, 8, inf),
        ("b", (7 * 6 + 700) / 8, 7, 700),
        ("c", 5, 0, 5),
        ("d", 0, 0, 0),
    ]
    there = ranking(found, ["a", "b", "c", "d"], TARGET)
    assert there
    assert (there.best.label, there.best.mean, there.best.reached) == ("a", 10.25, 8)
    assert {each.label: each.ratio for each in there.others} == {
        "b": pytest.approx((7 * 6 + 700) / 8 / 10.25),
        "c": 1,
        "d": pytest.approx(12 / 10.25),  # all that missed have failed, so times count up to the last that is known
    }


def test_a_mean_that_is_cut_off() -> None:
    times = {1: Timed(5, 5), 2: Timed(None, 8), 3: Timed(20, 20)}
    found = Values("own", TARGET, "a", times, 8)
    assert (found.mean, found.reached) == ((5 + 8 + 8) / 3, 1)


def timed(ends: Sequence[float]) -> dict[int, Timed]:
    return {seed: Timed(end, end) for seed, end in zip(SEEDS, ends, strict=True)}


def test_a_cell_is_won_only_where_the_interval_leaves_1_out() -> None:
    assert cell({}, {"a": timed(FAST), "c": timed(SLOW)}, {}).winner == "a"
    assert cell({}, {"a": timed(FAST), "b": timed(SAME)}, {}).winner == UNDECIDED
    never = {seed: Timed(None, 50.0) for seed in SEEDS}
    assert cell({}, {"a": never, "b": never}, {}).winner == UNKNOWN
    beside = cell({}, {"a": timed(FAST), "b": never}, {})
    assert (beside.first, beside.second, beside.means["b"]) == ("a", "b", 50)


def test_a_cell_is_won_only_if_every_other_is_slower() -> None:
    """C is last on average, behind B, but six of its seeds are sooner than any of A's."""
    wide = timed([5.0] * 6 + [120.0] * 2)
    both = cell({}, {"a": timed(FAST), "b": timed(SLOW), "c": wide}, {})
    alone = contrast(wide, timed(FAST), inf)
    assert alone
    assert (both.first, both.second, both.winner) == ("a", "b", UNDECIDED)
    assert both.p == alone.p > LEVEL
    assert cell({}, {"a": timed(FAST), "b": timed(SLOW)}, {}).winner == "a"


def test_counts_of_the_cells_name_the_baseline_even_where_it_wins_none() -> None:
    cells = [cell({}, {"a": timed(FAST), "c": timed(SLOW)}, {})] * 3 + [
        cell({}, {"a": timed(FAST), "b": timed(SAME)}, {})
    ]
    assert winners(cells, ["c"]) == {"c": 0, "a": 3, UNDECIDED: 1}


def test_the_border_lies_where_two_scripted_algorithms_take_equally_long() -> None:
    """10 rounds of 1 MB and 2 s against 4 rounds of 5 MB and 2 s: 10 (8/u + 2) = 4 (40/u + 2) at u = 80/12 Mbit/s."""

    def seconds(label: str, up: float) -> float:
        return 10 * (8 / up + 2) if label == "light" else 4 * (40 / up + 2)

    def at(up: float) -> Cell:
        first, second = sorted(("light", "heavy"), key=lambda label: seconds(label, up))
        place = {AXES[0]: up, AXES[1]: 1.0, AXES[2]: 0.0, AXES[3]: 1.0}
        return Cell(place, {}, first, second, contrast(timed(SLOW), timed(FAST), inf), {})  # it is decided

    (found,) = borders(
        [at(100), at(0.1), at(1), at(10)], lambda p, a, b: seconds(a, p[AXES[0]]) / seconds(b, p[AXES[0]])
    )
    assert (found.slower, found.faster) == ("light", "heavy")
    assert found.up_mbit_s == pytest.approx(80 / 12, rel=0.01)
    assert crossing(lambda x: x / 3, 1, 100) == pytest.approx(3, rel=0.01)


def test_the_grid_has_each_point_once_with_rates_in_bytes_and_half_of_the_round_trip() -> None:
    points = grid(Grid(up_mbit_s=(8.0,), down_over_up=(1.0, 5.0), round_trip_ms=(100.0,), speed_gflop_s=(2.0,)))
    assert [place["down_over_up"] for place, _ in points] == [1, 5]
    condition = points[1][1]
    assert (condition.up, condition.down, condition.latency, condition.speed) == (1e6, 5e6, 0.05, 2e9)


def test_a_null_is_compared_in_the_rounds_that_both_have_played() -> None:
    longer, shorter = (Observed.of(rows(each), due=1) for each in ([0.1, 0.2, 0.6], [0.1, 0.2]))
    other = Observed.of(rows([0.1, 0.6]), due=1)
    found = analysis.nulls({"base": {1: longer, 2: longer}, "zero": {1: shorter, 2: other}}, ["zero"], "base")
    assert found == [Null("zero", 1, 2, None), Null("zero", 2, 2, 1)]


def test_nulls_of_a_task_without_accuracy_are_compared_by_their_losses() -> None:
    def of(*losses: float) -> Observed:
        return Observed.of(
            [{**each, "loss": loss} for each, loss in zip(rows([None, None]), losses, strict=True)], due=1
        )

    runs = {"base": {1: of(0.5, 0.25), 2: of(0.5, 0.25)}, "zero": {1: of(0.5, 0.25), 2: of(0.5, 0.125)}}
    assert analysis.nulls(runs, ["zero"], "base") == [Null("zero", 1, 2, None), Null("zero", 2, 2, 1)]


PLAIN: dict[str, Any] = {
    "name": "x",
    "fleet": [{"profile": "pi-4", "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
    "algorithms": ["fedavg", "fedprox", {"fedcl": {}, "name": "fedcl"}, {"fedcl": {"strength": 0}, "name": "zero"}],
    "study": {"nulls": ["zero"], "pairs": [["fedcl", "fedprox"]], "placebos": {}},
}


def test_the_rule_in_the_protocol_is_the_one_that_is_followed() -> None:
    rule = Rule()
    assert rule.resamples == resampling.RESAMPLES
    assert rule.level_percent == 100 * LEVEL == pytest.approx(100 * (1 - resampling.LEVEL))


def test_a_study_needs_a_target() -> None:
    with pytest.raises(BadScenario, match="it has no target"):
        protocol_of(build({**PLAIN, "study": {"shares": [], "values": []}}))


def test_who_is_ranked_and_who_is_compared_with_whom() -> None:
    scenario = build(PLAIN)
    assert ranked(scenario) == ["fedavg", "fedprox", "fedcl"]
    assert pairs(scenario) == [("fedprox", "fedavg"), ("fedcl", "fedavg"), ("fedcl", "fedprox")]


@pytest.mark.parametrize(
    ("study", "said"),
    [
        ({"nulls": ["nil"]}, "there is no algorithm .nil."),
        ({"controls": ["fedavg"]}, "it is the baseline and nothing else"),
        ({"placebos": {"fedcl": "fedcul"}}, "fedcul"),
        (None, "fedlapse new --study"),
    ],
)
def test_a_protocol_that_does_not_fit_is_refused(study: Any, said: str) -> None:
    with pytest.raises(BadScenario, match=said):
        protocol_of(build({**PLAIN, "study": study}))


def test_the_digest_is_that_of_the_whole_protocol() -> None:
    other = build({**PLAIN, "study": {**PLAIN["study"], "shares": [0.5]}})
    assert digest(build(PLAIN)) != digest(other)
    assert digest(build(PLAIN)) == digest(build({**PLAIN, "protocol": "an older one"}))


def test_placebos_and_nulls_stay_on_the_study_s_own_links() -> None:
    """On fast links the best of both has 5 epochs; only the one that is ranked is played with them."""
    five, twelve = (("training.epochs", 5),), (("training.epochs", 12),)
    took = {five: {"own links": 30.0, "fast": 10.0}, twelve: {"own links": 20.0, "fast": 15.0}}
    finals = {
        each: {clock: (ScoreCurve((at,), (1.0,), at, 100.0),) for clock, at in of.items()} for each, of in took.items()
    }
    founds = {
        label: SearchResult(Space(label, (Dimension("training.epochs", (5, 12)),)), tried=[five, twelve], finals=finals)
        for label in ("fedavg", "shuffled")
    }
    scenario = build(
        {
            "name": "s",
            "fleet": [{"profile": "pi-4", "count": 2, "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
            "algorithms": ["fedavg", {"fedcl": {}, "name": "shuffled"}, {"fedcl": {"strength": 0}, "name": "zero"}],
            "tune": {"grid": {"training.epochs": [5, 12]}, "links": {"fast": {"up_mbit_s": 9}}},
            "study": {"nulls": ["zero"], "placebos": {"shuffled": "fedavg"}, "links": {"fast": {"up_mbit_s": 9}}},
        }
    )
    names = {
        "fedavg": {"fedavg": twelve, "fedavg.02": five},
        "shuffled": {"shuffled": twelve},
        "zero": {"zero": twelve},
    }
    nothing: Any = None
    at = Places(scenario, nothing, Path(), founds, names, {}, nothing)
    assert at.variants("own links") == {label: label for label in names}
    assert at.on_other_links("fast") == {"fedavg": "fedavg.02"}
