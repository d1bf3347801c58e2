"""The text of a trace file, with numbered lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from network.foreign_files import OFTEN, BadFile, Lack, bad, decoded, shown, tell
from network.links.trace import Direction, Floats, Kind, Trace

PIECES = 5_000_000  # of a trace with a time and a rate; fewer with more columns
SPARE = 1_000  # further lines: headers, comments, blanks
LONGEST = 1e10  # s, three centuries
FASTEST = 1e9 * 1e6 / 8  # bytes/s: 1e9 Mbit/s
PACKET = 1500  # bytes of one of Mahimahi's opportunities
WIDEST = 10_000_000  # characters of a line
BLOCK = 2**20  # characters of a text that are read at the same time
DIGITS = dict.fromkeys(map(ord, "0123456789"))  # for removal from a text, which leaves the separators
NUMBERS = DIGITS | dict.fromkeys(map(ord, ".eE+-"))


@dataclass
class TraceText:
    """The text of a file with the file's name for errors; making its trace drops the text."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str, data: bytes) -> TraceText:
        """Returns the text of these bytes. Lines may end as on Unix, on Windows and on old Macs. Raises BadFile if the
        bytes are not text."""
        text = decoded(name, data)
        if text.count("\r") > text.count("\r\n"):
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return cls(name, text)

    def start(self) -> tuple[int, str]:
        """Returns the first line that is not a comment, stripped, with its number; (1, "") if there is none."""
        return next(((line, row) for line, row in self.rows() if not row.startswith("#")), (1, ""))

    def rows(self, first: int = 1) -> Iterator[tuple[int, str]]:
        """Yields non-blank lines, stripped, with their numbers, from the line `first` on; the first line has number 1.

        They are made one by one, because a file may have millions.  Raises BadFile for a line of more than WIDEST
        characters.
        """
        number, start, text = first - 1, self._begin(first), self.text
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            number += 1
            if end - start > WIDEST:
                raise self.bad(number, f"has {end - start} characters; a line has {WIDEST} at most")
            if line := text[start:end].strip():
                yield number, line
            if number % OFTEN == 0:
                tell(self.name, end / len(text))
            start = end + 1

    def blocks(
        self, first: int, separator: str, columns: int, numbers: Mapping[int, None] = NUMBERS
    ) -> Iterator[Floats]:
        """Yields the numbers of the lines from `first` on, some hundred thousand at a time, (lines, columns).

        The blocks end with the last line but one, or before a block with anything else, such as a blank or an empty
        cell, which `rows` then handles.  This takes a fifth of the time of `rows`.
        """
        start, stop = self._begin(first), self.text.rstrip("\n").rfind("\n") + 1
        while start < stop:
            end = self.text.rfind("\n", start, min(start + BLOCK, stop)) + 1
            block = _numbers(self.text[start : end - 1], separator, columns, numbers) if end else None
            if block is None:
                return
            yield block
            tell(self.name, end / len(self.text))
            start = end

    def table(self, first: int, separator: str, columns: int) -> Floats:
        """Returns all blocks as one array."""
        return np.concatenate([np.empty((0, columns)), *self.blocks(first, separator, columns)])

    def _begin(self, line: int) -> int:
        """Returns the index of a line's first character."""
        at = 0
        for _ in range(line - 1):
            at = self.text.find("\n", at) + 1
        return at

    def check_length(self, columns: int = 2) -> None:
        """Raises BadFile if the text has far more lines of this many columns than can be replayed, which would take
        much memory.

        The time is a column, too.
        """
        lines, most = self.text.count("\n"), 2 * PIECES // columns
        if lines > most + SPARE:
            of = f" of {columns} columns" if columns > 2 else ""
            cut = "cut it in parts" + (", or leave columns out" if columns > 2 else "")
            raise self.bad(None, f"has {lines} lines{of}; at most {most} moments are replayed: {cut}")

    def bad(self, line: int | None, reason: str, lacks: Lack | None = None) -> BadFile:
        return bad(self.name, line, reason, lacks)

    def trace(
        self,
        edges: Floats,
        rates: Floats,
        direction: Direction,
        kind: Kind,
        latency: Floats | None = None,
        loss: Floats | None = None,
        remark: str = "",
    ) -> Trace:
        """Returns the Trace that the file holds. Raises BadFile, also for more than PIECES rates."""
        if len(rates) > PIECES:
            raise self.bad(None, f"has {len(rates)} different moments; at most {PIECES} are replayed: cut it in parts")
        self.text = ""  # all was read, and a large file takes much memory
        try:
            return Trace(edges, rates, direction, kind, self.name, latency, loss, remark=remark)
        except ValueError as error:
            raise self.bad(None, str(error).removeprefix(f"{self.name} ")) from None

    def number(self, line: int, cell: str, what: str, largest: float = math.inf) -> float:
        """Returns a cell as a finite number that is at least 0 and at most `largest`. Raises BadFile."""
        try:
            value = float(cell) if "_" not in cell else math.nan  # Python reads 1_0 as 10, which no file means
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be a finite number and at least 0")
        if value > largest:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be {largest:g} at most")
        return value


def _numbers(text: str, separator: str, columns: int, numbers: Mapping[int, None]) -> Floats | None:
    """Returns lines with equally many numbers each; None if they contain anything else."""
    lines = text.count("\n") + 1
    if text.translate(numbers) != "\n".join([separator * (columns - 1)] * lines):
        return None
    try:
        words = text.replace(separator, "\n") if separator else text
        return np.array(words.split(), dtype=np.float64).reshape(lines, columns)
    except ValueError:
        return None
