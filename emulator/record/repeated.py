"""Compares a repeated run with its earlier record: it must write the same lines again, and new lines are appended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

EVENTS, ROUNDS = "events.jsonl", "rounds.jsonl"
SUBJECT = ("event", "device", "round")  # the keys that identify a line
BUFFER = 2**17  # bytes: a round of a hundred devices, which is written at its end in any case


class Otherwise(Exception):  # noqa: N818  it names an outcome of a run, and not an error
    """The error that a repeated run wrote another line than its earlier record has, with the file and the line."""

    def __init__(self, file: Path, line: int = 0, about: str = "") -> None:
        super().__init__(file, line, about)
        self.file, self.line, self.about = file, line, about

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        about = f" ({self.about})" if self.about else ""
        return f"{self.file}{line}{about} is different now"


class RepeatedFile:
    """A file of an earlier record, whose first `known` bytes a repeated run must write again line by line.  The lines
    that it writes after them replace the rest of the file.

    It offers the write, flush, fileno, name and closed of a file.  `write` raises Otherwise for a line that differs.
    """

    def __init__(self, path: Path, known: int) -> None:
        self.path, self.known, self.name = path, known, str(path)
        self.at = self.number = 0  # bytes and lines that have been written again
        self.old, self.new = path.open("rb"), None

    old: BinaryIO
    new: BinaryIO | None

    @property
    def behind(self) -> bool:
        """True if the run has not yet written all known lines again."""
        return self.at < self.known

    def write(self, line: bytes) -> None:
        if not self.behind:
            self._grown().write(line)
            return
        here = self.old.readline()
        if here != line:
            self.old.seek(self.at)
            raise Otherwise(self.path, self.number + 1, _about(here))
        self.at += len(line)
        self.number += 1

    def end(self) -> None:
        """Ends the comparison.  Raises Otherwise if the run has not written all known lines again."""
        if self.behind:
            raise Otherwise(self.path, self.number + 1, _about(self.old.readline()))
        self._grown()

    def cut(self) -> None:
        """Removes the known lines that the run has not written again, so that it continues after the others."""
        self.known = self.at
        self._grown()

    def _grown(self) -> BinaryIO:
        if self.new is None:
            os.truncate(self.path, self.known)
            self.new = self.path.open("ab", buffering=BUFFER)
        return self.new

    def flush(self) -> None:
        if self.new:
            self.new.flush()

    def fileno(self) -> int:
        return (self.new or self.old).fileno()

    @property
    def closed(self) -> bool:
        return self.old.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.old.close()
        if self.new:
            self.new.close()


def known(folder: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Returns, by file, the number of bytes that a repeated run must write again: all whole lines.  Missing files are
    left out.

    A run that was told to stop after the current round has cut the work of its stragglers.  A resumed run lets them
    finish, so the last lines with such cuts, and the rows of their rounds, do not count as known.
    """
    paths = {name: folder / name for name in names if (folder / name).is_file()}
    lengths = {name: next((end for _, end in _spans(path, path.stat().st_size)), 0) for name, path in paths.items()}
    stopped = set[int]()
    for start, line in _back(folder / EVENTS, lengths.get(EVENTS, 0)):
        if not (str(line.get("event")).endswith(".cut") and line.get("why") == "closed"):
            break
        lengths[EVENTS] = start
        stopped.add(line["round"])
    for start, line in _back(folder / ROUNDS, lengths.get(ROUNDS, 0)) if stopped else ():
        if line["round"] < min(stopped):
            break
        lengths[ROUNDS] = start
    return lengths


def _back(path: Path, end: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (offset in bytes, object) of the lines before the offset `end`, from the last to the first; stops at a
    damaged one."""
    for start, stop in _spans(path, end):
        with path.open("rb") as file:
            file.seek(start)
            text = file.read(stop - start)
        try:
            yield start, dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return


def _spans(path: Path, end: int) -> Iterator[tuple[int, int]]:
    """Yields the offsets in bytes (start, end) of the whole lines before the offset `end`, from the last to the
    first."""
    if not end:
        return
    with path.open("rb") as file:
        stop, at = None, end
        while at:
            step = min(at, BUFFER)
            at -= step
            file.seek(at)
            block = file.read(step)
            place = block.rfind(b"\n")
            while place >= 0:
                if stop is not None:
                    yield at + place + 1, stop
                stop = at + place + 1
                place = block.rfind(b"\n", 0, place)
        if stop is not None:
            yield 0, stop


def _about(line: bytes) -> str:
    """Returns the subject of a line of a record (see `subject`); "" for a damaged line."""
    try:
        return subject(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return ""


def subject(line: Mapping[str, Any]) -> str:
    """Returns the event, the device and the round of a line in words, such as `down.start pi-4-0 round 3`."""
    there = [key for key in SUBJECT if key in line]
    return " ".join(f"round {line[key]}" if key == "round" else str(line[key]) for key in there)
