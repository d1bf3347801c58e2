"""Shows progress on stderr while a large file in a foreign format is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from network.foreign_files import watched

PATIENCE = 1.0  # s before a file's progress is shown


@contextmanager
def told_while_read(console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Shows `reading lte.csv, 40%` on stderr once a file takes more than a second to read.  Shows nothing if stderr is
    not a terminal.

    Also works as a decorator.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    reading = Reading(console, clock)
    with watched(reading.hear):
        try:
            yield
        finally:
            reading.end()


@dataclass
class Reading:
    """The progress line for the file that is being read, if any.  `began`: s on the clock, when its reading began."""

    console: Console
    clock: Callable[[], float]
    name: str = ""
    began: float = 0.0
    status: Status | None = None

    def hear(self, name: str, share: float) -> None:
        """Takes the share of a file that has been read so far; 1 means that the file is at its end."""
        if share >= 1:
            self.end()
            return
        if name != self.name:
            self.end()
            self.name, self.began = name, self.clock()
        if self.clock() - self.began < PATIENCE:
            return
        text = f"reading {escape(Path(name).name)}, {share:.0%}"
        if self.status is None:
            self.status = Status(text, console=self.console)
            self.status.start()
        elif text != self.status.status:
            self.status.update(text)

    def end(self) -> None:
        """Removes the progress line."""
        self.name = ""
        if self.status is not None:
            self.status.stop()
            self.status = None
