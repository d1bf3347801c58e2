"""The table at the end of `compare`."""

from __future__ import annotations

import io
import math
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scenarios.schema import Scenario


def table(scenario: Scenario, summary: dict[str, Any]) -> str:
    """Time, rounds and bytes to each target, per algorithm: the median over seeds, and [low, high]."""
    seeds = len(scenario.seeds)
    grid = Table(
        title=f"{escape(scenario.name)}: {scenario.devices} devices, {seeds} seed{'s' * (seeds > 1)}",
        title_justify="left",
    )
    for heading in ("algorithm", "target", "reached", "time", "rounds", "MB", "time / baseline"):
        grid.add_column(heading, justify="left" if heading in ("algorithm", "target") else "right")
    for label, entry in summary["labels"].items():
        for name, target in entry["targets"].items():
            grid.add_row(escape(label), name, f"{target['reached']} of {target['of']}", *_figures(target))
        final = entry["final"].get("accuracy")
        if final:
            grid.add_row(escape(label), "final accuracy", _spread(final, lambda v: f"{v:.3f}"), *_ends(entry))
        grid.add_section()
    text = io.StringIO()
    Console(file=text, width=120).print(grid)
    return text.getvalue().rstrip()


def _figures(target: dict[str, Any]) -> list[str]:
    ratio = target["ratio_to_baseline"]["time_s"]
    return [
        _spread(target["time_s"], duration),
        _spread(target["rounds"], lambda v: f"{v:g}"),
        _spread(target["bytes"], lambda v: f"{v / 1e6:.1f}"),
        f"{ratio:.2f}x" if ratio is not None else "-",
    ]


def _ends(entry: dict[str, Any]) -> list[str]:
    rounds = sorted(entry["rounds"].values())
    span = f"{rounds[0]}" if rounds[0] == rounds[-1] else f"{rounds[0]} to {rounds[-1]}"
    return [_spread(entry["time_s"], duration), span, _spread(entry["bytes"], lambda v: f"{v / 1e6:.1f}"), ""]


def _spread(spread: dict[str, float | None], show: Any) -> str:
    low, median, high = (spread[key] for key in ("low", "median", "high"))
    if low is None:
        return "not reached"
    shown = [show(v) if v is not None else "∞" for v in (median, low, high)]
    return shown[0] if low == high else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def duration(seconds: float) -> str:
    """`41.2 s`, `12:05 min`, `3:10:00 h`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    whole = math.floor(seconds + 0.5)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02} h"
