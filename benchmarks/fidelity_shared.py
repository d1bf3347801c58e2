"""Predicted against measured seconds where flows share a link: real TCP through a router.  Needs root.

The settings stand in benchmarks/testbed/shared_links.yaml.  What was measured is kept beside them, in
shared_links.json, so that a model can be judged again without measuring: --stored.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.testbed import namespaces
from benchmarks.testbed.crowd import Setting, measure, predict, settings

KEPT = Path(__file__).parent / "testbed" / "shared_links.json"
REPETITIONS = 3


@dataclass(frozen=True)
class Finding:
    """What a model said of a setting, and what was measured."""

    setting: Setting
    predicted: list[float]
    measured: list[list[float]]

    @property
    def took(self) -> float:
        """The median of the makespans, s."""
        return statistics.median(map(self.setting.makespan, self.measured))

    @property
    def error(self) -> float:
        """Of the makespan: predicted over measured, less 1."""
        return self.setting.makespan(self.predicted) / self.took - 1

    @property
    def finish_errors(self) -> list[float]:
        """Of each transfer, against the median of its repetitions."""
        medians = map(statistics.median, zip(*map(self.setting.finishes, self.measured), strict=True))
        said = self.setting.finishes(self.predicted)
        return [guess / seconds - 1 for guess, seconds in zip(said, medians, strict=True)]


def line(finding: Finding) -> str:
    """One setting."""
    spans = sorted(map(finding.setting.makespan, finding.measured))
    said = finding.setting.makespan(finding.predicted)
    finishes = statistics.median(map(abs, finding.finish_errors))
    took = f"{finding.took:.2f} ({spans[0]:.2f}-{spans[-1]:.2f})"
    return f"| {finding.setting.label} | {said:.2f} | {took} | {finding.error:+.1%} | {finishes:.1%} |"


def summary(findings: Sequence[Finding]) -> str:
    """By group, and of all: errors of the makespans, and of the single transfers."""
    groups = dict.fromkeys(finding.setting.group for finding in findings)
    rows = [
        "| settings | number | median error | within 15 % | worst | mean, signed | finishes |",
        "|---|---|---|---|---|---|---|",
    ]
    for group in [*groups, None]:
        there = [each for each in findings if group in (None, each.setting.group)]
        errors = [each.error for each in there]
        finishes = statistics.median([abs(error) for each in there for error in each.finish_errors])
        within = sum(abs(error) <= 0.15 for error in errors) / len(errors)
        cells = (
            *(group or "all", str(len(there)), f"{statistics.median(map(abs, errors)):.1%}", f"{within:.0%}"),
            *(f"{max(errors, key=abs):+.1%}", f"{statistics.mean(errors):+.1%}", f"{finishes:.1%}"),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def kept() -> dict[str, list[list[float]]]:
    """The seconds of each transfer in each repetition, by the setting's label."""
    found: dict[str, list[list[float]]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def keep(label: str, ends: list[list[float]]) -> None:
    rounded = [[round(end, 4) for end in each] for each in ends]
    rows = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in sorted((kept() | {label: rounded}).items())]
    KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def main(
    only: Annotated[str, typer.Option(help="Only settings whose group or line has this in it.")] = "",
    repetitions: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = REPETITIONS,
    stored: Annotated[bool, typer.Option(help="Measures nothing: judges by what was measured before.")] = False,
    held_out: Annotated[int, typer.Option(help="The settings held out first (1) or second (2); not the others.")] = 0,
) -> None:
    """Sends real bytes through a router, and says how far the prediction was off."""
    fault = None if stored else namespaces.missing()
    if fault:
        typer.echo(f"fidelity_shared {fault}; --stored judges by what was measured before", err=True)
        raise typer.Exit(2)
    chosen = [each for each in settings() if only in f"{each.group}: {each.label}" and each.held_out == held_out]
    findings = []
    with namespaces.ended_politely():
        for setting in chosen:
            if not stored:
                keep(setting.label, measure(setting, repetitions).ends)
            if setting.label in kept():
                findings.append(Finding(setting, predict(setting), kept()[setting.label]))
                typer.echo(line(findings[-1]))
    typer.echo(summary(findings) if findings else "nothing was measured of this; without --stored it is measured now")


if __name__ == "__main__":
    typer.run(main)
