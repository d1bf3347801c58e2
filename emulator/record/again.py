"""A record that is played again: the lines that its files hold must come again, and only behind them the files grow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

EVENTS, ROUNDS = "events.jsonl", "rounds.jsonl"
BUFFER = 2**17  # bytes: a round of a hundred devices, which is written at its end in any case


class Otherwise(Exception):  # noqa: N818  what happened, not what went wrong
    """A run that is played again differs from its record, at this line of this file."""

    def __init__(self, file: Path, line: int = 0, about: str = "") -> None:
        super().__init__(file, line, about)
        self.file, self.line, self.about = file, line, about

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        about = f" ({self.about})" if self.about else ""
        return f"{self.file}{line}{about} comes out otherwise now"


class Again:
    """A file whose first `known` bytes are lines that must come again; what is behind them goes when others come.

    As a file it has write, flush, fileno, name and closed.  `write` raises Otherwise.
    """

    def __init__(self, path: Path, known: int) -> None:
        self.path, self.known, self.name = path, known, str(path)
        self.at = self.number = 0  # bytes and lines that have come again
        self.old, self.new = path.open("rb"), None

    old: BinaryIO
    new: BinaryIO | None

    @property
    def behind(self) -> bool:
        """Whether lines that it holds have yet to come again."""
        return self.at < self.known

    def write(self, line: bytes) -> None:
        if self.behind:
            self._compare(line)
        else:
            self._grown().write(line)

    def _compare(self, line: bytes) -> None:
        here = self.old.readline()
        if here != line:
            self.old.seek(self.at)
            raise Otherwise(self.path, self.number + 1, _about(here))
        self.at += len(line)
        self.number += 1

    def end(self) -> None:
        """No more lines come.  Raises Otherwise if it holds more."""
        if self.behind:
            raise Otherwise(self.path, self.number + 1, _about(self.old.readline()))
        self._grown()

    def cut(self) -> None:
        """Takes away what has not come again."""
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
        """Closes it."""
        self.old.close()
        if self.new:
            self.new.close()


def known(folder: Path, names: tuple[str, ...]) -> dict[str, int]:
    """How many bytes of each of a run's files that are there must come again: its whole lines.

    A run that was told to end its round has also cut what its stragglers did.  These last lines, and the rows that tell
    of them, come otherwise when it goes on.
    """
    found = {name: _whole(folder / name) for name in names if (folder / name).is_file()}
    stopped = set[int]()
    for start, line in _back(folder / EVENTS, found.get(EVENTS, 0)):
        if not (str(line.get("event")).endswith(".cut") and line.get("why") == "closed"):
            break
        found[EVENTS] = start
        stopped.add(line["round"])
    for start, line in _back(folder / ROUNDS, found.get(ROUNDS, 0)) if stopped else ():
        if line["round"] < min(stopped):
            break
        found[ROUNDS] = start
    return found


def _whole(path: Path) -> int:
    """Bytes up to the last newline."""
    return next((end for _, end in _spans(path, path.stat().st_size)), 0)


def _back(path: Path, end: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines before `end`, from the last to the first, each with where it starts; until one is damaged."""
    for start, stop in _spans(path, end):
        with path.open("rb") as file:
            file.seek(start)
            text = file.read(stop - start)
        try:
            yield start, dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return


def _spans(path: Path, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the whole lines before `end`, from the last to the first."""
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
    """The event, device and round of a line."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    words = [str(said[key]) for key in ("event", "device") if key in said]
    return " ".join([*words, f"round {said['round']}"]) if "round" in said else " ".join(words)
