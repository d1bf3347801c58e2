"""The interface of objects that watch runs while they are played: trackers, the progress line and the live page."""

from __future__ import annotations

from typing import Literal, Protocol

from emulator.play.stage import Outcome, Row
from emulator.record.run import Run

Status = Literal["finished", "interrupted", "failed"]


class Watcher(Protocol):
    """An observer of all runs of a command.  It is called in the thread that plays them, so it must be quick and
    change nothing."""

    def begin(self, run: Run) -> None:
        """Called when a run begins."""

    def tell(self, run: Run, row: Row) -> None:
        """Called when a round has ended and its row is written."""

    def end(self, run: Run, status: Status) -> None:
        """Called when a run has ended; not called if the command stops all runs at once."""


def status_of(outcome: Outcome) -> Status:
    if outcome.failure or outcome.unwritten:
        return "failed"
    return "interrupted" if outcome.interrupted else "finished"
