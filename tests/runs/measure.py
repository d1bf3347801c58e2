"""Rounds that one case of test_learning takes to get there: `python -m tests.runs.measure fedyogi`.  Minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from emulator.play.stage import Outcome
from tests.runs import test_learning as learning


def play(label: str, seed: int) -> Outcome:
    """Its run, up to the round that is enough."""
    case = learning.CASES[label]._replace(rounds=learning.SKEWED["rounds"]["max"])
    learning.CASES.clear()
    learning.CASES[label] = case
    setting = {"skewed": learning.SKEWED, "mild": learning.MILD}[case.setting]
    with TemporaryDirectory() as folder:
        return learning.played({**setting, "seeds": [seed]}, case.setting, Path(folder))[label]


if __name__ == "__main__":
    for seed in (1, 2):
        outcome = play(sys.argv[1], seed)
        accuracies = [row["accuracy"] for row in outcome.rows]
        print(f"seed {seed}: {len(accuracies)} rounds, to {max(accuracies, default=0.0):.3f}", outcome.failure or "")
