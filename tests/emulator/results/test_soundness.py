"""The runs of a scenario that are missing, in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from emulator.results.soundness import missing

ROW: dict[str, Any] = {"round": 0}


@pytest.mark.parametrize(
    ("baseline", "instead"),
    [
        ({}, "ratios are to fedcl instead"),  # no run of it has begun, so the summary has none
        ({1: []}, "there are no ratios to it"),  # it has begun, and stays the baseline
    ],
)
def test_what_ratios_refer_to_where_the_baseline_has_no_rounds(
    tmp_path: Path, baseline: dict[int, Sequence[Any]], instead: str
) -> None:
    found = Mock(folder=tmp_path, runs={"fedavg": baseline, "fedcl": {1: [ROW]}})
    found.scenario.seeds = [1]
    assert list(missing(found)) == [
        "These runs have no rounds, and are left out: fedavg-s1.",
        f"The baseline, fedavg, has no rounds: {instead}.",
    ]


def test_of_runs_that_are_all_there_nothing_is_missing(tmp_path: Path) -> None:
    found = Mock(folder=tmp_path, runs={"fedavg": {1: [ROW]}, "fedcl": {1: [ROW]}})
    found.scenario.seeds = [1]
    assert list(missing(found)) == []
