"""The signals that end a command, and how they are held back while worker processes are started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

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
    with put_off():  # another thread may be hit, which no mask of this one prevents
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            resource_tracker.ensure_running()  # to have SIGHUP blocked for good; of the others it lifts the block
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
