"""Ends a command at a signal from outside: Ctrl-C, SIGTERM and SIGHUP have the same effect, with exit code 128 +
signal."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import signal
import sys
import termios
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from emulator.compute.signals import ENDING, handled, put_off

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from types import FrameType


T = TypeVar("T")
AGAIN = 0.01  # s until a signal that was lost or came at a bad moment is sent again
CLEANING = 0.25  # s during which a stopped command ignores a second signal
TAKING = ("__enter__", "__exit__")  # raised there, a lock would stay taken, and a pool's thread wait for it for ever


class Stopped(KeyboardInterrupt):
    """The exception by which a signal ends a command.  Python itself raises KeyboardInterrupt for Ctrl-C alone."""

    def __init__(self, number: int) -> None:
        super().__init__(number)  # no more arguments: simpy raises a copy, made from them
        self.number = number


def listen() -> None:
    """Makes each signal that is to end a command raise Stopped in the main thread."""
    sys.unraisablehook = _not_raised
    for number in _wanted():
        signal.signal(number, _raise)


def hear_no_more() -> None:
    """Ignores further signals, because the process is ending and a second Ctrl-C would only interrupt its clean-up."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def ending() -> Iterator[None]:
    """Ends the process with the message "stopped" if a signal ends the block.  For commands that have nothing to say
    about what was kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print("fedlapse: stopped", file=sys.stderr)
        sys.exit(code_of(stop))


@contextmanager
def loop_of_its_own() -> Iterator[AbstractEventLoop]:
    """Provides a new event loop, and closes it at the end of the block.

    Signals wait while the loop is made or closed, because Python would print a traceback.
    """
    with ExitStack() as leave:
        with put_off():
            loop = asyncio.new_event_loop()
            leave.callback(_closed_whole, loop)
        yield loop


def _closed_whole(loop: AbstractEventLoop) -> None:
    with put_off():
        loop.close()


def run_heard(loop: AbstractEventLoop, play: Coroutine[Any, Any, T], hear: Callable[[int], None]) -> T:
    """Runs a coroutine in the loop to its end, closes the loop, and returns the result.

    Meanwhile signals do not end the command: the loop calls `hear` with their numbers.  If this thread already runs a
    loop, as in a notebook, the coroutine runs in another thread.
    """

    def run() -> T:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(play)

    aside = _loop_runs_here()
    with heard_by(loop, hear), nullcontext() if aside else woken_by_signals(loop):
        if not aside:
            return run()
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run).result()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def heard_by(loop: AbstractEventLoop, hear: Callable[[int], None]) -> Iterator[None]:
    """Makes the loop call `hear` with the number of each signal that comes while the block runs.

    Signals that the loop had no time for are passed to `hear` at the end of the block; asyncio's own signal handlers
    would lose them.
    """
    waiting = deque[int]()

    def pass_on() -> None:
        while waiting:
            hear(waiting.popleft())

    def came(number: int, _: FrameType | None) -> None:
        waiting.append(number)
        _leave_the_terminal()
        if not loop.is_closed():
            loop.call_soon_threadsafe(pass_on)

    try:
        with handled(came, _wanted()):
            yield
    finally:
        pass_on()


@contextmanager
def woken_by_signals(loop: AbstractEventLoop) -> Iterator[None]:
    """Makes any signal wake the loop, even one that reaches another thread or comes just before the loop waits.

    asyncio wakes for all signals once it has a handler for one; here that one is SIGURG, which is never sent.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    woken, before = signal.set_wakeup_fd(-1), signal.getsignal(signal.SIGURG)
    loop.add_signal_handler(signal.SIGURG, lambda: None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGURG)
        signal.signal(signal.SIGURG, before)
        signal.set_wakeup_fd(woken)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignores signals while a file is written, which takes a moment."""
    with handled(signal.SIG_IGN):
        yield


def code(number: int) -> int:
    """Returns the exit code of a command that a signal ended, as in shells: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def code_of(stop: KeyboardInterrupt) -> int:
    return code(stop.number if isinstance(stop, Stopped) else signal.SIGINT)


def _wanted() -> list[int]:
    """Returns the numbers of the signals to handle; SIGHUP is not among them if it is ignored, as under `nohup`."""
    return [number for number in ENDING if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


def _not_raised(found: sys.UnraisableHookArgs) -> None:
    """Sends a signal again if its Stopped was raised where Python discards exceptions, for example in a destructor."""
    global _raised
    if not isinstance(found.exc_value, Stopped):
        sys.__unraisablehook__(found)
        return
    _raised = -math.inf
    _send_again(found.exc_value.number)


def _send_again(number: int) -> None:
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


_raised = -math.inf  # s; time of the last signal that raised Stopped


def _raise(number: int, frame: FrameType | None) -> None:
    """Raises Stopped, unless a signal came just before: `timeout` sends two, and the second must not interrupt the
    clean-up."""
    global _raised
    if time.monotonic() < _raised + CLEANING:
        return
    if frame is not None and frame.f_code.co_name in TAKING:
        _send_again(number)
        return
    _raised = time.monotonic()
    _leave_the_terminal()
    warnings.simplefilter("ignore", RuntimeWarning)  # about coroutines that were never awaited
    raise Stopped(number)


def _leave_the_terminal() -> None:
    """Redirects output to nowhere if the terminal is gone, as after SIGHUP, so that printing does not fail."""
    for file in (1, 2):
        try:
            termios.tcgetattr(file)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, file)
                os.close(nowhere)
