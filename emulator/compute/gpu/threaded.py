"""The executor of a process that trains on one GPU itself, without worker processes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from algorithms.training.torch_lock import HANDED_OVER, TURN
from emulator.compute.batches import Job
from emulator.compute.executor import Executor
from emulator.compute.executors import entered, paths, quiet_torch
from emulator.compute.gpu import gpus
from emulator.compute.gpu.residents import Residents
from emulator.lab.gpu import full, make_room
from emulator.lab.lab import Lab

PATIENCE = 0.02  # s for a job's Python code, which takes 1 to 10 ms


class Threaded(Executor):
    """An executor that runs jobs one after another on a GPU, in a thread of this process, so that the main thread can
    advance the virtual clock while the GPU works.

    Uploads, the devices' replies, stay in the GPU's memory.
    """

    def __init__(self, lab: Lab, folder: Path | None = None) -> None:
        """Stores messages that do not stay on the GPU in `folder` if it is given and has room, otherwise in scratch
        folders."""
        self.lab = lab
        with ExitStack() as unless_made:
            self.scratch = entered(unless_made)
            self.store = Residents([*([folder] if folder else []), *paths(self.scratch)])
            self.thread = ThreadPoolExecutor(1)
            unless_made.callback(self.thread.shutdown, wait=True, cancel_futures=True)
            self.thread.submit(_alone_on, lab.on).result()
            self.leave = unless_made.pop_all()
        self.last: Callable[[], Future[Any] | None] = lambda: None  # a weak reference: it holds what its job has made

    def __exit__(self, *_: object) -> None:
        self.leave.close()

    def stop(self) -> None:
        """Cancels all waiting jobs and returns at once.  The running job, at most the training of one round, is
        finished, because a thread cannot be killed."""
        self.thread.shutdown(wait=False, cancel_futures=True)

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Submits a job and returns the future of its result.  If no job was running, waits up to PATIENCE seconds
        until the GPU has the work or the job is done: otherwise this thread and the job's thread compete for Python's
        interpreter lock, and the GPU waits for both."""
        last = self.last()
        if idle := last is None or last.done():
            HANDED_OVER.clear()
        future = self.thread.submit(self._done, job, args)
        self.last = weakref.ref(future)
        if idle:
            HANDED_OVER.wait(PATIENCE)
        return future

    def _done(self, job: Job, args: Sequence[Any]) -> Any:
        try:
            with TURN:
                try:
                    return job(self.lab, self.store, *args)
                except Exception as error:
                    if not full(error):
                        raise
                make_room(self.store)  # by moving kept uploads and dropping graphs
                return job(self.lab, self.store, *args)
        finally:
            HANDED_OVER.set()


def _alone_on(place: str) -> None:
    quiet_torch()
    gpus.use(place)
