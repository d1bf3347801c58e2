"""Pools of worker processes.  A worker leaves signals to the process that started it, and ends when that one does.

Where it is possible they are forked from a process that has imported what they need (ready.py): importing torch takes
each of them more than a second otherwise, and 100 MB of memory.
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
KILLED = "a worker process was killed (out of memory?); try fewer --workers"  # what a broken pool means
CONTEXT = multiprocessing.get_context("forkserver" if ready.FORKS else "spawn")


class Gone(BrokenExecutor):
    """There are no workers any more; its text says why, in one line."""


def why_broken(error: BrokenExecutor) -> str:
    """Why a pool of workers is broken, in one line."""
    return str(error) if isinstance(error, Gone) else KILLED


class WorkerPool(ProcessPoolExecutor):
    """`count` workers, all on their way; each calls `arrive(place, *handed)` first.

    Close it: its own `shutdown` would wait for ever where a worker was killed, since the others ignore SIGTERM.  A
    worker must not send back more than a pipe takes at once: the pool waits for ever for the rest of a result whose
    worker was killed meanwhile.
    """

    def __init__(
        self,
        count: int,
        modules: Sequence[str],
        arrive: Callable[..., object],
        *handed: Any,
        places: Sequence[str] = ("cpu",),
    ) -> None:
        """`modules`: what workers need, imported once for all of them if this is the first pool.  Each has one of the
        `places`, in turn.

        Raises OSError if that many cannot be started, Gone if what they are forked from was killed or processes cannot
        share memory, and KeyboardInterrupt if Ctrl-C has come meanwhile.
        """
        self.workers: set[Any] = set()
        with _locks():
            if ready.FORKS:
                ready.start(modules)
            with held_back():  # its locks start the process that counts them, which a hangup would end
                turns = CONTEXT.SimpleQueue()
                first = (turns, dict(os.environ), arrive, handed)
                super().__init__(count, mp_context=CONTEXT, initializer=_arrive, initargs=first)
        try:
            with held_back():  # a new process inherits that, and may be hit before it can ignore them
                self._begin(count)
                for number in range(count):
                    turns.put(places[number % len(places)])
        except BaseException as error:  # those that were started would look for what is taken away now
            self.close()
            if isinstance(error, (EOFError, ConnectionError)):
                raise Gone(KILLED) from None
            raise

    def _begin(self, count: int) -> None:
        """Starts all workers now: the pool starts one for a job if none is idle, and none is before it has its turn."""
        others = {*multiprocessing.active_children()}
        try:
            for _ in range(count):
                self.submit(_nothing)
        finally:
            self.workers = {*multiprocessing.active_children()} - others

    def stop(self) -> None:
        """Ends the workers now, not after their jobs."""
        for worker in self.workers:
            worker.kill()

    def close(self) -> None:
        """Ends the workers now, and waits until they have gone."""
        self.stop()
        self.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _locks() -> Iterator[None]:
    """Raises Gone, which names the place, where none can be made, as they lie in memory that processes share."""
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
    for number in ENDING:  # they may reach the whole process group, and a dead worker breaks the pool
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    os.environ.clear()  # it is that of the process from which this one was forked
    os.environ.update(environment)
    arrive(turns.get(), *handed)


def _end_with_the_parent() -> None:
    """However it ends: its end of a pipe closes even after SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _nothing() -> None:
    """A first job: it brings a worker here."""
