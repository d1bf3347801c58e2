"""Python's futures of a result that is known, and of one job that several want."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from functools import partial
from typing import Any
from weakref import ReferenceType, WeakSet, ref


def ended(result: Any = None, error: BaseException | None = None) -> Future[Any]:
    """A future that is done, with this result, or with this error."""
    future: Future[Any] = Future()
    if error:
        future.set_exception(error)
    else:
        future.set_result(result)
    return future


class SharedJob:
    """A job whose result several want, or each a part of it.  It is cancelled when none of them wants it any more."""

    def __init__(self, job: Future[Any]) -> None:
        self.job, self.wanting = job, WeakSet[Future[Any]]()

    def result(self, part: Callable[[Any], Any] | None = None) -> Future[Any]:
        """A future of the job's result, or of what `part` returns for it, for one who wants it."""
        own: Future[Any] = Future()
        self.wanting.add(own)
        self.job.add_done_callback(partial(pass_on, own, part=part))
        # A future keeps its callbacks when it is done: a circle of two would keep the messages of the result.
        own.add_done_callback(partial(_drop, ref(self.job), self.wanting))
        return own


def _drop(shared: ReferenceType[Future[Any]], wanting: WeakSet[Future[Any]], own: Future[Any]) -> None:
    """Cancels the job if `own` was cancelled, and was the last one that somebody waited for."""
    wanting.discard(own)
    job = shared()
    if job and own.cancelled() and not wanting:
        job.cancel()


def pass_on(future: Future[Any], done: Future[Any], part: Callable[[Any], Any] | None = None) -> None:
    """Gives `future` the error of `done`, or its result, or what `part` returns or raises for that."""
    if future.cancelled() or (done.cancelled() and future.cancel()):
        return
    error = CancelledError() if done.cancelled() else done.exception()
    try:
        result = None if error else part(done.result()) if part else done.result()
    except Exception as failed:
        error = failed
    try:
        if error:
            future.set_exception(error)
        else:
            future.set_result(result)
    except InvalidStateError:  # it was cancelled in this very moment
        pass
