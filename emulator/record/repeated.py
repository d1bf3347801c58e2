"""Compares a repeated run with its record: known lines must be written again, and new ones are appended."""

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
    """A repeated run differs from its record, at this line of this file."""

    def __init__(self, file: Path, line: int = 0, about: str = "") -> None:
        super().__init__(file, line, about)
        self.file, self.line, self.about = file, line, about

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        about = f" ({self.about})" if self.about else ""
        return f"{self.file}{line}{about} comes out otherwise now"


class RepeatedFile:
    """A file whose first `known` bytes must be written again line by line; new lines replace the bytes after them.

    It offers the write, flush, fileno, name and closed of a file.  `write` raises Otherwise for another line.
    """

    def __init__(self, path: Path, known: int) -> None:
        self.path, self.known, self.name = path, known, str(path)
        self.at = self.number = 0  # bytes and lines that have been written again
        self.old, self.new = path.open("rb"), None

    old: BinaryIO
    new: BinaryIO | None

    @property
    def behind(self) -> bool:
        """True if the file holds known lines that were not written again yet."""
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
        """Ends the comparison.  Raises Otherwise if known lines were not written again."""
        if self.behind:
            raise Otherwise(self.path, self.number + 1, _about(self.old.readline()))
        self._grown()

    def cut(self) -> None:
        """Removes the known lines that were not written again."""
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
    """The number of bytes that must be written again, by file: its whole lines.  Missing files are left out.

    A run that was told to stop after its round has cut its stragglers' work.  A resumed run lets them finish, so the
    last lines with such cuts, and the rows of their rounds, do not count as known.
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
    """Yields (offset, object) of the lines before `end`, from the last to the first; stops at a damaged one."""
    for start, stop in _spans(path, end):
        with path.open("rb") as file:
            file.seek(start)
            text = file.read(stop - start)
        try:
            yield start, dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return


def _spans(path: Path, end: int) -> Iterator[tuple[int, int]]:
    """Yields the offsets (start, end) of the whole lines before `end`, from the last to the first."""
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
    """The subject of a line, as `subject` words it; "" for a damaged line."""
    try:
        return subject(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return ""


def subject(line: Mapping[str, Any]) -> str:
    """Names the event, the device and the round of a line: `down.start pi-4-0 round 3`."""
    there = [key for key in SUBJECT if key in line]
    return " ".join(f"round {line[key]}" if key == "round" else str(line[key]) for key in there)
