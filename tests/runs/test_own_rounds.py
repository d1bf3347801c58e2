"""Synchronous and asynchronous algorithms in one scenario: each plays as it would with its rounds as the scenario's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.audit.audit import audit
from emulator.record.record import FILES
from tests.conftest import FAST, results

ASYNC = {"mode": "async", "buffer": 2, "in_flight": 3}
LATE = {"fraction": 0.5, "ask": 3, "stragglers": "count"}
FLEET = {
    "fleet": [{"profile": "phone-mid", "count": 3, "link": FAST}, {"profile": "phone-low", "count": 1, "link": FAST}]
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mixed = [{"fedavg": {"rounds": LATE}, "name": "late"}, {"fedbuff": {"rounds": ASYNC}}, "fedavg"]
    return results(tmp_path_factory.mktemp("own") / "both", {**FLEET, "algorithms": mixed})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "rounds", "name"), [({"fedavg": {}, "name": "late"}, LATE, "late-s1"), ("fedbuff", ASYNC, "fedbuff-s1")]
)
def test_it_is_the_run_of_a_scenario_with_these_rounds(
    both: Path, tmp_path: Path, entry: Any, rounds: Any, name: str
) -> None:
    shared: dict[str, Any] = {"rounds": {"max": 2, **rounds}, "algorithms": [entry]}
    if "mode" in rounds:
        shared["rounds"]["fraction"] = 0.3  # the default: synchronous rounds have it alone
    alone = results(tmp_path / "alone", {**FLEET, **shared})
    for file in FILES:
        assert (both / name / file).read_bytes() == (alone / name / file).read_bytes(), file


@pytest.mark.slow
def test_each_run_is_judged_by_its_own_rounds(both: Path) -> None:
    for name in ("late-s1", "fedbuff-s1", "fedavg-s1"):
        found = audit(both / name)
        assert (found.faults, found.unjudged) == ([], None), name


@pytest.mark.slow
def test_the_summary_counts_late_replies_and_their_staleness(both: Path) -> None:
    labels = json.loads((both / "summary.json").read_text())["labels"]
    rows = [json.loads(line) for line in (both / "fedbuff-s1" / "rounds.jsonl").read_text().splitlines()]
    ages = [(int(age), number) for row in rows for age, number in row["staleness"].items()]
    assert sum(number for _, number in ages) == 2 * len(rows)  # a version has K = 2
    found = labels["fedbuff"]
    assert found["device_rounds"]["counted"] == 2 * len(rows)
    assert found["device_rounds"]["asked"] == sum(row["asked"] for row in rows)
    assert found["staleness"]["mean"] == sum(age * number for age, number in ages) / (2 * len(rows))
    assert found["staleness"]["largest"] == max(age for age, _ in ages)
    assert "staleness" not in labels["fedavg"]
