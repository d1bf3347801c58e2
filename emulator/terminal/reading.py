"""How much of a large file of others was read, on stderr, while it is."""

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

PATIENCE = 1.0  # s that a file may take unnoticed


@contextmanager
def told_while_read(console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """`reading lte.csv, 40%` on a terminal's stderr from a file's second second on, gone at its end; nothing elsewhere.

    It also decorates a function.
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
    """The file that is being read, if any, and since when, s."""

    console: Console
    clock: Callable[[], float]
    name: str = ""
    began: float = 0.0
    status: Status | None = None

    def hear(self, name: str, share: float) -> None:
        """So much of the file was read; 1 is its end."""
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
        """Nothing is being read."""
        self.name = ""
        if self.status is not None:
            self.status.stop()
            self.status = None
