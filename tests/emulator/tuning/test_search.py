"""The search for settings, on made-up algorithms whose best setting is known."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest

from emulator.record.targets import Target
from emulator.tuning import together
from emulator.tuning.scores import Score, ScoreCurve, better_half, curve, in_rounds, scores
from emulator.tuning.search import OWN, Ask, SearchResult, Trial, rungs, search
from emulator.tuning.space import Configuration, Dimension, Space, training
from scenarios.load import build
from tests.all_of import all_of

LR = Dimension("training.lr", (0.001, 0.01, 0.1))
STRENGTH = Dimension("strength", (0.05, 0.5, 5.0, 50.0, 500.0))
SPACE = Space("made-up", (LR, STRENGTH))
ROUNDS = 64
SEEDS = 3


def response(planted: Mapping[str, float], configuration: Configuration) -> float:
    """Rounds to the target without noise: least at the planted setting; twice or half of it takes 27 % more."""
    if not planted:
        return 10.0
    far = sum(log(float(value) / planted[name]) ** 2 for name, value in configuration)
    return 10 * exp(0.5 * far)


def played(planted: Mapping[str, float], configuration: Configuration, rounds: int, noise: np.ndarray) -> Trial:
    """Accuracy 1 - exp(-t) reaches 0.9 at t = ln 10, which takes the rounds of the response, times noise."""
    curves = []
    for factor in noise:
        need = response(planted, configuration) * factor
        times = tuple(float(number) for number in range(1, rounds + 1))
        values = tuple(1 - exp(-time / need * log(10)) for time in times)
        there = float(np.ceil(need)) if need <= rounds else None
        curves.append(ScoreCurve(times, values, there, float(rounds)))
    return {OWN: tuple(curves)}


def searched(
    planted: Mapping[str, float],
    budget: int,
    draw: int,
    sd: float = 0.1,
    space: Space = SPACE,
    lr: Configuration = (),
) -> SearchResult:
    """`lr`: the baseline's best settings of training."""
    rng = np.random.default_rng(draw)
    shared = np.exp(rng.normal(0, sd, SEEDS))  # what a seed does to all configurations alike
    known: dict[Configuration, np.ndarray] = {}
    steps = search(space, budget, rungs(ROUNDS, 3), np.random.default_rng(7), [lr] if lr else ())
    ask = next(steps)
    try:
        while True:
            trials = {}
            for each in ask.configurations:
                known.setdefault(each, shared * np.exp(rng.normal(0, sd, SEEDS)))
                trials[each] = played(planted, each, ask.rounds, known[each])
            ask = steps.send(trials)
    except StopIteration as ended:
        found: SearchResult = ended.value
        return found


FINEST = 9 * 15  # both options with their halves and doubles


@pytest.mark.slow
@pytest.mark.parametrize(("finer", "budget", "grid"), [(1.0, 15, 15), (2.0, 24, FINEST)], ids=["on", "between"])
def test_a_planted_best_setting_is_found_with_half_of_the_trainings_of_the_grid(
    finer: float, budget: int, grid: int
) -> None:
    """The bar: in 95 of 100 draws.  Planted on the grid, whose size is the budget, or between its values."""
    hits = 0
    for draw in range(100):
        rng = np.random.default_rng(1000 + draw)
        lr = float(rng.choice(LR.values)) * finer
        planted = {"training.lr": lr, "strength": float(rng.choice(STRENGTH.values))}
        found = searched(planted, budget, draw)
        assert len(found.tried) == budget
        assert found.played <= grid * ROUNDS / 2
        hits += dict(found.best()) == pytest.approx(planted)
    assert hits >= 95


@pytest.mark.slow
@pytest.mark.parametrize("budget", [4, 6])
def test_a_small_budget_looks_for_the_strength_at_the_training_that_is_known(budget: int) -> None:
    """As studies search: the learning rate is the baseline's, and the best of three strengths is any of them.

    The bar is 90 of 100: of two configurations with noise of 10 %, one that is 14 times as slow is told apart at once.
    """
    space = Space("made-up", (Dimension("training.lr", (0.03, 0.1, 0.3)), Dimension("strength", (0.5, 5.0, 50.0))))
    hits = 0
    for draw in range(100):
        planted = {"training.lr": 0.1, "strength": (0.5, 5.0, 50.0)[draw % 3]}
        found = searched(planted, budget, draw, space=space, lr=(("training.lr", 0.1),))
        assert len(found.tried) == budget
        hits += dict(found.best()) == planted
    assert hits >= 90


