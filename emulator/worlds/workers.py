"""Pools of worker processes.  A worker leaves signals to the process that started it, and ends when that one does.

Where the system allows it, workers are forked from a process that has imported what they need: importing torch takes
each of them more than a second otherwise, and 100 MB of memory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from tempfile import gettempdir
from typing import Any, Protocol, TypeVar

from emulator.worlds.signals import ENDING, held_back

# Libraries of macOS do not survive a fork; and a socket in this folder may have a path of 107 bytes.
FORKED = sys.platform == "linux" and len(os.fsencode(gettempdir())) <= 70

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


class ForkedWorker(Worker):
    """One that is forked, once what it needs has been imported."""

    _start_method = "forkserver"
    _Popen = staticmethod(ForkServerProcess._Popen)  # type: ignore[assignment]


class _Workers(SpawnContext):
    Process = Worker


class _Forked(ForkServerContext):
    Process = ForkedWorker  # type: ignore[assignment]


CONTEXT = _Forked() if FORKED else _Workers()


def _end_with_the_parent() -> None:
    """However it ends: its end of a pipe closes even after SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def turns(values: Sequence[Value], count: int) -> Turns[Value]:
    """What each of `count` workers takes one of, the values in turn."""
    with held_back():  # its locks start the process that counts them, which a hangup would end
        queue = CONTEXT.SimpleQueue()
    for number in range(count):
        queue.put(values[number % len(values)])
    return queue


def pool(count: int, modules: Sequence[str], arrive: Callable[..., None], *handed: Any) -> ProcessPoolExecutor:
    """`count` workers, already on their way; each calls `arrive(*handed)` first.

    modules: what they need, imported once for all of them if this is the first pool.

    Raises OSError if that many cannot be started, Gone if what they are forked from was killed, and KeyboardInterrupt
    if Ctrl-C comes meanwhile.
    """
    made = None
    try:
        with held_back():  # a new process inherits that, and may be hit before it can ignore them
            import_once(modules)
            made = ProcessPoolExecutor(count, mp_context=CONTEXT, initializer=arrive, initargs=handed)
            for _ in range(count):
                made.submit(_nothing)
    except BaseException as error:  # those that were started would look for what is taken away now
        if made:
            stop(made)
            made.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, EOFError):
            raise Gone(KILLED) from None
        raise
    return made


def import_once(modules: Sequence[str]) -> None:
    """Starts the process that workers are forked from, unless it runs: it imports these while this one goes on.

    Raises OSError if it cannot be started.
    """
    if not FORKED:
        return
    with held_back():
        forkserver.set_forkserver_preload([*modules])
        # It takes no path from us (in Python 3.11), and would import what lies in the folder where the user is.
        before = dict(os.environ)
        os.environ.update(PYTHONPATH=os.pathsep.join(sys.path), PYTHONSAFEPATH="1")
        try:
            forkserver.ensure_running()
        finally:
            os.environ.clear()
            os.environ.update(before)


def stop(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's workers now, not after their jobs; its shutdown then waits for nothing."""
    for process in list(pool._processes.values()):
        process.terminate()
    # One may have been in the midst of sending a result.  The pool would wait for the rest for ever, since it holds the
    # pipe's other end open itself, though it never writes to it.
    pool._result_queue._writer.close()  # type: ignore[attr-defined]


def _nothing() -> None:
    """A first job: it brings a worker here."""
