"""The interface of observers of running runs: trackers, the progress line, the live page."""

from __future__ import annotations

from typing import Literal, Protocol

from emulator.play.stage import Outcome, Row
from emulator.record.run import Run

Status = Literal["finished", "interrupted", "failed"]


class Watcher(Protocol):
    """Follows all runs of a command.  It runs in the thread that plays them, so it must be quick and change nothing."""

    def begin(self, run: Run) -> None:
        """Called as a run begins."""

    def tell(self, run: Run, row: Row) -> None:
        """Called when a round has ended and its row is written."""

    def end(self, run: Run, status: Status) -> None:
        """Called when a run has ended, but not if all are stopped at once."""


def status_of(outcome: Outcome) -> Status:
    if outcome.failure or outcome.unwritten:
        return "failed"
    return "interrupted" if outcome.interrupted else "finished"
