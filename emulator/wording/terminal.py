"""Prints tables for the width of a terminal, in particular those at the end of `compare`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from emulator.results.settings import settings
from emulator.results.summary import FEW
from emulator.results.table import Table
from emulator.results.units import counted
from emulator.wording import tables
from emulator.wording.layout import columns, filled
from scenarios.schema.scenario import Scenario

WIDE = 120  # columns that the full table needs
UNTIL = ((), ("joules",))  # columns to leave out if there is too little room, fewest first
NARROW = (("ratios",), ("ratios", "joules"), ("ratios", "joules", "rounds"), ("joules", "rounds", "bytes"))
END = ((), ("joules",), ("joules", "initial"))


def table(scenario: Scenario, summary: Mapping[str, Any]) -> str:
    """Returns the tables at the end of `compare` as text: for each algorithm, time, rounds and bytes until each target,
    and values at the end, as means over seeds with [low, high].

    Joules are shown if any are known and the terminal is wide enough.
    """
    ordered = {**summary, "labels": {entry.name: summary["labels"][entry.name] for entry in scenario.algorithms}}
    size = f"{counted(scenario.devices, 'device')}, {counted(len(scenario.seeds), 'seed')}"
    title = f"{scenario.name}: {size}, network model {scenario.network_model}"
    if len(scenario.seeds) > 1:
        few = len(scenario.seeds) < FEW
        title += f"; means over seeds [{'extremes' if few else 'quartiles'}]{'' if few else ', ratios [95 % interval]'}"
    parts = []
    if scenario.rounds.targets:
        until = [tables.to_targets(ordered, without) for without in (UNTIL if columns() >= WIDE else NARROW)]
        parts.append(printed(until, f"{title}; until a target was reached"))
        title = "At the end"
    parts.append(printed([tables.at_the_end(ordered, without) for without in END], title))
    if (stated := tables.published(ordered)).rows:
        parts.append(printed([stated], "Compared with published numbers"))
    return "\n\n".join(parts)


def settings_table(scenario: Scenario) -> str:
    """Returns a table of each algorithm's settings as text, with a caption on how they were chosen."""
    shown = settings(scenario)
    return "\n" + printed([shown], shown.caption)


def printed(shown: Sequence[Table], title: str = "") -> str:
    """Returns as text a title and, below it, the first of these tables that fits the terminal; if none fits, the last.

    Each table is tried in two forms: with ranges next to the means, and with ranges below the means.  The title is
    printed apart from the table, because rich would wrap it at the table's width.
    """
    text = io.StringIO()
    console = Console(file=text, width=columns(), markup=False, highlight=False)
    unbounded = console.options.update(width=1000)
    if title:
        console.print(filled(title, console.width), soft_wrap=True)
    for each in shown:
        folded = replace(each, rows=[[cell.replace(" [", "\n[") for cell in row] for row in each.rows])
        versions = [_grid(each), _grid(folded)]
        fitting = [it for it in versions if console.measure(it, options=unbounded).maximum <= console.width]
        if fitting:
            break
    console.print([*fitting, *versions[1:]][0])
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _grid(shown: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(shown.headings):
        grid.add_column(heading, justify="left" if number < shown.words else "right", no_wrap=not number)
    above = ""
    for row in shown.rows:  # a label is shown once
        grid.add_row("" if row[0] == above else row[0], *row[1:])
        above = row[0]
    return grid
