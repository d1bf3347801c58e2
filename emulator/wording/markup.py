"""Text and tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def escaped(cell: str) -> str:
    """Text that Markdown leaves as it is: no tags, no columns, no lines of its own."""
    shown = " ".join(cell.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_|":
        shown = shown.replace(sign, "\\" + sign)
    return shown.replace("](", "]\\(")


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table; so many columns from the left are text, the others are numbers."""
    rules = [":--" if number < words else "--:" for number in range(len(headings))]
    lines = [[escaped(cell) for cell in headings], rules, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
