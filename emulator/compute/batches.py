"""Groups jobs into batches, which are sent to workers.

A job is a function call that a worker computes.  Sending one takes 0.4 ms of the main process, so short jobs are sent
together.  A batch is sent as long as fewer than AHEAD batches for each worker are unfinished, so jobs wait only while
all workers are busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from threading import RLock
from typing import Any, Protocol

from emulator.messages.store import Ref
from scenarios.builders import reads
from scenarios.builders.reads import Read

Job = Callable[..., Any]
Orders = Sequence[tuple[Job, Sequence[Any]]]  # jobs with their arguments

AHEAD = 2  # batches per worker that are sent and not finished
LONGEST = 0.01  # s of a batch, if jobs take as long as the last ones of their kind


@dataclass(frozen=True)
class Done:
    """The results of a batch's jobs, up to the first job that failed, without it.  If the first job of a batch fails,
    there is no Done: its error is the error of the batch."""

    results: Sequence[tuple[Any, Sequence[Any]]]  # each with the messages that the store must take over
    seconds: float
    read: Sequence[Read] = ()  # files and variables that a user's code has read in that worker since its last batch


class Taking(Protocol):
    """A store that can take over a message which a job has put in a worker."""

    def take(self, draft: Any) -> Ref:
        """Takes over a message that a job has put in a worker, and returns its Ref.  Raises OSError if it cannot be
        stored."""


@dataclass
class AwaitedJob:
    """A job in the queue, with the future of its result."""

    job: Job
    args: Sequence[Any]
    future: Future[Any] = field(default_factory=Future)

    def starts(self) -> bool:
        """Marks the job as running, so that it can no longer be cancelled.  Returns false if it was cancelled
        before."""
        return self.future.running() or self.future.set_running_or_notify_cancel()


class Batches:
    """The queue of jobs for one pool of workers.

    `send` passes a batch to a worker and returns the future of its results; `store` takes over the messages of the
    jobs; a batch should take at most `longest` seconds.
    """

    def __init__(
        self, send: Callable[[Orders], Future[Done]], workers: int, store: Taking, longest: float = LONGEST
    ) -> None:
        self.send, self.workers, self.store, self.longest = send, workers, store, longest
        self.waiting: deque[AwaitedJob] = deque()
        self.sent = 0  # batches
        self.seconds: dict[Job, float] = {}  # seconds of the last job of each kind
        self.lock = RLock()  # results arrive in a thread of the pool

    def submit(self, job: Job, args: Sequence[Any]) -> Future[Any]:
        order = AwaitedJob(job, args)
        with self.lock:
            self.waiting.append(order)
            self._send()
        return order.future

    def cancel(self) -> None:
        """Cancels all jobs in the queue, which were not sent yet."""
        with self.lock:
            while self.waiting:
                self.waiting.popleft().future.cancel()

    def _send(self) -> None:
        while self.waiting and self.sent < AHEAD * self.workers:
            if batch := self._next():
                try:
                    done = self.send([(order.job, order.args) for order in batch])
                except RuntimeError as error:  # a worker was killed, or the pool is closed
                    self._end(batch, error)
                    continue
                self.sent += 1
                done.add_done_callback(partial(self._arrived, batch))

    def _next(self) -> list[AwaitedJob]:
        """Removes the next batch from the queue and returns it; it is empty if its jobs were cancelled.

        The jobs are of one kind, and at most one worker's share of the queue.  The batch should take no longer than
        `longest`, judged by the last job of this kind.  A batch longer than LONGEST takes at most half of a worker's
        share, so that batches get shorter towards the end and no worker is idle while another finishes.
        """
        job, batch = self.waiting[0].job, list[AwaitedJob]()
        seconds, share = self.seconds.get(job, inf), ceil(len(self.waiting) / self.workers)
        most = min(self.longest, max(LONGEST, len(self.waiting) * seconds / self.workers / 2))
        while self.waiting and self.waiting[0].job is job:
            if batch and (len(batch) >= share or (len(batch) + 1) * seconds > most):
                break
            order = self.waiting.popleft()
            if order.starts():
                batch.append(order)
        return batch

    def _arrived(self, batch: Sequence[AwaitedJob], done: Future[Done]) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if isinstance(error, (BrokenExecutor, CancelledError)):
            self._end(batch, error)
            return
        results = [] if error else done.result().results
        reads.add([] if error else done.result().read)
        with self.lock:
            self.sent -= 1
            if results:
                self.seconds[batch[0].job] = done.result().seconds / len(results)
            self.waiting.extendleft(reversed(batch[max(1, len(results)) :]))
            self._send()
        if error:
            batch[0].future.set_exception(error)
        for order, (result, drafts) in zip(batch, results, strict=False):
            self._take(order, result, drafts)

    def _end(self, batch: Sequence[AwaitedJob], error: BaseException) -> None:
        """Ends the jobs of this batch, and all jobs in the queue, with this error, because there are no workers any
        more."""
        with self.lock:
            ended = [*batch, *self.waiting]
            self.waiting.clear()
        for order in ended:
            if order.starts():
                order.future.set_exception(error)

    def _take(self, order: AwaitedJob, result: Any, drafts: Sequence[Any]) -> None:
        """Lets the store take over the messages that a job has put, and then sets the job's result.  If a message
        cannot be stored, the job fails with that error."""
        try:
            for draft in drafts:
                self.store.take(draft)
        except OSError as error:
            order.future.set_exception(error)
        else:
            order.future.set_result(result)
