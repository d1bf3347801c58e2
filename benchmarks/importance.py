"""Does SGD bear the strength that the paper of importance from agents states?  It needs lr x strength x largest F < 2.
Measures that for each reading of what F squares: table 1 on MNIST with the MLP, F after the first round.

    FEDLAPSE_DATA=... python -m benchmarks.importance           some minutes
    FEDLAPSE_DATA=... python -m benchmarks.importance --write   keeps it in docs/papers/importance.csv
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from emulator.wording.markup import csv_text
from fedlapse import compare

KEPT = Path(__file__).parent.parent / "docs" / "papers" / "importance.csv"
OWN, OTHER = ("mean_squared", "empirical"), ("batch_squared", "sampled", "exact")
READINGS = (*OWN, *OTHER)
STRENGTH = 100_000
HEADINGS = ("fisher", "seed", "lr x strength x largest F")


def main(write: Annotated[bool, typer.Option("--write", help="Keep what was measured.")] = False) -> None:
    """Prints lr x strength x largest F of each reading and seed."""
    # Round 1 has no penalty, so F does not depend on the strength; with strength 1 no reading diverges in round 2.
    # What importance from agents has no option for, FedCurv has: its penalty has the sum of ten F and no half, so 0.05
    # makes it the same.
    weak = [{"agentimportance": {"fisher": each, "strength": 1}, "name": each} for each in OWN]
    weak += [{"fedcurv": {"fisher": each, "strength": 0.05}, "name": each} for each in OTHER]
    changes = {"algorithms": weak, "published": [], "rounds": {"max": 2}, "evaluate": {"personalise_every": "never"}}
    with TemporaryDirectory() as out:
        played = compare("papers/agentimportance-table1-mnist-mlp", out=f"{out}/runs", workers=0, **changes)
        found = []
        for run in sorted(played, key=lambda run: (READINGS.index(run.label), run.seed)):
            second = json.loads((run.folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[1])
            found.append((run.label, run.seed, STRENGTH * second["leverage"]["step"]))
    text = csv_text(HEADINGS, found)
    typer.echo(text)
    if write:
        KEPT.write_text(text, encoding="utf-8")


def kept() -> dict[str, list[float]]:
    """Returns what was measured and kept, by reading."""
    found: dict[str, list[float]] = {}
    with KEPT.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row[HEADINGS[0]], []).append(float(row[HEADINGS[2]]))
    return found


if __name__ == "__main__":
    typer.run(main)
