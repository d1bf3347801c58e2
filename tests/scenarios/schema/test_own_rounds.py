"""Rounds of its own, which an algorithm may have beside those of the scenario."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.load import build
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario
from tests.conftest import SMALL, merged

ASYNC = {"mode": "async", "buffer": 2, "in_flight": 3}


def of(own: Any, key: str = "fedbuff", **rounds: Any) -> Scenario:
    return build(merged(SMALL, {"algorithms": ["fedavg", {key: {"rounds": own}}], "rounds": rounds}))


def test_an_algorithm_without_rounds_of_its_own_has_the_scenarios() -> None:
    made = of(ASYNC, deadline_s=5, until_s=60)
    assert made.under("fedavg") is made
    assert (made.needed, made.asked) == (4, 4)


def test_rules_of_the_other_mode_are_not_taken_over() -> None:
    made = of(ASYNC, deadline_s=5, min_replies=2, until_s=60, transfers="resume").under("fedbuff")
    assert (made.needed, made.asked, made.rounds.until_s, made.rounds.transfers) == (2, 3, 60, "resume")
    assert (made.rounds.deadline_s, made.rounds.min_replies) == (None, 1)
    back = build(merged(SMALL, {"algorithms": [{"fedavg": {"rounds": {"mode": "sync"}}}]}) | {"rounds": ASYNC})
    assert back.under("fedavg").rounds.buffer is None


def test_rules_of_the_same_mode_are_taken_over() -> None:
    made = of({"ask": 4}, deadline_s=5, fraction=0.5).under("fedbuff")
    assert (made.needed, made.asked, made.rounds.deadline_s) == (2, 4, 5)


@pytest.mark.parametrize(
    ("own", "key", "said"),
    [
        (
            {"max": 9},
            "fedavg",
            "fedavg.rounds: max is the same for all algorithms; rounds of their own take mode, buffer",
        ),
        ({"mode": "async"}, "fedbuff", "fedbuff.rounds: mode: async needs buffer and in_flight"),
        ({**ASYNC, "ask": 3}, "fedbuff", "fedbuff.rounds: ask is of synchronous rounds"),
        ({**ASYNC, "in_flight": 9}, "fedbuff", "fedbuff.rounds.in_flight: 9 devices at work, but the fleet has 4"),
        ({"fraction": 0.5, "ask": 1}, "fedavg", "fedavg.rounds.ask: 1 devices are selected, but 2 replies"),
        ({"bufer": 3}, "fedavg", "fedavg.rounds.bufer: unknown key 'bufer'; did you mean buffer"),
        ({**ASYNC, "buffer": 0}, "fedbuff", "fedbuff.rounds.buffer: it must be greater than or equal to 1, not 0"),
        ("async", "fedbuff", "fedbuff.rounds"),
        (ASYNC, "scaffold", "scaffold combines no stale replies"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(own: Any, key: str, said: str) -> None:
    with pytest.raises(BadScenario) as error:
        build(merged(SMALL, {"algorithms": [{key: {"rounds": own}}]}))
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) <= 2


def test_time_decides_if_it_does_for_one_algorithm() -> None:
    assert of(ASYNC).time_decides
    assert not of({"fraction": 0.5}).time_decides
