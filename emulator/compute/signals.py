"""The signals that end a command, and their delay while worker processes are started."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import process, resource_tracker
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

Handler = Callable[[int, FrameType | None], object] | int
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a user, a service or a terminal sends them


@contextmanager
def handled(handler: Handler, numbers: Sequence[int] = ENDING) -> Iterator[None]:
    """Sets `handler` for the signals `numbers` inside this context, and restores the earlier handlers at its end.  Does
    nothing in another thread than the main one, because signals are handled only there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def put_off() -> Iterator[None]:
    """Delays the signals that end a command until the end of this context.  If several arrive, only the first takes
    effect."""
    came: list[int] = []
    with handled(lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def held_back() -> Iterator[None]:
    """Blocks the signals that end a command while worker processes are started inside this context, because a new
    process inherits what is blocked.  A signal that arrives meanwhile takes effect at the end."""
    with put_off(), program_left_out():  # a signal may reach another thread, which this thread's mask does not prevent
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            resource_tracker.ensure_running()  # to have SIGHUP blocked for good; of the others it lifts the block
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def program_left_out() -> Iterator[None]:
    """Changes how multiprocessing starts workers inside this context: they do not run the user's main program again,
    and they begin in its present working directory, not in the one in which the program was started."""
    its: Any = process  # typeshed does not know ORIGINAL_DIR
    program, began = sys.modules["__main__"], its.ORIGINAL_DIR
    sys.modules["__main__"], its.ORIGINAL_DIR = ModuleType("__main__"), str(Path.cwd())
    try:
        yield
    finally:
        sys.modules["__main__"], its.ORIGINAL_DIR = program, began
