"""One job for several who want its result, or each a part of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any


@dataclass
class Shared:
    """A job that is under way, for all who want its result."""

    done: Future[Any]
    wanted: int = 0


class Waiter(Future[Any]):
    """The result of a shared job, or a `part` of it, for one who wants it.  The job is cancelled when nobody wants it
    any more."""

    def __init__(self, shared: Shared, part: Callable[[Any], Any] = lambda result: result) -> None:
        super().__init__()
        self.part = part
        self.shared: Shared | None = shared  # None: it has ended, or this one does not want it any more
        shared.wanted += 1
        shared.done.add_done_callback(self._arrived)

    def cancel(self) -> bool:
        cancelled = super().cancel()
        shared, self.shared = self.shared, None
        if cancelled and shared:
            shared.wanted -= 1
            if not shared.wanted:
                shared.done.cancel()
        return cancelled

    def _arrived(self, done: Future[Any]) -> None:
        self.shared = None  # a cycle would keep the messages
        pass_on(self, done, self.part)


def withdrawn(future: Future[Any]) -> bool:
    """Cancels a job unless somebody works on it, or it has ended; whether it is cancelled."""
    job = future.shared if isinstance(future, Waiter) else None
    if job and job.wanted == 1 and not job.done.cancel():
        return False
    return future.cancel()


def pass_on(future: Future[Any], done: Future[Any], part: Callable[[Any], Any] = lambda result: result) -> None:
    """Gives `future` what came of `done`."""
    if future.cancelled() or done.cancelled():
        future.cancel()
        return
    try:
        if error := done.exception():
            future.set_exception(error)
        else:
            future.set_result(part(done.result()))
    except InvalidStateError:  # it was cancelled in this very moment
        pass
