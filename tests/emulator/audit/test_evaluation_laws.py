"""The audit on when models are evaluated: rows of a record written by hand, under several `evaluate:`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import audit
from tests.all_of import all_of
from tests.conftest import Play
from tests.emulator.audit.straggling import SCENARIO, declare, events, rows, write

Judge = Callable[..., list[str]]
SHOWN = {"accuracy": 0.5, "loss": 1.0, "validation": 0.5, "initial": 0.5, "personalised_participants": 0.5}
EARLY = {"metric": "accuracy", "value": 0.4, "hold": 4}  # which the last of four rounds reaches


@pytest.fixture
def verdict(tmp_path: Path) -> Judge:
    """Judges four rounds; `shown` and `trained` say in which of them models were evaluated, and devices' own."""

    def judge(
        shown: str, trained: str, most: int = 4, test: bool = True, rules: Any = None, **evaluate: Any
    ) -> list[str]:
        declare(
            tmp_path, rounds={**SCENARIO["rounds"], "max": most, **(rules or {})}, evaluate=evaluate | {"test": test}
        )
        told = rows()
        for number, row in enumerate(told):
            row |= SHOWN if str(number) in shown else {}
            row |= {"personalised": 0.75} if str(number) in trained else {}
            row |= {} if test else dict.fromkeys(set(SHOWN) - {"validation"})
        return audit(write(tmp_path, events(), told)).faults

    return judge


DUE: dict[str, tuple[dict[str, Any], str, str]] = {  # as `evaluate` says: in which rounds of four, counted from 0
    "as by default, at the end": ({}, "0123", "3"),
    "every round": ({"personalise_every": 1}, "0123", "0123"),
    "every second round": ({"personalise_every": 2}, "0123", "13"),
    "every third round, and at the end": ({"personalise_every": 3}, "0123", "23"),
    "never": ({"personalise_every": "never"}, "0123", ""),
    "with models that are evaluated more seldom": ({"every": 3, "personalise_every": 2}, "123", "13"),
    "not at all, as models never are": ({"every": 0, "personalise_every": 2}, "", ""),
    "not at the end, which has not come": ({"most": 9, "personalise_every": 3}, "0123", "2"),
    "at an end that comes early": ({"most": 9, "rules": {"stop_at": EARLY}}, "0123", "3"),
    "at an end by the time": ({"most": 9, "every": 9, "rules": {"until_s": 14.0}}, "", "3"),
    "never, at an end that comes early": ({"most": 9, "rules": {"until_s": 14.0}, "every": 0}, "", ""),
}


@pytest.mark.parametrize(("says", "shown", "trained"), DUE.values(), ids=DUE)
def test_personalised_is_there_where_it_is_due_and_nowhere_else(
    verdict: Judge, says: dict[str, Any], shown: str, trained: str
) -> None:
    assert verdict(shown, trained, **says) == []
    for number in "0123":
        other = trained.replace(number, "") if number in trained else trained + number
        found = verdict(shown, other, **says)
        if number in trained and number not in shown:
            assert found == []  # nothing in the row shows that any device has test examples
            continue
        [fault] = found
        assert fault.startswith(f"scenario: row {number}: personalised is ")
        assert ("null" in fault) is (number in trained)
        assert f"evaluate.personalise_every is {says.get('personalise_every', 0)}" in fault


def test_a_round_that_is_not_evaluated_has_no_metric(verdict: Judge) -> None:
    assert verdict("13", "3", every=2) == []
    faults = verdict("123", "3", every=2)
    assert [fault.split()[3] for fault in faults] == list(SHOWN)
    assert all_of(fault.startswith("scenario: row 2: ") for fault in faults)


def test_without_a_test_set_only_validation_is_known(verdict: Judge) -> None:
    assert verdict("0123", "", test=False) == []
    [fault] = verdict("0123", "3", test=False)
    assert fault.startswith("scenario: row 3: personalised is 0.75")


@pytest.mark.slow
@pytest.mark.parametrize("rules", [{"max": 3}, {"max": 3, "until_s": 0.1}])
@pytest.mark.parametrize("every", [0, 1])
def test_a_run_that_ends_early_is_evaluated_as_one_that_does_not(play: Play, rules: Any, every: int) -> None:
    """With `every: 0` nothing is, at an early end neither."""
    run = play(rounds=rules, evaluate={"every": every}, model="tests.runs.network:small", training={"batch": 64})
    assert len(run.rounds) == (1 if "until_s" in rules else 3)
    assert [row["personalised"] is not None for row in run.rounds[-1:]] == [every == 1]
