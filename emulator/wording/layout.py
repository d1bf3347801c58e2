"""Lays out lines and tables for a terminal of at least 80 columns."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table


def columns() -> int:
    """Returns the terminal's width in columns, but at least 80 and at most 140; 140 without a terminal."""
    return max(80, min(140, shutil.get_terminal_size((140, 24)).columns))


def printed(parts: Iterable[RenderableType], width: int) -> str:
    """Returns tables and plain texts, one below the other, as one text without colours."""
    page = io.StringIO()
    console = Console(file=page, width=width, highlight=False, markup=False)
    for part in parts:
        if isinstance(part, Table) and part.title:  # rich would wrap the title at the table's width
            console.print(filled(str(part.title), width))
            part.title = None
        console.print(part, soft_wrap=isinstance(part, str))
        console.print()
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip().splitlines())


def grid(title: str, *texts: str, numbers: Sequence[str] = ()) -> Table:
    """Returns an empty table without a frame.  Its columns: first `texts`, aligned left, then `numbers`, aligned
    right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for number, heading in enumerate(texts):
        table.add_column(escape(heading), no_wrap=not number)
    for heading in numbers:
        table.add_column(escape(heading), justify="right")
    return table


def filled(line: str, width: int, indent: str = "") -> str:
    """Returns a line wrapped at this width in characters; a number and its % stay on one line."""
    inner = indent + "  " * bool(indent)
    kept = line.replace(" %", "\N{NO-BREAK SPACE}%")
    return textwrap.fill(kept, width, initial_indent=indent, subsequent_indent=inner).replace("\N{NO-BREAK SPACE}", " ")


def short(value: float, digits: int = 3) -> str:
    """Returns the value with this number of significant digits.

    Values below a million have all digits before the point, values below 0.001 only one significant digit.
    """
    if 10 ** (digits - 1) <= abs(float(f"{value:.{digits}g}")) < 1e6:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 0.001 or not value else f"{value:.1g}"
