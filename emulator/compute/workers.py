"""Pools of worker processes.  A worker leaves signals to the process that started it, and ends when that one does.

Where it is possible they are forked from a process that has imported what they need (forking.py): importing torch takes
each of them more than a second otherwise, and 100 MB of memory.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from emulator.compute import forking
from emulator.compute.signals import ENDING, held_back, program_left_out
from emulator.messages.scratch import IN_MEMORY
from emulator.record.writing import why

OPEN_FILES = (errno.EMFILE, errno.ENFILE)
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


class Worker(BaseProcess):
    """One process of a pool."""

    def run(self) -> None:
        for number in ENDING:  # they may reach the whole process group, and a dead worker breaks the pool
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        super().run()

    def terminate(self) -> None:
        """Ends it at once; its pool asks for this, and SIGTERM is ignored."""
        self.kill()


class Spawned(Worker, SpawnProcess):
    """One that imports what it needs itself."""


class Forked(Worker, ForkServerProcess):
    """One that finds it imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()  # it is that of the process from which this one was forked
        os.environ.update(self.environment)
        super().run()


class _Spawning(SpawnContext):
    Process = Spawned


class _Forking(ForkServerContext):
    Process = Forked


CONTEXT = _Forking() if forking.POSSIBLE else _Spawning()


def _end_with_the_parent() -> None:
    """However it ends: its end of a pipe closes even after SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


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


def turns(values: Sequence[Value], count: int) -> Turns[Value]:
    """What each of `count` workers takes one of, the values in turn."""
    with held_back(), _locks():  # its locks start the process that counts them, which a hangup would end
        queue = CONTEXT.SimpleQueue()
    for number in range(count):
        queue.put(values[number % len(values)])
    return queue


def pool(count: int, modules: Sequence[str], arrive: Callable[..., None], *handed: Any) -> ProcessPoolExecutor:
    """`count` workers, already on their way; each calls `arrive(*handed)` first.

    modules: what they need, imported once for all of them if this is the first pool.

    Raises OSError if that many cannot be started, Gone if what they are forked from was killed or processes cannot
    share memory, and KeyboardInterrupt if Ctrl-C comes meanwhile.
    """
    made = None
    try:
        with held_back(), _locks():
            CONTEXT.Lock()
        if forking.POSSIBLE:
            with _locks():
                forking.start(modules)
            _until_imported()
        with held_back():  # a new process inherits that, and may be hit before it can ignore them
            made = ProcessPoolExecutor(count, mp_context=CONTEXT, initializer=arrive, initargs=handed)
            made._safe_to_dynamically_spawn_children = False  # type: ignore[attr-defined]  # all now, none later
            made.submit(_nothing)
    except BaseException as error:  # those that were started would look for what is taken away now
        if made:
            stop(made)
            made.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, (EOFError, ConnectionError)):
            raise Gone(KILLED) from None
        raise
    return made


def _until_imported() -> None:
    """A first process begins when all modules are there; meanwhile Ctrl-C is heard."""
    global _imported
    if _imported == forking.pid():
        return
    first = CONTEXT.Process(target=_nothing)
    try:
        with program_left_out():
            first.start()
        first.join()
    except BaseException:
        forking.stop()  # else it would yet start that process, which nobody waits for
        raise
    _imported = forking.pid()


_imported: int | None = None  # pid of the process that is known to have imported its modules


def stop(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's workers now, not after their jobs; its shutdown then waits for nothing."""
    for process in list(pool._processes.values()):
        process.terminate()
    # One may have been in the midst of sending a result.  The pool would wait for the rest for ever, since it holds the
    # pipe's other end open itself, though it never writes to it.
    pool._result_queue._writer.close()  # type: ignore[attr-defined]


def _nothing() -> None:
    """A first job: it brings a worker here."""
