"""Pools of worker processes.  A worker leaves signals to the process that started it, and ends when that one does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol, TypeVar

from emulator.worlds.signals import ENDING, held_back

KILLED = "a worker process was killed (out of memory?); try fewer --workers"  # what a broken pool means


class Gone(BrokenExecutor):
    """There are no workers any more; its text says why, in one line."""


def why_broken(error: BrokenExecutor) -> str:
    """Why a pool of workers is broken, in one line."""
    return str(error) if isinstance(error, Gone) else KILLED


Value = TypeVar("Value", covariant=True)


class Turns(Protocol[Value]):
    """Values of which each worker takes one."""

    def get(self) -> Value: ...


class Worker(SpawnProcess):
    """One process of a pool."""

    def run(self) -> None:
        for number in ENDING:  # they may reach the whole process group, and a dead worker breaks the pool
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        super().run()

    def terminate(self) -> None:
        """Ends it at once; its pool asks for this, and SIGTERM is ignored."""
        self.kill()


class _Workers(SpawnContext):
    Process = Worker


def _end_with_the_parent() -> None:
    """However it ends: its end of a pipe closes even after SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def turns(values: Sequence[Value], count: int) -> Turns[Value]:
    """What each of `count` workers takes one of, the values in turn."""
    with held_back():  # its locks start the process that counts them, which a hangup would end
        queue = _Workers().SimpleQueue()
    for number in range(count):
        queue.put(values[number % len(values)])
    return queue


def pool(count: int, arrive: Callable[..., None], *handed: Any) -> ProcessPoolExecutor:
    """`count` workers, already on their way; each calls `arrive(*handed)` first.

    Raises OSError if that many cannot be started, and KeyboardInterrupt if Ctrl-C comes meanwhile.
    """
    made = None
    try:
        with held_back():  # a new process inherits that, and may be hit before it can ignore them
            made = ProcessPoolExecutor(count, mp_context=_Workers(), initializer=arrive, initargs=handed)
            for _ in range(count):
                made.submit(_nothing)
    except BaseException:  # those that were started would look for what is taken away now
        if made:
            stop(made)
            made.shutdown(wait=True, cancel_futures=True)
        raise
    return made


def stop(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's workers now, not after their jobs; its shutdown then waits for nothing."""
    for process in list(pool._processes.values()):
        process.terminate()
    # One may have been in the midst of sending a result.  The pool would wait for the rest for ever, since it holds the
    # pipe's other end open itself, though it never writes to it.
    pool._result_queue._writer.close()  # type: ignore[attr-defined]


def _nothing() -> None:
    """A first job: it brings a worker here."""
