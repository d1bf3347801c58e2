"""The table at the end of `compare`."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from emulator.report.units import NONE, Unit, of_bytes, of_time, ratio, spread
from scenarios.schema import Scenario

Spread = Mapping[str, float | None]
Labels = Mapping[str, Mapping[str, Any]]  # of summary.json, in the scenario's order

COUNTS = Unit("", 1.0, None)
SHARE = Unit("", 1.0, 3)


def table(scenario: Scenario, summary: Mapping[str, Any]) -> str:
    """Time, rounds and bytes to each target and at the end, per algorithm: the median over seeds, and [low, high]."""
    seeds = len(scenario.seeds)
    labels = {entry.name: summary["labels"][entry.name] for entry in scenario.algorithms}
    units = Units(of_time(_all(labels, "time_s")), of_bytes(_all(labels, "bytes")))
    title = f"{scenario.name}: {scenario.devices} devices, {seeds} seed{'s' * (seeds > 1)}"
    text = io.StringIO()
    console = Console(file=text, width=columns(), markup=False, highlight=False)
    if scenario.rounds.targets:
        console.print(_to_targets(f"{title}; until a target was reached", labels, units))
        console.print()
    console.print(_at_the_end("At the end" if scenario.rounds.targets else f"{title}; at the end", labels, units))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


@dataclass(frozen=True)
class Units:
    time: Unit
    size: Unit


def columns() -> int:
    """The terminal's, within reason."""
    return max(80, min(120, shutil.get_terminal_size((120, 24)).columns))


def _to_targets(title: str, labels: Labels, units: Units) -> Table:
    baseline = next(iter(labels))
    numbers = (f"time, {units.time.name}", "rounds", units.size.name, f"time / {baseline}'s")
    grid = _grid(title, ("algorithm", "target", "reached"), numbers)
    for label, entry in labels.items():
        for name, target in entry["targets"].items():
            against = ratio(target["ratio_to_baseline"]["time_s"])
            grid.add_row(label, name, f"{target['reached']} of {target['of']}", *_figures(target, units), against)
            label = ""
    return grid


def _at_the_end(title: str, labels: Labels, units: Units) -> Table:
    numbers = ("accuracy", f"time, {units.time.name}", "rounds", units.size.name)
    grid = _grid(title, ("algorithm",), numbers)
    for label, entry in labels.items():
        final = entry["final"].get("accuracy")
        accuracy = spread(final, SHARE) if final else NONE
        time = spread(entry["time_s"], units.time) if entry["time_s"] else NONE
        grid.add_row(label, accuracy, time, _ends(entry), spread(entry["bytes"], units.size))
    return grid


def _grid(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title_style="", title_justify="left")
    grid.title = title
    for heading in texts:
        grid.add_column(heading)
    for heading in numbers:
        grid.add_column(heading, justify="right")
    return grid


def _figures(target: Mapping[str, Any], units: Units) -> tuple[str, str, str]:
    return spread(target["time_s"], units.time), spread(target["rounds"], COUNTS), spread(target["bytes"], units.size)


def _ends(entry: Mapping[str, Any]) -> str:
    rounds = sorted(entry["rounds"].values())
    return f"{rounds[0]}" if rounds[0] == rounds[-1] else f"{rounds[0]} to {rounds[-1]}"


def _all(labels: Labels, what: str) -> Iterator[float | None]:
    """All medians of a column, for which one unit is chosen."""
    for entry in labels.values():
        parts: list[Spread | None] = [entry[what], *(target[what] for target in entry["targets"].values())]
        yield from (part["median"] for part in parts if part)


def duration(seconds: float) -> str:
    """`41.2 s`, `12:05 min`, `3:10:00 h`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    whole = math.floor(seconds + 0.5)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02} h"
