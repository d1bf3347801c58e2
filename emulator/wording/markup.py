"""Text and tables as Markdown, and tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from emulator.results.table import Table

Value = str | int | float | None


def escaped(cell: str) -> str:
    """Returns the text of a table's cell, escaped so that Markdown shows it literally and in one line."""
    shown = " ".join(cell.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_|":
        shown = shown.replace(sign, "\\" + sign)
    return shown.replace("](", "]\\(")


def grid(shown: Table) -> str:
    """Returns a table and its caption as Markdown; "" if the table has no rows."""
    rules = [":--" if number < shown.words else "--:" for number in range(len(shown.headings))]
    lines = [
        [escaped(cell) for cell in shown.headings],
        rules,
        *([escaped(cell) for cell in row] for row in shown.rows),
    ]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\n<sub>{escaped(shown.caption)}</sub>" if shown.rows else ""


def listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def csv_text(headings: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    """Returns the text of a CSV file.  Numbers are written in full, unknown values as empty cells, booleans as yes or
    no."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)
