"""One job for several who want its result, or each a part of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

from emulator.worlds.athand import AtHand

CANCELLED: Future[Any] = Future()
CANCELLED.cancel()
LOCK = Lock()  # for the moment in which a waiter ends: results arrive in a thread of the pool


@dataclass
class Shared:
    """A job that is under way, for all who want its result."""

    done: Future[Any]
    wanted: int = 0


class Waiter(Future[Any]):
    """The result of a shared job, or a `part` of it, for one who wants it.  The job is cancelled when nobody wants it
    any more.  A Future of its own kind: one of Python's takes as long as a step of the clock."""

    def __init__(self, shared: Shared, part: Callable[[Any], Any] = lambda result: result) -> None:
        self.part = part
        self.end: Future[Any] | None = None  # as which it has ended
        self.told: list[Callable[[Future[Any]], object]] = []  # are called then
        self.shared: Shared | None = shared  # None: it has ended
        shared.wanted += 1
        shared.done.add_done_callback(self._arrived)

    def _arrived(self, done: Future[Any]) -> None:
        if self.end:
            return
        if done.cancelled():
            self._end(CANCELLED)
        elif error := done.exception():
            self._end(AtHand(None, error))
        else:
            self._end(AtHand(self.part(done.result())))

    def _end(self, end: Future[Any]) -> bool:
        """Whether it ends with this."""
        with LOCK:
            if self.end:
                return False
            self.end, self.shared = end, None  # a cycle would keep the messages
            told, self.told = self.told, []
        for each in told:
            each(self)
        return True

    def cancel(self) -> bool:
        shared = self.shared
        if self._end(CANCELLED) and shared:
            shared.wanted -= 1
            if not shared.wanted:
                shared.done.cancel()
        return self.cancelled()

    def cancelled(self) -> bool:
        return self.end is CANCELLED

    def running(self) -> bool:
        return False

    def done(self) -> bool:
        return self.end is not None

    def result(self, timeout: float | None = None) -> Any:
        return self._ended(timeout).result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._ended(timeout).exception()

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        with LOCK:
            if not self.end:
                self.told.append(fn)
                return
        fn(self)

    def _ended(self, timeout: float | None) -> Future[Any]:
        if not self.end:
            event = Event()
            self.add_done_callback(lambda _: event.set())
            if not event.wait(timeout):
                raise TimeoutError
        assert self.end
        return self.end

    def __repr__(self) -> str:
        return f"Waiter({self.end!r})"


def pass_on(future: Future[Any], done: Future[Any]) -> None:
    """Gives `future` what came of `done`."""
    if future.cancelled() or (done.cancelled() and future.cancel()):
        return
    try:
        if error := CancelledError() if done.cancelled() else done.exception():
            future.set_exception(error)
        else:
            future.set_result(done.result())
    except InvalidStateError:  # it was cancelled in this very moment
        pass