def test_own_options_are_changed_first_and_of_these_those_at_an_edge() -> None:
    best = (("training.lr", 0.1), ("strength", 5.0))
    assert [dict(each)["training.lr"] for each in SPACE.around(best, [best])][:2] == [0.1, 0.1]


def test_a_search_without_information_finds_nothing() -> None:
    """The control: where every setting is as good as any other, the planted one is found by chance alone."""
    hits = 0
    for draw in range(20):
        hits += dict(searched({}, 15, draw).best()) == {"training.lr": 0.01, "strength": 5.0}
    assert hits <= 5


def test_a_best_value_at_the_edge_extends_the_grid() -> None:
    """Planted a step of ten above the largest strength."""
    found = searched({"training.lr": 0.01, "strength": 5000.0}, 24, 0, sd=0.01)
    assert dict(found.best()) == {"training.lr": 0.01, "strength": 5000.0}
    assert found.edges == []


def test_an_edge_that_the_budget_does_not_reach_is_told() -> None:
    found = searched({"training.lr": 0.01, "strength": 5e5}, 12, 0, sd=0.01)
    assert "strength" in found.edges


def test_a_search_can_be_kept_within_its_grid() -> None:
    """Whatever lies beyond: also the baseline's settings of training, if the grid does not have them."""
    space = Space("made-up", (LR, STRENGTH), grid_only=True)
    found = searched(
        {"training.lr": 0.03, "strength": 5000.0}, 24, 0, sd=0.01, space=space, lr=(("training.lr", 0.03),)
    )
    assert set(found.tried) == set(space.grid)
    assert dict(found.best())["strength"] == 500.0
    assert "strength" in found.edges


def test_every_value_of_the_grid_is_tried_about_equally_often() -> None:
    chosen = SPACE.coarse(10, np.random.default_rng(1))
    assert len(set(chosen)) == 10
    for dimension in SPACE.dimensions:
        counts = [sum(dict(each)[dimension.option] == value for each in chosen) for value in dimension.values]
        assert max(counts) - min(counts) <= 2


def test_a_grid_within_the_budget_is_tried_whole() -> None:
    assert set(SPACE.coarse(15, np.random.default_rng(1))) == set(SPACE.grid)
    assert len(SPACE.grid) == 15


def test_an_algorithm_may_try_the_training_that_is_best_for_the_baseline() -> None:
    """Half of the sample has it, with each strength; else a larger grid would mean worse training."""
    chosen = SPACE.coarse(10, np.random.default_rng(1), [(("training.lr", 0.03),)])
    assert chosen[:5] == [(("training.lr", 0.03), ("strength", value)) for value in (5.0, 0.5, 50.0, 0.05, 500.0)]
    assert all_of(each in SPACE.grid for each in chosen[5:])
    assert len(set(chosen)) == 10
    assert SPACE.coarse(10, np.random.default_rng(1), [(("training.momentum", 0.5),)])[0] in SPACE.grid
    few = SPACE.coarse(4, np.random.default_rng(1), [(("training.lr", 0.03),)])
    assert sum(dict(each)["training.lr"] == 0.03 for each in few) == 2


def test_all_may_try_what_is_best_for_the_baseline_on_any_of_the_links() -> None:
    """By turns, the middle of the grid first: else the baseline alone would have what is best there."""
    chosen = SPACE.coarse(10, np.random.default_rng(1), [(("training.lr", 0.03),), (("training.lr", 0.1),)])
    assert [dict(each) for each in chosen[:4]] == [
        {"training.lr": lr, "strength": strength} for strength in (5.0, 0.5) for lr in (0.03, 0.1)
    ]
    assert len(set(chosen)) == 10


