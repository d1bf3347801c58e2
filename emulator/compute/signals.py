"""The signals that end a command, and how they are held back while worker processes are started."""

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
    """Meanwhile these signals meet this handler.  In a thread beside the main one nothing changes: none comes there."""
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
    """A signal that comes meanwhile takes effect at the end."""
    came: list[int] = []
    with handled(lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def held_back() -> Iterator[None]:
    """While worker processes are started, which inherit the mask.  A signal that came takes effect at the end."""
    with put_off(), program_left_out():  # another thread may be hit, which no mask of this one prevents
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            resource_tracker.ensure_running()  # to have SIGHUP blocked for good; of the others it lifts the block
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def program_left_out() -> Iterator[None]:
    """Workers that are started meanwhile do not run the program again that starts them, as multiprocessing has them do,
    and begin in its present folder, not in that in which it began."""
    its: Any = process  # of which typeshed does not know where it began
    program, began = sys.modules["__main__"], its.ORIGINAL_DIR
    sys.modules["__main__"], its.ORIGINAL_DIR = ModuleType("__main__"), str(Path.cwd())
    try:
        yield
    finally:
        sys.modules["__main__"], its.ORIGINAL_DIR = program, began
