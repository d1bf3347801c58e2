"""The tables at the end of `compare`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from emulator import tables
from emulator.commands.plan_text import columns
from scenarios.schema import Scenario

WIDE = 120  # columns that all of the table takes


def table(scenario: Scenario, summary: Mapping[str, Any]) -> str:
    """Time, rounds and bytes to each target and at the end, per algorithm: the median over seeds, and [low, high]."""
    seeds = len(scenario.seeds)
    ordered = {**summary, "labels": {entry.name: summary["labels"][entry.name] for entry in scenario.algorithms}}
    text = io.StringIO()
    console = Console(file=text, width=columns(), markup=False, highlight=False)
    title = f"{scenario.name}: {scenario.devices} devices, {seeds} seed{'s' * (seeds > 1)}"
    if scenario.rounds.targets:
        until = tables.to_targets(ordered)
        console.print(_grid(f"{title}; until a target was reached", until if columns() >= WIDE else _narrow(until)))
        console.print()
        title = "At the end"
    console.print(_grid(title, tables.at_the_end(ordered)))
    if (stated := tables.published(ordered)).rows:
        console.print()
        console.print(_grid("Beside what is published", stated))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _narrow(shown: tables.Table) -> tables.Table:
    """Without the ratios of rounds and bytes: the last of every pair of columns but the first pair."""
    kept = [0, 1, 2, 3, 4, 5, 7]
    rows = [[row[number] for number in kept] for row in shown.rows]
    return replace(shown, headings=[shown.headings[number] for number in kept], rows=rows)


def _grid(title: str, shown: tables.Table) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), title_style="")
    grid.title, grid.title_justify = title, "left"
    for number, heading in enumerate(shown.headings):
        grid.add_column(heading, justify="left" if number < shown.words else "right")
    above = ""
    for row in shown.rows:  # a label stands once
        grid.add_row("" if row[0] == above else row[0], *row[1:])
        above = row[0]
    return grid
