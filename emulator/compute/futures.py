"""Makes futures of results that are known already, and of one job for several callers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from functools import partial
from typing import Any
from weakref import ReferenceType, WeakSet, ref


def ended(result: Any = None, error: BaseException | None = None) -> Future[Any]:
    """Returns a completed future with this result or error."""
    future: Future[Any] = Future()
    if error:
        future.set_exception(error)
    else:
        future.set_result(result)
    return future


class SharedJob:
    """A job whose result several callers share.  It is cancelled once all of them have cancelled."""

    def __init__(self, job: Future[Any]) -> None:
        self.job, self.wanting = job, WeakSet[Future[Any]]()

    def result(self, part: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Returns a future for one caller: of the job's result, or of what `part` returns for that result."""
        own: Future[Any] = Future()
        self.wanting.add(own)
        self.job.add_done_callback(partial(pass_on, own, part=part))
        # A future keeps its callbacks when it is done; a reference cycle would keep the result's messages alive.
        own.add_done_callback(partial(_drop, ref(self.job), self.wanting))
        return own


def _drop(shared: ReferenceType[Future[Any]], wanting: WeakSet[Future[Any]], own: Future[Any]) -> None:
    """Cancels the job `shared` if the caller's future `own` was cancelled and no other caller waits for the job;
    `wanting` holds the futures of the callers that still wait."""
    wanting.discard(own)
    job = shared()
    if job and own.cancelled() and not wanting:
        job.cancel()


def pass_on(future: Future[Any], done: Future[Any], part: Callable[[Any], Any] | None = None) -> None:
    """Sets `future` to the outcome of `done`: its error or its result, or what `part`, if given, returns or raises for
    the result.  Does nothing if `future` was cancelled."""
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
    except InvalidStateError:  # the future was cancelled in this moment
        pass
