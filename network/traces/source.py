"""A text with numbered lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from network.files import BadFile, Lack, bad, decoded, shown
from network.links.trace import Direction, Floats, Kind, Trace

PIECES = 5_000_000  # of a trace: a second of computing and half a GB each million, roughly
LONGEST = 1e10  # s, three centuries
FASTEST = 1e9 * 1e6 / 8  # bytes/s: 1e9 Mbit/s
PACKET = 1500  # bytes of one of Mahimahi's opportunities


@dataclass(frozen=True)
class Source:
    """A text, and its name in errors."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Source:
        """Raises BadFile if the bytes are not text."""
        return cls(name, decoded(name, data))

    def rows(self) -> Iterator[tuple[int, str]]:
        """Lines that are not blank, stripped, with their numbers from 1.  Made one by one: a file may have millions."""
        number, start, text = 0, 0, self.text
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            number += 1
            if line := text[start:end].strip():
                yield number, line
            start = end + 1

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
        """What the file holds (see Trace).  Raises BadFile, also for more than PIECES rates."""
        if len(rates) > PIECES:
            raise self.bad(None, f"has {len(rates)} different moments; at most {PIECES} are replayed: cut it in parts")
        try:
            return Trace(edges, rates, direction, kind, self.name, latency, loss, remark=remark)
        except ValueError as error:
            raise self.bad(None, str(error).removeprefix(f"{self.name} ")) from None

    def number(self, line: int, cell: str, what: str, largest: float = math.inf) -> float:
        """A cell as a finite number that is at least 0 and at most `largest`.  Raises BadFile."""
        try:
            value = float(cell) if "_" not in cell else math.nan  # Python reads 1_0 as 10; no file means that
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be a finite number and at least 0")
        if value > largest:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be {largest:g} at most")
        return value
