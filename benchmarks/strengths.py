"""How strong the penalties of the shipped scenarios should be: a grid, judged on validation data alone.

    python -m benchmarks.strengths                 all of GRIDS; a quarter of an hour on a core
    python -m benchmarks.strengths quickstart      one of them

Each value of the grid is run with seeds that the scenario does not report, until it reaches the scenario's hardest
target on the devices' held-out examples (`validation`).  Values whose median time is within 5 % of the shortest count
as equal, since three seeds do not tell less apart.  Chosen is the one of them with the highest validation accuracy, and
of equal ones the strongest.  No test example is looked at.  benchmarks/strengths.txt is what it printed, and the
scenarios have the values that it names.
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
WEAK_TO_STRONG = (0.005, 0.05, 0.5, 5.0)
GRIDS: dict[str, dict[str, tuple[str, Sequence[float]]]] = {  # scenario: {label: (option, values)}
    "quickstart": {
        "fedprox": ("mu", (0.001, 0.01, 0.1, 1.0)),
        "fedcl-n10": ("strength", (0.5, 5.0, 50.0, 500.0)),
        "fedcurv": ("strength", WEAK_TO_STRONG),
    },
    "lte-phones": {"fedcl-n10": ("strength", WEAK_TO_STRONG), "fedcurv": ("strength", WEAK_TO_STRONG)},
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
    names: Annotated[list[str] | None, typer.Argument(help="Of scenarios; default: all of the grids.")] = None,
    rounds: Annotated[int | None, typer.Option(help="At most so many rounds; default: the scenario's.")] = None,
) -> None:
    """Searches, and prints a table for each scenario."""
    for name in names or GRIDS:
        tried = search(name, rounds)
        target, seeds = _target(load(name))["value"], ", ".join(map(str, SEEDS))
        typer.echo(f"{name}, seeds {seeds}: median time to {target:g} and accuracy there, on validation data")
        typer.echo(f"{page(tried)}\n")


def search(name: str, rounds: int | None = None) -> list[Tried]:
    """The baseline, then each value of the scenario's grid."""
    scenario, grid = load(name), GRIDS[name]
    if both := set(SEEDS) & set(scenario.seeds):
        raise typer.BadParameter(f"{name} reports seed {min(both)}, so it cannot be chosen by")
    values = {label: values for label, (_, values) in grid.items()}
    entries: list[Any] = [scenario.algorithms[0].key]
    entries += [_entry(scenario, label, grid[label][0], value) for label in grid for value in values[label]]
    target = _target(scenario)
    changes = {
        "seeds": list(SEEDS),
        "algorithms": entries,
        "rounds.targets": [target],
        "rounds.stop_at": target,
        "evaluate.personalise_every": "never",
    }
    found = _played(name, changes | ({"rounds.max": rounds} if rounds else {}))
    keys = [(label, grid[label][0], value) for label in grid for value in values[label]]
    name = f"validation {target['value']:g}"
    return [
        Tried(*key, of["targets"][name]["time_s"]["median"], of["validation"])
        for key, of in zip([(scenario.algorithms[0].name, "", None), *keys], found, strict=True)
    ]


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


def _target(scenario: Scenario) -> dict[str, Any]:
    """The scenario's hardest, on validation data."""
    return {"metric": "validation", "value": max(target.value for target in scenario.rounds.targets)}


def _entry(scenario: Scenario, label: str, option: str, value: float) -> dict[str, Any]:
    entry = next(entry for entry in scenario.algorithms if entry.name == label)
    return {entry.key: {**entry.options, option: value}, "name": f"{label}-{value:g}"}


def _played(name: str, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the summary says of each label, in the order of the scenario, and its last validation accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        said = [f"{path}={json.dumps(value)}" for path, value in changes.items()]
        command = [sys.executable, "-m", "emulator", "compare", name, *said, "--workers", "1", "--quiet", "--out", out]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # a strength too great may end a run early
        results = read(out)
        labels = [entry.name for entry in results.scenario.algorithms]
        return [
            {**results.summary["labels"][label], "validation": _median(results.runs[label].values())}
            for label in labels
        ]


def _median(runs: Any) -> float:
    """Of the last rounds; 0 for a run that has none."""
    return float(median(rows[-1]["validation"] or 0.0 if rows else 0.0 for rows in runs))


if __name__ == "__main__":
    typer.run(main)
