"""Where real computation runs: here, or in worker processes.

A job is a pure function `job(study, store, *args)`: same arguments, same result, on any worker, in any order.
The study (data, shards, algorithms) is handed to each worker once; a job's arguments are names, numbers and Refs to
what lies in the store, so that no message crosses a pipe.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from devices.data.dataset import Dataset
from emulator.ledger.scratch import Scratch, in_memory
from emulator.ledger.stores import Draft, Drafts, Files, Memory
from emulator.study.store import Store
from emulator.study.study import Study
from emulator.worlds import workers

Job = Callable[..., Any]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


class Executor(Protocol):
    @property
    def store(self) -> Store:
        """Where the messages of its jobs lie."""

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Starts `job(study, store, *args)`."""


def quiet_torch() -> None:
    """One thread and deterministic algorithms: the same bits whatever the number of workers."""
    import torch

    torch.set_num_threads(1)
    # As use_deterministic_algorithms(True), which loads a compiler that we do not use, for a second and more.
    torch.set_deterministic_debug_mode("error")
    keep_memory()


def keep_memory() -> None:
    """Tells glibc, where there is one, to keep what is freed: else each training step gives its tensors' pages back
    and fetches them anew, 42 ms instead of 31 a step of the MNIST CNN."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, 1 << 30)


class Inline:
    """Runs each job at once, in this process."""

    def __init__(self, study: Study, folder: Path | None = None) -> None:
        """Messages lie in `folder`, as those of Processes do; without it in this process's memory."""
        quiet_torch()
        self.study = study
        self.scratch = _scratch() if folder else []
        self.store = Files([folder, *_paths(self.scratch)]) if folder else Memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for scratch in self.scratch:
            scratch.close()

    def stop(self) -> None:
        """There is nothing to stop: a job is done when `submit` returns."""

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(job(self.study, self.store, *args))
        except Exception as error:  # belongs to whoever collects the result
            future.set_exception(error)
        return future


class Processes:
    """A pool of worker processes.  They and this one map the data set's files, so there is one copy in memory."""

    def __init__(self, study: Study, count: int, folder: Path | None = None) -> None:
        """Messages lie in `folder` if it has room, else in memory, else in the temporary folder."""
        keep_memory()
        self.scratch = _scratch()
        folders = _paths(self.scratch)
        shelf = study.data.put_away(folders[-1])
        folders = [folder, *folders] if folder else folders
        self.store = Files(folders)
        self.pool = workers.pool(count, _arrive, replace(study, dataset=None), shelf, folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        for scratch in self.scratch:
            scratch.close()

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        workers.stop(self.pool)

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return Arriving(self.pool.submit(_do, job, *args), self.store)


class Arriving(Future[Any]):
    """A worker's result, once the store has taken over what the job has put into it."""

    def __init__(self, done: Future[tuple[Any, list[Draft]]], store: Files) -> None:
        super().__init__()
        self.there: Future[Any] | None = done  # gone once it is here: a cycle would keep the messages
        self.store = store
        done.add_done_callback(self._arrived)

    def cancel(self) -> bool:
        there = self.there
        return there is not None and there.cancel()

    def _arrived(self, done: Future[tuple[Any, list[Draft]]]) -> None:
        self.there = None
        if done.cancelled():
            super().cancel()
        elif error := done.exception():
            self.set_exception(error)
        else:
            self._take(*done.result())

    def _take(self, result: Any, drafts: list[Draft]) -> None:
        try:
            for draft in drafts:
                self.store.take(draft)
        except OSError as error:
            self.set_exception(error)
        else:
            self.set_result(result)


def executor(study: Study, count: int) -> Inline | Processes:
    """That many worker processes, or with 0 this process."""
    return Processes(study, count) if count else Inline(study)


def _scratch() -> list[Scratch]:
    """In memory, if there is a place for it, and on disk."""
    return [scratch for scratch in (in_memory(), Scratch()) if scratch]


def _paths(scratch: Sequence[Scratch]) -> list[Path]:
    return [each.path for each in scratch]


_study: Study | None = None  # in a worker: what it was handed when it came
_folders: Sequence[Path] = ()


def _arrive(study: Study, shelf: Mapping[str, Any], folders: Sequence[Path]) -> None:
    global _study, _folders
    quiet_torch()
    _study, _folders = replace(study, dataset=Dataset.taken_down(shelf)), folders


def _do(job: Job, *args: Any) -> tuple[Any, list[Draft]]:
    """The job's result, and what it has put into the store: the same Refs, as both travel together."""
    drafts = Drafts(_folders)
    return job(_study, drafts, *args), drafts.made
