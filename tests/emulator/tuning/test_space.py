"""The grid of a scenario for each algorithm, and the configurations that are played in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator.replay.conditions import Condition
from emulator.tuning.elsewhere import condition
from emulator.tuning.scores import ScoreCurve
from emulator.tuning.search import OWN, Ask, search
from emulator.tuning.space import Dimension, Space, applied, words
from emulator.tuning.together import Names, spaces, step, steps_of, target_of, together
from scenarios.load import build
from scenarios.schema.scenario import Scenario
from scenarios.schema.tuning import Elsewhere
from tests.conftest import SMALL, merged

ALGORITHMS = ["fedavg", {"fedcl": {"strength": 3}, "name": "cl.a"}, {"fedcl": {}, "name": "cl.b"}]


def scenario(changes: dict[str, Any] | None = None, **tune: Any) -> Scenario:
    said = {"grid": {"training.lr": [0.1, 1]}, "target": {"value": 0.9}, **tune}
    return build(merged(SMALL, {"algorithms": ALGORITHMS, "tune": said, "rounds": {"max": 60}, **(changes or {})}))


def options(made: Scenario) -> dict[str, dict[str, tuple[Any, ...]]]:
    return {label: {of.option: of.values for of in space.dimensions} for label, space in spaces(made).items()}


def test_an_option_is_that_of_all_of_a_kind_or_of_one_by_name_which_wins() -> None:
    grid = {"cl.b.strength": [7.0], "training.lr": [0.1], "fedcl.strength": [1.0, 10.0], "cl.a.training.lr": [0.5]}
    assert options(scenario(grid=grid)) == {
        "fedavg": {"training.lr": (0.1,)},
        "cl.a": {"training.lr": (0.5,), "strength": (1.0, 10.0)},
        "cl.b": {"training.lr": (0.1,), "strength": (7.0,)},
    }


def test_whole_numbers_stay_whole_only_where_an_option_takes_no_others() -> None:
    found = options(scenario(grid={"fedcl.strength": [1, 10], "training.batch": [10, 20]}))["cl.a"]
    assert [(value, type(value)) for value in found["strength"]] == [(1.0, float), (10.0, float)]
    assert [(value, type(value)) for value in found["training.batch"]] == [(10, int), (20, int)]


def test_fixed_algorithms_have_no_space() -> None:
    assert spaces(scenario(fixed=["cl.a"])).keys() == {"fedavg", "cl.b"}


def test_a_configuration_changes_its_options_and_no_others() -> None:
    _, entry, _ = scenario().algorithms
    made = applied(entry, (("training.lr", 0.5), ("interval", 2)))
    assert made.options == {"strength": 3, "training": {"lr": 0.5}, "interval": 2}
    assert (entry.options, made.name) == ({"strength": 3}, "cl.a")
    assert words((("training.lr", 0.5), ("interval", 2), ("lean", True))) == "lr = 0.5, interval = 2, lean = true"
    assert words(()) == "as it is"


def test_the_target_is_the_scenario_s_last_unless_it_is_named() -> None:
    targets = {"rounds": {"targets": [{"value": 0.5}, {"value": 0.8, "hold": 1}]}}
    found = target_of(scenario(targets, target=None))
    assert (found.metric, found.value, found.hold) == ("validation", 0.8, 3)
    assert target_of(scenario(targets)).value == 0.9


@pytest.mark.parametrize(("rounds", "steps"), [(None, [15, 30, 60]), (8, [2, 4, 8])])
def test_the_last_step_has_all_rounds_or_as_many_as_are_said(rounds: int | None, steps: list[int]) -> None:
    assert steps_of(scenario(rounds=rounds)) == steps


def test_a_step_plays_the_search_s_seeds_until_the_validation_target_and_looks_at_no_test_target() -> None:
    made = scenario({"rounds": {"max": 60, "targets": [{"value": 0.5}]}, "seeds": [1, 2]}, seeds=[7])
    assert made.tune
    first, second = (("training.lr", 0.1),), (("training.lr", 1.0),)
    names = Names({})
    asks = {"fedavg": Ask((first, second), 15, "coarse"), "cl.a": Ask((second,), 15, "coarse")}
    played = step(made, asks, names)
    assert [entry.name for entry in played.algorithms] == ["fedavg.01", "fedavg.02", "cl.a.01"]
    assert [entry.options["training"] for entry in played.algorithms] == [{"lr": 0.1}, {"lr": 1.0}, {"lr": 1.0}]
    assert (played.seeds, played.rounds.max, played.rounds.targets, played.tune) == ((7,), 15, (), None)
    stop = played.rounds.stop_at
    assert stop
    assert (stop.metric, stop.value, stop.hold) == ("validation", 0.9, 3)
    later = step(made, {"fedavg": Ask((second,), 30, "coarse")}, names)
    assert [entry.name for entry in later.algorithms] == ["fedavg.02"]  # a name for all steps


def test_all_searches_take_their_steps_together() -> None:
    """Two algorithms of two values each: two steps, in which both play."""
    lr = Space("x", (Dimension("training.lr", (0.1, 1.0)),))
    asked = []

    def play(asks: Any) -> Any:
        asked.append({label: (ask.rounds, len(ask.configurations)) for label, ask in asks.items()})
        return {
            label: {
                each: {OWN: [ScoreCurve((1.0,), (1.0,), dict(each)["training.lr"], 1.0)]} for each in ask.configurations
            }
            for label, ask in asks.items()
        }

    searches = {label: search(lr, 2, [2, 4], np.random.default_rng(0)) for label in ("b", "a")}
    founds = together(searches, play)
    assert asked == [{"b": (2, 2), "a": (2, 2)}, {"b": (4, 1), "a": (4, 1)}]
    assert list(founds) == ["b", "a"]
    assert {dict(of.best())["training.lr"] for of in founds.values()} == {0.1}


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ({"up_mbit_s": 8.0}, Condition("x", up=1e6)),
        ({"down_mbit_s": 0.8, "latency_ms": 40.0}, Condition("x", down=1e5, latency=0.04)),
        ({"speed_gflop_s": 5.0}, Condition("x", speed=5e9)),
    ],
)
def test_other_links_and_speeds_are_conditions_of_a_replay(said: dict[str, float], made: Condition) -> None:
    assert condition("x", Elsewhere(**said)) == made  # type: ignore[arg-type]
