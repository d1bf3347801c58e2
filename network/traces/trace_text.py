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
    """The text of a trace file, with the file's name for errors.  Making the Trace drops the text, to free memory."""

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
        """Returns the number and the text, stripped, of the first line that is neither blank nor a comment; (1, "") if
        there is none."""
        return next(((line, row) for line, row in self.rows() if not row.startswith("#")), (1, ""))

    def rows(self, first: int = 1) -> Iterator[tuple[int, str]]:
        """Yields the number and the text, stripped, of each line that is not blank, from line `first` on; the first
        line has number 1.

        The texts are made one by one, because a file may have millions of lines.  Raises BadFile for a line of more
        than WIDEST characters.
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
        """Yields the numbers of the lines from `first` on, as arrays of shape (lines, columns), each from a million
        characters.

        The last line is left out, and the blocks end early before one that holds anything but numbers, such as a blank
        line or an empty cell: the caller then continues with `rows`.  This takes a fifth of the time of `rows`.
        `numbers` has the characters of which numbers may consist.
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
        """Returns the arrays of `blocks` as one array of shape (lines, columns), with 0 lines if there are no
        blocks."""
        return np.concatenate([np.empty((0, columns)), *self.blocks(first, separator, columns)])

    def _begin(self, line: int) -> int:
        """Returns the index of a line's first character."""
        at = 0
        for _ in range(line - 1):
            at = self.text.find("\n", at) + 1
        return at

    def check_length(self, columns: int = 2) -> None:
        """Raises BadFile if the text has far more lines than can be replayed with this many columns, the time included.
        Callers check this before they parse the lines, which would take much memory."""
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
        """Returns the Trace with these values and this file's name, and drops the text.  Raises BadFile if the values
        are no valid Trace, or for more than PIECES rates."""
        if len(rates) > PIECES:
            raise self.bad(None, f"has {len(rates)} different moments; at most {PIECES} are replayed: cut it in parts")
        self.text = ""  # all was read, and a large file takes much memory
        try:
            return Trace(edges, rates, direction, kind, self.name, latency, loss, remark=remark)
        except ValueError as error:
            raise self.bad(None, str(error).removeprefix(f"{self.name} ")) from None

    def number(self, line: int, cell: str, what: str, largest: float = math.inf) -> float:
        """Returns a cell of a line as a finite number that is at least 0 and at most `largest`. Raises BadFile for
        another text; `what` names the number in the error."""
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
    """Returns the numbers of a text as an array of shape (lines, columns); None if any line is not exactly `columns`
    numbers."""
    lines = text.count("\n") + 1
    if text.translate(numbers) != "\n".join([separator * (columns - 1)] * lines):
        return None
    try:
        words = text.replace(separator, "\n") if separator else text
        return np.array(words.split(), dtype=np.float64).reshape(lines, columns)
    except ValueError:
        return None