def test_neighbours_of_the_best_on_each_link_are_tried_by_turns() -> None:
    """On the own links 0.01 is the best of (0.01, 0.1, 1), on the slow ones 1: then 0.001 and 10 are tried."""
    space = Space("x", (Dimension("lr", (0.01, 0.1, 1.0)),))
    steps, asked = search(space, 5, [1], np.random.default_rng(1)), []
    ask = next(steps)
    try:
        while True:
            asked += [dict(each)["lr"] for each in ask.configurations]
            times = {each: float(dict(each)["lr"]) for each in ask.configurations}
            ask = steps.send(
                {each: {OWN: (reached(1 + lr),), "slow": (reached(20 - lr),)} for each, lr in times.items()}
            )
    except StopIteration as ended:
        found: SearchResult = ended.value
    assert sorted(asked[:3]) == [0.01, 0.1, 1.0]
    assert sorted(asked[3:]) == [0.001, 10.0]
    assert [dict(each)["lr"] for each in found.on_links] == [0.001, 10.0]


def reached(time: float) -> ScoreCurve:
    return ScoreCurve((time,), (1.0,), time, 100.0)


def test_neighbours_are_those_of_the_grid_and_then_halves_and_doubles() -> None:
    epochs = Dimension("training.epochs", (1, 5, 20))
    assert (epochs.beside(5), epochs.near(5)) == ([20, 1], [10, 2])
    assert epochs.beside(20) == [100, 5]  # a step of the grid beyond the edge
    assert epochs.beside(1) == [5]  # there is no half an epoch
    assert epochs.beside(10) == [20, 5]
    ewc = Dimension("ewc", (True, False))
    assert (ewc.beside(True), ewc.near(True)) == ([False], [])
    assert Dimension("lr", (0.1, 0.2)).near(0.1) == []  # steps of two are not halved
    alone = Dimension("lr", (0.1,))
    assert (alone.beside(0.1), alone.near(0.1)) == ([], [])


def test_configurations_that_an_algorithm_refuses_are_not_tried() -> None:
    momentum = Dimension("training.momentum", (0.09, 0.9))
    space = Space("x", (momentum,), valid=lambda each: float(dict(each)["training.momentum"]) < 1)
    assert space.around((("training.momentum", 0.9),), space.grid) == [(("training.momentum", 0.45),)]


def test_an_edge_beyond_which_nothing_can_be_tried_is_none() -> None:
    """There is no half an epoch, and no momentum of 1 or more."""
    epochs = Space("x", (Dimension("training.epochs", (1, 5)),))
    assert epochs.edges((("training.epochs", 1),), epochs.grid) == []
    assert epochs.edges((("training.epochs", 5),), epochs.grid) == ["training.epochs"]
    momentum = Dimension("training.momentum", (0.09, 0.9))
    space = Space("x", (momentum,), valid=lambda each: float(dict(each)["training.momentum"]) < 1)
    assert space.edges((("training.momentum", 0.9),), space.grid) == []
    assert space.edges((("training.momentum", 0.09),), space.grid) == ["training.momentum"]
    words = Space("x", (Dimension("schedule", ("cosine", "constant")),))
    assert words.edges((("schedule", "cosine"),), words.grid) == []


def test_rungs_double_and_end_with_all_rounds() -> None:
    assert rungs(60, 3) == [15, 30, 60]
    assert rungs(3, 3) == [1, 2, 3]
    assert rungs(2, 4) == [1, 2]


def row(number: int, time: float, value: float | None) -> dict[str, float | int | None]:
    return {"round": number, "time_s": time, "validation": value}


TARGET = Target("validation", 0.5, 2)


def test_a_run_that_does_not_get_there_counts_to_the_horizon() -> None:
    """By hand: horizon 90, the latest end.  30 and 90 s, mean 60; 45 and 90, mean 67.5."""
    there = curve([row(0, 10, 0.1), row(1, 30, 0.6), row(2, 50, 0.7)], TARGET, 3)
    never = curve([row(0, 20, 0.1), row(1, 40, 0.2)], TARGET, 2)
    late = curve([row(0, 45, 0.6), row(1, 90, 0.6)], TARGET, 2)
    assert (there.reached, never.reached, late.reached) == (30, None, 45)
    found = scores({"a": [there, never], "b": [late, never]})
    # accuracy at second 40, the least end: 0.6 and 0.2, and none yet and 0.2
    assert found["a"] == pytest.approx(Score(60, 1 - 0.4, 1, 2))
    assert found["b"] == pytest.approx(Score(67.5, 1 - 0.1, 1, 2))


