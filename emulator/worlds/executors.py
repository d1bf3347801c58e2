"""Where real computation runs: here, or in worker processes.

A job is a pure function `job(study, *args)`: same arguments, same result, on any worker, in any order.
The study (data, shards, algorithms) is handed to each worker once; a job's arguments are names, numbers and bytes.
"""

from __future__ import annotations

import ctypes
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from devices.data.dataset import Dataset
from emulator.study.study import Study

Job = Callable[..., Any]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


class Executor(Protocol):
    def submit(self, job: Job, *args: Any) -> Future[Any]:
        """Starts `job(study, *args)`."""


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

    def __init__(self, study: Study) -> None:
        quiet_torch()
        self.study = study

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        """There is nothing to stop: a job is done when `submit` returns."""

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(job(self.study, *args))
        except Exception as error:  # belongs to whoever collects the result
            future.set_exception(error)
        return future


class Processes:
    """A pool of worker processes.  They map the data set from one file each, so there is one copy in memory."""

    def __init__(self, study: Study, workers: int) -> None:
        keep_memory()
        self.folder = tempfile.TemporaryDirectory(prefix="fedlapse-")
        shelf = _put_away(study.dataset, Path(self.folder.name))
        self.pool = ProcessPoolExecutor(
            workers,
            mp_context=get_context("spawn"),
            initializer=_arrive,
            initargs=(replace(study, dataset=None), shelf),
        )
        with ctrl_c_held_back():  # a new process inherits that, and may be hit before it can ignore it
            for _ in range(workers):
                self.pool.submit(_nothing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.folder.cleanup()

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        stop(self.pool)

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return self.pool.submit(_do, job, *args)


def stop(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's workers now, not after their jobs; its shutdown then waits for nothing."""
    for process in list(pool._processes.values()):
        process.terminate()
    # One may have been in the midst of sending a result.  The pool would wait for the rest for ever, since it holds the
    # pipe's other end open itself, though it never writes to it.
    pool._result_queue._writer.close()  # type: ignore[attr-defined]


def executor(study: Study, workers: int) -> Inline | Processes:
    """Worker processes, or with `workers` 0 this process."""
    return Processes(study, workers) if workers else Inline(study)


Shelf = dict[str, Any]  # field of Dataset -> its value, or the file that holds the array

_study: Study | None = None  # in a worker: what it was handed when it came


def _put_away(dataset: Dataset | None, folder: Path) -> Shelf | None:
    if dataset is None:
        return None
    shelf: Shelf = {}
    for field in fields(dataset):
        value = getattr(dataset, field.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{field.name}.npy", value)
            value = folder / f"{field.name}.npy"
        shelf[field.name] = value
    return shelf


def _take_down(shelf: Shelf | None) -> Dataset | None:
    if shelf is None:
        return None
    # "c": torch wants writable memory, and pages that nobody writes stay shared
    return Dataset(**{k: np.load(v, mmap_mode="c") if isinstance(v, Path) else v for k, v in shelf.items()})


def _arrive(study: Study, shelf: Shelf | None) -> None:
    global _study
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is the main process's business; a worker's death breaks the pool
    quiet_torch()
    _study = replace(study, dataset=_take_down(shelf))


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """While worker processes are started, which inherit the mask.  Raises KeyboardInterrupt at the end if one came."""
    resource_tracker.ensure_running()  # it would let SIGINT through again while it starts
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))  # another thread may be hit
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _nothing() -> None:
    """A first job: it brings a worker here."""


def _do(job: Job, *args: Any) -> Any:
    return job(_study, *args)
