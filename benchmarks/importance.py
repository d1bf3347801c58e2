"""Does SGD bear the strength that the paper of importance from agents states?  It needs lr x strength x largest F < 2.
Measures that for each reading of what F squares: table 1 with the MLP, F after the first round.

    FEDLAPSE_DATA=... python -m benchmarks.importance               on MNIST; some minutes
    FEDLAPSE_DATA=... python -m benchmarks.importance cifar --own   on CIFAR-10
    FEDLAPSE_DATA=... python -m benchmarks.importance --write       keeps it in docs/papers/importance.csv
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
HEADINGS = ("data", "fisher", "seed", "lr x strength x largest F")


def main(
    data: Annotated[str, typer.Argument(help="mnist or cifar.")] = "mnist",
    own: Annotated[bool, typer.Option("--own", help="Only the readings that the algorithm has.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Keep what was measured.")] = False,
) -> None:
    """Prints lr x strength x largest F of each reading and seed."""
    # Round 1 has no penalty, so F does not depend on the strength; with strength 1 no reading diverges in round 2.
    # What importance from agents has no option for, FedCurv has: its penalty has the sum of ten F and no half, so 0.05
    # makes it the same.
    weak = [{"agentimportance": {"fisher": each, "strength": 1}, "name": each} for each in OWN]
    weak += [{"fedcurv": {"fisher": each, "strength": 0.05}, "name": each} for each in OTHER if not own]
    changes = {"algorithms": weak, "published": [], "rounds": {"max": 2}, "evaluate": {"personalise_every": "never"}}
    with TemporaryDirectory() as out:
        played = compare(f"papers/agentimportance-table1-{data}-mlp", out=f"{out}/runs", workers=0, **changes)
        found = []
        for run in sorted(played, key=lambda run: (READINGS.index(run.label), run.seed)):
            second = json.loads((run.folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[1])
            found.append((data, run.label, str(run.seed), str(STRENGTH * second["leverage"]["step"])))
    typer.echo(csv_text(HEADINGS, found))
    if write:
        others = [row for row in rows() if row[0] != data]
        KEPT.write_text(csv_text(HEADINGS, [*others, *found]), encoding="utf-8")


def rows() -> list[tuple[str, ...]]:
    """Returns the rows that are kept, as in HEADINGS."""
    with KEPT.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def kept(data: str = "mnist") -> dict[str, list[float]]:
    """Returns what was measured on this data and kept, by reading."""
    found: dict[str, list[float]] = {}
    for name, fisher, _, value in rows():
        if name == data:
            found.setdefault(fisher, []).append(float(value))
    return found


if __name__ == "__main__":
    typer.run(main)
