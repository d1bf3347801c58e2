"""How strong the penalties of the shipped scenarios should be: a grid, judged on validation data alone.

    python -m benchmarks.strengths quickstart lte-phones     a quarter of an hour on a core
    python -m benchmarks.strengths fedcl-mnist --seeds 1     half an hour; with three seeds, three times as long

Each value of the grid is run with seeds that the scenario does not report, until it reaches TARGET on the devices'
held-out examples (`validation`).  Values whose median time is within 5 % of the shortest count as equal, since so few
seeds do not tell less apart.  Chosen is the one of them with the highest validation accuracy, and of equal ones the
strongest.  No test example is looked at.  benchmarks/strengths.txt is what it printed, and the scenarios have the
values that it names.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.devices import table
from emulator.results.results import read
from emulator.results.units import duration
from scenarios.load import load
from scenarios.schema.scenario import Scenario

TOLERANCE = 1.05  # times the shortest time
SEEDS = (101, 102, 103)  # for choices only
TARGET = 0.9  # validation accuracy; a later one would take a day in fedcl-mnist
STOP = {"metric": "validation", "value": TARGET}
WEAK_TO_STRONG = (0.005, 0.05, 0.5, 5.0)
MEAN = (0.5, 5.0, 50.0)
GRIDS: dict[str, dict[str, tuple[str, Sequence[float]]]] = {  # scenario: {label: (option, values)}
    "quickstart": {
        "fedprox": ("mu", (0.001, 0.01, 0.1, 1.0)),
        "fedcl-n10": ("strength", (0.5, 5.0, 50.0, 500.0)),
        "fedcurv": ("strength", WEAK_TO_STRONG),
    },
    "lte-phones": {
        "fedcl-n10": ("strength", WEAK_TO_STRONG),
        "fedcurv": ("strength", (0.00005, 0.0005, *WEAK_TO_STRONG)),
    },
    "fedcl-mnist": {
        "fedprox": ("mu", (0.01, 0.1, 1.0)),
        "fedcl": ("strength", MEAN),
        "fedcl-n10": ("strength", MEAN),
        "fedcurv": ("strength", (0.005, 0.05, 0.5)),
    },
}


@dataclass(frozen=True)
class Tried:
    """A value of the grid, and what came out: medians over the seeds."""

    label: str
    option: str
    value: float | None  # None: the baseline, which has none
    time: float | None  # s to the target on validation data; None: never
    validation: float  # accuracy there, or after all rounds


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Scenarios; default: all of the grids.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1, max=len(SEEDS))] = len(SEEDS),
    rounds: Annotated[int | None, typer.Option(help="Rounds at most; default: the scenario's.")] = None,
) -> None:
    """Searches, and prints a table for each scenario."""
    for name in names or GRIDS:
        tried = search(name, SEEDS[:seeds], rounds)
        by = ", ".join(map(str, SEEDS[:seeds]))
        typer.echo(f"{name}, seeds {by}: median time to {TARGET:g} and accuracy there, on validation data")
        typer.echo(f"{page(tried)}\n")


def search(name: str, seeds: Sequence[int], rounds: int | None = None) -> list[Tried]:
    """The baseline, then each value of the scenario's grid; a line on stderr as each has ended."""
    scenario = load(name)
    if both := set(seeds) & set(scenario.seeds):
        raise typer.BadParameter(f"{name} reports seed {min(both)}, so it cannot be chosen by")
    baseline = scenario.algorithms[0]
    entries: list[tuple[Any, tuple[str, str, float | None]]] = [(baseline.key, (baseline.name, "", None))]
    for label, (option, values) in GRIDS[name].items():
        entries += [(_entry(scenario, label, option, value), (label, option, value)) for value in values]
    changes: dict[str, Any] = {
        "seeds": list(seeds),
        "rounds.targets": [STOP],
        "rounds.stop_at": STOP,
        "evaluate.personalise_every": "never",
    }
    if rounds:
        changes["rounds.max"] = rounds
    tried = []
    for entry, (label, option, value) in entries:
        tried.append(Tried(label, option, value, *_played(name, {**changes, "algorithms": [entry]})))
        typer.echo(f"{name}: {tried[-1]}", err=True)
    return tried


def chosen(tried: Sequence[Tried]) -> dict[str, Tried]:
    """The value of each label; a label of which no value got there has none."""
    best: dict[str, Tried] = {}
    for label in dict.fromkeys(one.label for one in tried if one.value is not None):
        there = [(one.time, one) for one in tried if one.label == label and one.time is not None]
        shortest = min((time for time, _ in there), default=inf)
        equal = [one for time, one in there if time <= TOLERANCE * shortest]
        best |= {label: max(equal, key=lambda one: (one.validation, one.value or 0.0))} if equal else {}
    return best


def page(tried: Sequence[Tried]) -> str:
    """A line for each value, the chosen ones marked."""
    best = chosen(tried)
    rows = [
        (
            one.label,
            "" if one.value is None else f"{one.option} = {one.value:g}",
            "never" if one.time is None else duration(one.time),
            f"{one.validation:.3f}",
            "chosen" if one is best.get(one.label) else "",
        )
        for one in tried
    ]
    return table(("algorithm", "option", "time", "validation", ""), rows)


def _entry(scenario: Scenario, label: str, option: str, value: float) -> dict[str, Any]:
    entry = next(entry for entry in scenario.algorithms if entry.name == label)
    return {entry.key: {**entry.options, option: value}, "name": f"{label}-{value:g}"}


def _played(name: str, changes: Mapping[str, Any]) -> tuple[float | None, float]:
    """Medians over the seeds: the time to the target, and the last validation accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        said = [f"{path}={json.dumps(value)}" for path, value in changes.items()]
        command = [sys.executable, "-m", "emulator", "compare", name, *said, "--workers", "1", "--quiet", "--out", out]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # a strength too great may end a run early
        results = read(out)
        (label,) = results.runs
        time = results.summary["labels"][label]["targets"][f"validation {TARGET:g}"]["time_s"]["median"]
        return time, _median(results.runs[label].values())


def _median(runs: Any) -> float:
    """Of the last rounds; 0 for a run that has none."""
    return float(median(rows[-1]["validation"] or 0.0 if rows else 0.0 for rows in runs))


if __name__ == "__main__":
    typer.run(main)