def test_cheap_rounds_that_lead_nowhere_do_not_win() -> None:
    """One ends soon without the target, the other gets there after that end."""
    soon = curve([row(0, 1, 0.3), row(1, 2, 0.4)], TARGET, 2)
    late = curve([row(0, 20, 0.6), row(1, 40, 0.7)], TARGET, 2)
    found = scores({"soon": [soon], "late": [late]})
    assert (found["late"].time, found["soon"].time) == (20, 40)


def test_a_run_that_failed_counts_to_the_horizon_and_does_not_move_it() -> None:
    failed = curve([row(0, 1, 0.1)], TARGET, 3)
    there = curve([row(0, 10, 0.6), row(1, 30, 0.6)], TARGET, 2)
    assert failed.end == inf
    assert scores({"a": [failed], "b": [there]})["a"].time == 30


@pytest.mark.parametrize(
    ("momentum", "step", "fails"), [(0, 0.9, False), (0, 1.1, True), (0.5, 1.4, False), (0.5, 1.6, True)]
)
def test_a_penalty_near_divergence_counts_as_failed(momentum: float, step: float, fails: bool) -> None:
    """SGD diverges from 2 (1 + momentum) on; half of that is too near."""
    steep = [row(0, 10, 0.6) | {"leverage": {}}, row(1, 20, 0.7) | {"leverage": {"step": step}}]
    found = curve(steep, TARGET, 2, momentum)
    assert (found.reached, found.end) == ((None, inf) if fails else (10, 20))
    assert in_rounds(steep, TARGET, 2, momentum).reached == (None if fails else 1)


def test_rounds_are_a_clock_of_their_own() -> None:
    assert in_rounds([row(0, 10, 0.1), row(1, 30, 0.6), row(2, 50, 0.7)], TARGET, 3).reached == 2


def test_the_better_half_keeps_what_ties_with_its_last() -> None:
    found = {name: Score(time, 0.0) for name, time in zip("abcde", (1, 2, 2, 2, 3), strict=True)}
    kept = better_half(found)
    assert kept.things == ("a", "b", "c", "d")
    assert kept.ties == 2
    assert better_half({"a": Score(1, 0.0)}).things == ("a",)


def test_who_is_good_by_another_clock_goes_on() -> None:
    """Two clocks that disagree: both halves go on."""
    space = Space("x", (Dimension("strength", (1, 10, 100, 1000)),))
    steps = search(space, 4, [1, 2], np.random.default_rng(0))
    ask = next(steps)

    def at(seconds: float) -> ScoreCurve:
        return ScoreCurve((seconds,), (1.0,), seconds, seconds)

    trials = {
        each: {OWN: [at(number + 1)], "slow": [at(10 - number)]} for number, each in enumerate(ask.configurations)
    }
    assert len(ask.configurations) == 3
    ask = steps.send(trials)
    first, _, last = trials
    assert ask.configurations == (first, last)  # the better half of three is one, by each clock


def test_the_best_of_a_sibling_is_played_to_the_end_even_where_it_begins_badly() -> None:
    """After half of the rounds the setting is behind all others, and after all rounds ahead of them."""
    sibling = SPACE.grid[-1]
    steps = search(SPACE, 6, [2, 4], np.random.default_rng(1), sibling=sibling)
    ask = next(steps)
    assert ask.configurations[0] == sibling
    assert len(ask.configurations) == 4  # two thirds of the budget, with or without a sibling
    early = {
        each: {OWN: [ScoreCurve((1.0,), (0.1 if each == sibling else 0.5,), None, 2.0)]} for each in ask.configurations
    }
    ask = steps.send(early)
    assert ask.configurations[0] == sibling
    assert len(ask.configurations) == 4  # the others tie
    late = {
        each: {OWN: [ScoreCurve((1.0,), (0.9,), 3.0 if each == sibling else 3.5, 4.0)]} for each in ask.configurations
    }
    assert sibling not in steps.send(late).configurations  # neighbours of it come next, which are new
    unfit = Space("other", SPACE.dimensions, lambda each: each != sibling)
    assert sibling not in next(search(unfit, 6, [2, 4], np.random.default_rng(1), sibling=sibling)).configurations


