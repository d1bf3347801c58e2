"""A table for reports: headings and rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int  # so many columns from the left are text, the others are numbers
