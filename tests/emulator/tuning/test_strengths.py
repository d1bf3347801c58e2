"""`auto` in a search's grid: strengths from where a penalty does nothing to where training diverges."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.tuning.space import Dimension, Space
from emulator.tuning.strengths import automatic, filled, strengths
from emulator.tuning.together import spaces
from scenarios.load import build
from scenarios.load import plain as plain_of
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


def rows(*each: dict[str, float]) -> list[dict[str, Any]]:
    return [{"leverage": leverage} for leverage in each]


def test_they_go_from_no_effect_to_divergence_in_steps_of_ten() -> None:
    """By proportion: step is 2 at 20 * 2 / 0.8 = 50, and p99 is 0.01 at 20 * 0.01 / 40 = 0.005."""
    found = strengths(20.0, rows({}, {"step": 0.8, "p99": 30.0}, {"step": 0.4, "p99": 40.0}), 0.0)
    assert found == (0.005, 0.05, 0.5, 5.0, 50.0)


def test_momentum_allows_more() -> None:
    """SGD with momentum 0.9 diverges above 2 * 1.9."""
    assert strengths(1.0, rows({"step": 0.38, "p99": 0.01}), 0.9)[-1] == 10.0


def test_without_a_penalty_there_is_no_range() -> None:
    with pytest.raises(ValueError, match="no penalty acts in 2 rounds"):
        strengths(1.0, rows({}, {"step": 0.0, "p99": 0.0}), 0.0)


def searching(grid: dict[str, Any], *algorithms: Any) -> Scenario:
    link = {"up_mbit_s": 1, "down_mbit_s": 1}
    return build(
        {
            "name": "tiny",
            "fleet": [{"profile": "phone-mid", "count": 2, "link": link}],
            "algorithms": ["fedavg", *algorithms],
            "tune": {"grid": grid},
        }
    )


def test_one_range_serves_all_of_a_kind() -> None:
    made = searching(
        {"fedcurv.strength": "auto"}, {"fedcurv": {"strength": 0.3}}, {"fedcurv": {"placebo": "mean"}, "name": "mean"}
    )
    assert {path: entry.name for path, entry in automatic(made).items()} == {"fedcurv.strength": "fedcurv"}
    assert spaces(made)["fedcurv"].dimensions[0].values == (0.3,)
    known = spaces(filled(made, {"fedcurv.strength": (0.1, 1.0)}))
    assert [known[label].dimensions[0].values for label in ("fedcurv", "mean")] == [(0.1, 1.0), (0.1, 1.0)]


@pytest.mark.parametrize("options", [{}, {"strength": 0}])
def test_it_begins_with_a_strength_above_0(options: dict[str, float]) -> None:
    with pytest.raises(BadScenario, match=r"fedcurv\.strength: auto begins with the algorithm's own value"):
        automatic(searching({"fedcurv.strength": "auto"}, {"fedcurv": options}))


def test_a_placebo_is_searched_as_its_original() -> None:
    """`agents.strength` names one algorithm; its placebo has the same values, and is of its family."""
    agents = [
        {"agentimportance": {"strength": 1.0}, "name": "agents"},
        {"agentimportance": {"strength": 1.0, "placebo": "shuffled"}, "name": "shuffled"},
        {"agentimportance": {"ewc": False}, "name": "mean"},
    ]
    plain = searching({"agents.strength": [0.1, 1.0], "training.lr": [0.1]}, *agents)
    assert [each.option for each in spaces(plain)["shuffled"].dimensions] == ["training.lr"]
    study = build({**plain_of(plain), "study": {"placebos": {"shuffled": "agents"}}})
    known = spaces(study)
    assert known["shuffled"].dimensions == known["agents"].dimensions
    assert (known["shuffled"].label, [each.option for each in known["mean"].dimensions]) == (
        "shuffled",
        ["training.lr"],
    )


def test_beyond_an_edge_comes_before_what_is_inside() -> None:
    """5 is the smallest value tried, so 2 (beyond it, by the factor of the grid) is tried before 10."""
    space = Space("a", (Dimension("training.epochs", (5, 10, 20)),))
    tried = [(("training.epochs", value),) for value in (5, 20)]
    assert space.around(tried[0], tried) == [(("training.epochs", 2),), (("training.epochs", 10),)]
    assert space.around(tried[1], tried) == [(("training.epochs", 40),), (("training.epochs", 10),)]
