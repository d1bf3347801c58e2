"""report.html: one file that opens off line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from emulator.report.accuracy import accuracy_chart

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8886; }
th:first-child, td:first-child, td:nth-child(2) { text-align: left; }
.chart { width: 100%; height: auto; font-size: 13px; } .chart text { fill: currentColor; } .chart .grid { stroke: #8884; }
pre { overflow-x: auto; padding: 1rem; border: 1px solid #8886; }
"""
HEADINGS = ("algorithm", "target", "reached", "time, s", "rounds", "MB", "time / baseline")


def page(name: str, scenario: str, summary: Mapping[str, Any], runs: Mapping[str, Mapping[int, Sequence[Any]]]) -> str:
    """The page of a scenario: its picture, its table, and the scenario itself (YAML text)."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS)
    rows = "\n".join(
        _row(label, target, entry)
        for label, said in summary["labels"].items()
        for target, entry in said["targets"].items()
    )
    warnings = "".join(
        f"<p><strong>{escape(label)}</strong>: {escape(text)}</p>"
        for label, said in summary["labels"].items()
        for text in said["warnings"]
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)} - fedlapse</title><style>{STYLE}</style></head><body>
<h1>{escape(name)}</h1>
{accuracy_chart(runs)}
<p>Median over seeds, and [low, high]: the extremes below 5 seeds, else the quartiles. One line in the picture is one seed.</p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
{warnings}
<h2>Scenario</h2>
<pre>{escape(scenario)}</pre>
</body></html>
"""


def _row(label: str, target: str, entry: Mapping[str, Any]) -> str:
    ratio = entry["ratio_to_baseline"]["time_s"]
    cells = (
        label,
        target,
        f"{entry['reached']} of {entry['of']}",
        _spread(entry["time_s"], 1, 1),
        _spread(entry["rounds"], 1, 1),
        _spread(entry["bytes"], 1e6, 1),
        f"{ratio:.2f}" if ratio is not None else "-",
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _spread(spread: Mapping[str, float | None], unit: float, digits: int) -> str:
    """`12.5 [11.0, 14.0]`; one that was never reached is ∞."""
    if spread["low"] is None:
        return "not reached"
    shown = [f"{v / unit:.{digits}f}" if (v := spread[key]) is not None else "∞" for key in ("median", "low", "high")]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"