def test_each_training_that_is_known_is_played_to_the_end_once() -> None:
    known = [SPACE.grid[0], SPACE.grid[-1]]
    steps = search(SPACE, 9, [2, 4], np.random.default_rng(1), known=known)
    ask = next(steps)
    with_known = [next(each for each in ask.configurations if training(each) == training(one)) for one in known]
    assert training(known[0]) != training(known[1])
    early = {
        each: {OWN: [ScoreCurve((1.0,), (0.1 if each in with_known else 0.5,), None, 2.0)]}
        for each in ask.configurations
    }
    assert {*with_known} < {*steps.send(early).configurations}


def test_algorithms_of_one_kind_and_grid_try_the_best_of_the_first_of_them() -> None:
    scenario = build(
        {
            "name": "x",
            "fleet": [{"profile": "pi-4", "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
            "algorithms": [
                "fedavg",
                {"fedcurv": {"upload": "lean"}, "name": "lean"},
                {"fedprox": {"mu": 0.1}},
                {"fedcurv": {}, "name": "other-grid"},
                {"fedcurv": {}, "name": "paper"},
            ],
            "rounds": {"max": 1, "targets": [{"value": 0.5}]},
            "tune": {
                "grid": {"fedcurv.strength": [0.1, 1.0, 10.0], "other-grid.strength": [0.2, 2.0]},
                "budget": 2,
                "rungs": 1,
            },
        }
    )
    assert together.sittings(scenario) == [["fedavg"], ["lean", "fedprox", "other-grid"], ["paper"]]
    asked: dict[str, list[Configuration]] = {}

    def play(asks: Mapping[str, Ask]) -> dict[str, dict[Configuration, Trial]]:
        """The best strength is 20: the sooner the closer to it."""
        for label, ask in asks.items():
            asked.setdefault(label, []).extend(ask.configurations)
        return {label: {each: {OWN: [curve_of(each)]} for each in ask.configurations} for label, ask in asks.items()}

    def curve_of(configuration: Configuration) -> ScoreCurve:
        far = abs(log(float(dict(configuration).get("strength", 20.0)) / 20))
        return ScoreCurve((1.0,), (1.0,), 1 + far, 1e3)

    found = together.searched(scenario, play)
    assert list(found) == [entry.name for entry in scenario.algorithms]
    assert asked["paper"][0] == found["lean"].best()
    assert set(asked["other-grid"]) <= {(("strength", 0.2),), (("strength", 2.0),), (("strength", 20.0),)}


def test_the_baseline_is_tuned_first_and_the_others_may_try_its_training() -> None:
    scenario = build(
        {
            "name": "x",
            "fleet": [{"profile": "pi-4", "link": {"up_mbit_s": 1, "down_mbit_s": 1}}],
            "algorithms": ["fedavg", "fedprox"],
            "rounds": {"max": 1, "targets": [{"value": 0.5}]},
            "tune": {"grid": {"training.lr": [0.01, 0.1, 1.0], "fedprox.mu": [0.1, 1.0]}, "budget": 3, "rungs": 1},
        }
    )
    asked: list[tuple[str, Configuration]] = []

    def trial(lr: Any) -> Trial:
        return {OWN: [ScoreCurve((1.0,), (1.0,), 9 / lr, 1e3)]}

    def play(asks: Mapping[str, Ask]) -> dict[str, dict[Configuration, Trial]]:
        """The best learning rate is 1: the sooner the larger it is."""
        asked.extend((label, each) for label, ask in asks.items() for each in ask.configurations)
        return {
            label: {
                each: {OWN: [ScoreCurve((1.0,), (1.0,), 9 / dict(each)["training.lr"], 1e3)]}
                for each in ask.configurations
            }
            for label, ask in asks.items()
        }

    found = together.searched(scenario, play)
    labels = [label for label, _ in asked]
    assert labels == sorted(labels)  # fedavg, then fedprox
    best = dict(found["fedavg"].best())["training.lr"]
    assert dict(next(each for label, each in asked if label == "fedprox"))["training.lr"] == best
