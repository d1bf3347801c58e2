"""The signals that end a command, and how they are held back while worker processes are started."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a user, a service or a terminal sends them


@contextmanager
def put_off() -> Iterator[None]:
    """A signal that comes meanwhile takes effect at the end."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


@contextmanager
def event_loop() -> Iterator[asyncio.Runner]:
    """A runner whose loop no signal meets half made or half closed: Python would print a traceback of one."""
    runner = asyncio.Runner()
    try:
        with put_off():
            runner.get_loop()
        yield runner
    finally:
        with put_off():
            runner.close()


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
