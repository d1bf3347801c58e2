"""A file as text with numbered lines, and the one kind of error that a bad one raises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from network.links.trace import Direction, Floats, Kind, Trace

LARGEST = 256_000_000  # bytes of a file
PIECES = 5_000_000  # of a trace: a second of computing and half a GB each million, roughly
LONGEST = 1e10  # s, three centuries
FASTEST = 1e9 * 1e6 / 8  # bytes/s: 1e9 Mbit/s
FOREIGN = {  # first bytes: what they tell, and what to do
    b"\x1f\x8b": "is packed by gzip; unpack it first",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}
PACKET = 1500  # bytes of one of Mahimahi's opportunities


Lack = Literal["format", "direction", "trace"]


class BadTrace(ValueError):  # noqa: N818 - said to a user
    """A file that cannot be read as a trace; the message is one line with the file, its line and the reason.

    `reason`: the same without the file's name.  `lacks`: of a file that is not damaged, what reading it takes: that its
    format or direction is named; or that it were a trace at all.
    """

    reason = ""
    lacks: Lack | None = None


def bad(name: str, line: int | None, reason: str, lacks: Lack | None = None) -> BadTrace:
    """The error, in one line whatever the file's name and content."""
    why = _printable(f"line {line}: {reason}" if line is not None else reason)
    error = BadTrace(f"{_printable(name)}: {why}")
    error.reason, error.lacks = why, lacks
    return error


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(cell: object) -> str:
    """A value for an error, cut when long; a container is named by its type, for it may be of any size."""
    if isinstance(cell, str):
        return repr(cell if len(cell) <= 40 else cell[:37] + "...")
    return repr(cell) if isinstance(cell, float | bool | None) else f"a {type(cell).__name__}"


def content(path: Path) -> bytes:
    """All bytes of a file.  Raises BadTrace if it cannot be read, is empty or is larger than LARGEST."""
    try:
        if not path.is_file():  # a pipe or a device could keep us waiting
            raise bad(str(path), None, "is not a file" if path.exists() else "there is no such file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise bad(str(path), None, f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise bad(str(path), None, f"is larger than {LARGEST // 1_000_000} MB, the most that is read")
    if not data.strip():
        raise bad(str(path), None, "is empty")
    return data


@dataclass(frozen=True)
class Source:
    """A text, and its name in errors."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Source:
        """Raises BadTrace if the bytes are not text."""
        for start, reason in FOREIGN.items():
            if data.startswith(start):
                raise bad(name, None, reason)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise bad(name, line, "holds bytes that are not UTF-8; the file is binary or damaged") from None
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise bad(name, line, "holds a NUL character; the file is binary or damaged")
        return cls(name, text)

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

    def bad(self, line: int | None, reason: str, lacks: Lack | None = None) -> BadTrace:
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
        """What the file holds (see Trace).  Raises BadTrace, also for more than PIECES rates."""
        if len(rates) > PIECES:
            raise self.bad(None, f"has {len(rates)} different moments; at most {PIECES} are replayed: cut it in parts")
        try:
            return Trace(edges, rates, direction, kind, self.name, latency, loss, remark=remark)
        except ValueError as error:
            raise self.bad(None, str(error).removeprefix(f"{self.name} ")) from None

    def number(self, line: int, cell: str, what: str, largest: float = math.inf) -> float:
        """A cell as a finite number that is at least 0 and at most `largest`.  Raises BadTrace."""
        try:
            value = float(cell) if "_" not in cell else math.nan  # Python reads 1_0 as 10; no file means that
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be a finite number and at least 0")
        if value > largest:
            raise self.bad(line, f"the {what} is {shown(cell)}; it must be {largest:g} at most")
        return value


def figure(name: str, value: object, what: str, largest: float = math.inf) -> float:
    """A value of a table as a finite number that is at least 0 and at most `largest`.  Raises BadTrace."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not 0 <= number <= largest or number == math.inf:
        raise bad(name, None, f"the {what} is {shown(value)}; it must be a finite number, 0 or more, up to {largest:g}")
    return number
