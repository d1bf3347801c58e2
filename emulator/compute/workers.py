"""Pools of worker processes.  A worker ignores the signals that end a command, because the process that started it
handles them, and ends when that process ends.

If possible, workers are forked from a process that has imported what they need (ready.py): otherwise importing torch
takes each of them more than a second and 100 MB of memory.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from typing import Any

from emulator.compute import ready
from emulator.compute.signals import ENDING, held_back
from emulator.messages.scratch import IN_MEMORY
from emulator.record.writing import why

OPEN_FILES = (errno.EMFILE, errno.ENFILE)
KILLED = "a worker process was killed (out of memory?); try fewer --workers"  # the message about a broken pool
CONTEXT = multiprocessing.get_context("forkserver" if ready.FORKS else "spawn")


class Gone(BrokenExecutor):
    """The error that a pool has no workers any more; its text gives the reason in one line."""


def why_broken(error: BrokenExecutor) -> str:
    """Returns the reason why a pool of workers is broken, in one line."""
    return str(error) if isinstance(error, Gone) else KILLED


class WorkerPool(ProcessPoolExecutor):
    """A pool of `count` worker processes, all started immediately; each first calls `arrive(place, *handed)`.

    Close it with `close`: after a kill, `shutdown` would wait forever, because the other workers ignore SIGTERM.  A
    worker's result must fit into one write to a pipe, because the pool would wait forever for the rest if the worker
    were killed.
    """

    def __init__(
        self,
        count: int,
        modules: Sequence[str],
        arrive: Callable[..., object],
        *handed: Any,
        places: Sequence[str] = ("cpu",),
    ) -> None:
        """Starts the workers.  `modules` are imported once for all workers, if this is the command's first pool.
        `places`: the devices, such as "cpu" or "cuda:0", that are given to the workers in turn.

        Raises OSError if the system cannot start that many, Gone if the parent of the workers was killed or processes
        cannot share memory, and KeyboardInterrupt after a Ctrl-C.
        """
        self.workers: set[Any] = set()
        with _locks():
            if ready.FORKS:
                ready.start(modules)
            with held_back():  # its locks start the resource tracker, which a hangup would end
                turns = CONTEXT.SimpleQueue()
                first = (turns, dict(os.environ), arrive, handed)
                super().__init__(count, mp_context=CONTEXT, initializer=_arrive, initargs=first)
        try:
            with held_back():  # a new process inherits the mask, and may get a signal before it ignores signals
                self._begin(count)
                for number in range(count):
                    turns.put(places[number % len(places)])
        except BaseException as error:  # workers already started would look for files that are about to be removed
            self.close()
            if isinstance(error, (EOFError, ConnectionError)):
                raise Gone(KILLED) from None
            raise

    def _begin(self, count: int) -> None:
        """Starts all workers by submitting as many empty jobs.  The pool starts a worker for a job if none is idle, and
        none is idle before it has got its place from `turns`."""
        others = {*multiprocessing.active_children()}
        try:
            for _ in range(count):
                self.submit(_nothing)
        finally:
            self.workers = {*multiprocessing.active_children()} - others

    def stop(self) -> None:
        """Ends the workers now, without waiting for their jobs."""
        for worker in self.workers:
            worker.kill()

    def close(self) -> None:
        """Ends the workers now, and waits until they are gone."""
        self.stop()
        self.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _locks() -> Iterator[None]:
    """Raises Gone in place of an OSError inside this context: no locks can be made in the memory that processes share.
    An error for too many open files is passed on."""
    try:
        yield
    except OSError as error:
        if error.errno in OPEN_FILES:
            raise
        ways = "make room there, let it be written to, or use --workers 0"
        raise Gone(f"{IN_MEMORY}, which workers need for locks: {why(error)}; {ways}") from None


def _arrive(
    turns: SimpleQueue[str], environment: Mapping[str, str], arrive: Callable[..., object], handed: Sequence[Any]
) -> None:
    for number in ENDING:  # signals may reach the whole process group, and a dead worker breaks the pool
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    os.environ.clear()  # the parent's environment may be outdated
    os.environ.update(environment)
    arrive(turns.get(), *handed)


def _end_with_the_parent() -> None:
    """Ends this process when its parent ends, however that happens: even SIGKILL closes the parent's end of a pipe."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _nothing() -> None:
    """Does nothing: this job only makes the pool start a worker."""
