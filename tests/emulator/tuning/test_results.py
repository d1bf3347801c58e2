"""The results of a search, from made-up trials whose best setting is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from emulator.tuning import results
from emulator.tuning.scores import ScoreCurve
from emulator.tuning.search import OWN, ROUNDS, Rung, SearchResult, search
from emulator.tuning.space import Configuration, Dimension, Space
from scenarios.load import build, parse
from scenarios.schema.scenario import Scenario
from tests.conftest import SMALL, merged

TUNE = {
    "grid": {"training.lr": [0.01, 0.1], "fedprox.mu": [0.1, 1]},
    "budget": 3,
    "rungs": 2,
    "seeds": [101, 102],
    "target": {"value": 0.9, "hold": 1},
    "links": {"slow": {"up_mbit_s": 1}},
}
PLAIN = merged(SMALL, {"algorithms": ["fedavg", {"fedprox": {"mu": 0.5}, "name": "prox"}], "tune": TUNE})
LR = Space("fedavg", (Dimension("training.lr", (0.01, 0.1, 1.0)),))


def scenario(**tune: Any) -> Scenario:
    return build({**PLAIN, "tune": {**TUNE, **tune}})


def of(value: float) -> Configuration:
    return (("training.lr", value),)


def run(reached: float | None, end: float, accuracy: float = 0.5) -> ScoreCurve:
    return ScoreCurve((end / 2, end), (accuracy / 2, accuracy), reached, end)


def found(finals: Mapping[Configuration, Mapping[str, list[ScoreCurve]]], space: Space = LR) -> SearchResult:
    """The result of a search without rungs."""
    return SearchResult(space, [], list(finals), dict(finals), {}, 0)


def both(own: float | None, slow: float | None = None) -> dict[str, list[ScoreCurve]]:
    """Two seeds, whose runs end after 40 s, and on a slow link after 400."""
    return {OWN: [run(own, 40), run(own, 40)], "slow": [run(slow, 400), run(slow, 400)]}


def searched(seconds: Mapping[float, float], budget: int = 3, space: Space = LR) -> SearchResult:
    """A search in which each learning rate takes so many seconds, and is watched for 10 a round."""
    steps = search(space, budget, [2, 4], np.random.default_rng(0))
    ask = next(steps)
    try:
        while True:
            trials = {}
            for each in ask.configurations:
                need = seconds[float(dict(each)["training.lr"])]
                end = 10.0 * ask.rounds
                trials[each] = {OWN: [run(need if need <= end else None, end, 1 / need)] * 2}
            ask = steps.send(trials)
    except StopIteration as ended:
        made: SearchResult = ended.value
        return made


def test_the_course_of_a_search_tells_how_many_were_compared_and_who_went_on() -> None:
    """A budget of four: three of the grid are compared, one goes on, and one of its neighbours takes part."""
    made = searched({0.01: 35, 0.1: 9, 1.0: 30, 0.2: 12, 0.05: 8}, budget=4)
    assert results.courses({"fedavg": made}) == ["fedavg: 3 configurations after 2 rounds, 1 after 4 (2); then 1 more"]
    assert dict(made.tried[1]) == {"training.lr": 0.1}
    alone = Space("fedavg", (Dimension("training.lr", (0.1,)),))
    said = results.courses({"fedavg": searched({0.1: 9}, 1, alone)})
    assert said == ["fedavg: 1 configuration after 2 rounds, 1 after 4 (1)"]


def test_tune_json_has_all_that_was_compared_and_numbers_to_find_it_by() -> None:
    made = searched({0.01: 35, 0.1: 9, 1.0: 30, 0.2: 12, 0.05: 8}, budget=4)
    of_fedavg = results.as_json(scenario(), {"fedavg": made})["algorithms"]["fedavg"]
    first, second, fine = of_fedavg["rungs"]
    assert of_fedavg["tried"] == [{"training.lr": value} for value in (0.01, 0.1, 1.0, 0.2)]
    assert (first["phase"], first["rounds"], first["survivors"]) == ("coarse", 2, [2])
    assert first["scores"]["2"][OWN] == {
        "time": 9,
        "error": pytest.approx(1 - 1 / 9),
        "reached": 2,
        "of": 2,
        "lower": False,
    }
    assert first["scores"]["1"][OWN] == {
        "time": 20,
        "error": pytest.approx(1 - 1 / 35),
        "reached": 0,
        "of": 2,
        "lower": False,
    }
    assert (second["rounds"], list(second["scores"]), second["survivors"]) == (4, ["2"], [2])
    # the best so far takes part, and is better than its neighbour
    assert (fine["phase"], fine["rounds"], sorted(fine["scores"]), fine["survivors"]) == ("fine", 2, ["2", "4"], [2])
    assert of_fedavg["best"] == {OWN: 2}
    assert of_fedavg["configuration_rounds"] == 3 * 2 + 1 * 2 + 1 * 2


def test_the_best_is_told_by_each_clock_that_is_known_of_all() -> None:
    """By hand: 30 s against 20, and on the slow link 100 against 200; rounds are known of one only."""
    made = found({of(0.01): both(30, 100), of(0.1): both(20, 200)})
    made.finals[of(0.1)] = {**made.finals[of(0.1)], ROUNDS: [run(1, 4), run(1, 4)]}
    assert results.rows({"fedavg": made}) == [
        ("fedavg", OWN, "lr = 0.1", "20.0 s (2 of 2)"),
        ("fedavg", "slow", "lr = 0.01", "100 s (2 of 2)"),
    ]
    chosen = {clock: results.entries(scenario(), {"fedavg": made}, clock)[0].options for clock in (OWN, "slow", ROUNDS)}
    assert [options["training"]["lr"] for options in chosen.values()] == [0.1, 0.01, 0.1]


@pytest.mark.parametrize(
    ("tune", "made", "said"),
    [
        ({"budget": 2}, found({of(0.01): both(30, 100), of(0.1): both(20, 200)}), None),
        (
            {},
            found({of(0.01): both(30, 100), of(0.1): both(20, 200)}),
            "fedavg: all 2 configurations that there can be, fewer than the budget of 3",
        ),
        (
            {"grid_only": True},
            found({of(0.01): both(30, 100), of(0.1): both(20, 200)}),
            "fedavg: all 2 configurations that there can be in its grid, fewer than the budget of 3",
        ),
        (
            {"budget": 2, "links": {"slow": {"up_mbit_s": 1}, "lossy": {"up_mbit_s": 2}}},
            found({of(0.01): both(30, 100), of(0.1): both(20, 200)}),
            "fedavg: on lossy its time is unknown, because a replay there is not exact",
        ),
        (
            {"budget": 2},
            found({of(0.01): both(None, 100), of(0.1): both(None, 200)}),
            "fedavg: no configuration reached validation 0.9; the best is by accuracy",
        ),
    ],
    ids=["nothing", "budget", "grid", "link", "none"],
)
def test_a_reader_is_told_what_the_table_does_not_show(
    tune: dict[str, Any], made: SearchResult, said: str | None
) -> None:
    remarks = [each for each in results.remarks(scenario(**tune), {"fedavg": made}) if "edge" not in each]
    assert remarks == ([said] if said else [])


@pytest.mark.parametrize(("best", "edge"), [(0.01, True), (0.1, False), (1.0, True)])
def test_a_best_value_at_the_edge_is_told(best: float, edge: bool) -> None:
    made = found({of(value): both(10 if value == best else 30, 100) for value in (0.01, 0.1, 1.0)})
    line = f"fedavg: the best training.lr, {best:g}, is at the edge of what was tried; a wider grid may be better"
    assert (line in results.remarks(scenario(), {"fedavg": made})) == edge


def test_values_of_the_grid_beyond_the_edge_are_named_for_a_larger_budget() -> None:
    made = found({of(value): both(30 - value, 100) for value in (0.01, 0.1)})  # 1 is in the grid, too
    line = (
        "fedavg: the best training.lr, 0.1, is at the edge of what was tried; a larger budget tries 1 of the grid too"
    )
    assert line in results.remarks(scenario(), {"fedavg": made})


def test_ties_that_went_on_are_told() -> None:
    made = found({of(value): both(30, 100) for value in (0.01, 0.1, 1.0)})
    made.rungs = [Rung("coarse", 2, {}, (), 1)]
    said = "fedavg: 1 configuration was kept because it ties with the last of a better half"
    assert said in results.remarks(scenario(), {"fedavg": made})


def test_tuned_yaml_is_the_scenario_with_the_best_settings_and_where_they_come_from() -> None:
    """Also where a number is written with an exponent, after changes on the command line, and with a quick version."""
    said = parse(json.dumps({**PLAIN, "small": {"rounds.max": 1}}), "made.yaml", ["rounds.max=3"])
    made = found({of(1e-05): both(20, 100), of(0.1): both(30, 100)})
    tuned = results.tuned_yaml(said, {"fedavg": made})
    again = parse(tuned, "tuned.yaml")
    assert [dict(entry.options) for entry in again.algorithms] == [{"training": {"lr": 1e-05}}, {"mu": 0.5}]
    assert [entry.name for entry in again.algorithms] == ["fedavg", "prox"]
    assert again.rounds.max == 3  # as it was tuned
    others = {"algorithms", "small", "tuned"}
    assert again.model_dump(exclude=others) == said.model_dump(exclude=others)
    assert again.tuned == {
        "fedavg": "best of 2: 20.0 s (2 of 2) to validation 0.9 under seeds 101, 102",
        "prox": "from the scenario, not tuned",
    }
