"""A signal that comes where no exception gets out, or where one would leave a lock taken, is not lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from emulator.terminal.stopping import run_heard

SCRIPT = """
import signal, time
from emulator.terminal.stopping import ending, listen

class Cleared:
    left = 1

    def __del__(self):
        if Cleared.left:
            Cleared.left -= 1
            signal.raise_signal(signal.{name})

listen()
with ending():
    for _ in range(6000):
        Cleared()
        time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_comes_in_a_finaliser_is_not_lost(name: str, code: int) -> None:
    script = SCRIPT.format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_what_else_cannot_be_raised_is_still_told() -> None:
    script = SCRIPT.format(name="SIGTERM").replace("signal.raise_signal(signal.SIGTERM)", "1 / 0")
    done = subprocess.run(
        [sys.executable, "-c", script.replace("6000", "1")], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr


LOCKED = """
import signal, threading, time
from emulator.terminal.stopping import Stopped, listen

class Taken:
    def __init__(self):
        self.lock = threading.Lock()

    def __enter__(self):
        self.lock.acquire()
        signal.raise_signal(signal.SIGTERM)

    def __exit__(self, *error):
        self.lock.release()

listen()
taken = Taken()
try:
    with taken:
        time.sleep(20)
except Stopped as stop:
    print(stop.number == signal.SIGTERM, taken.lock.locked())
"""


@pytest.mark.slow
def test_a_signal_that_comes_while_a_lock_is_taken_leaves_it_free() -> None:
    done = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("True False\n", "")


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_signal_in_the_last_steps_of_an_event_loop_is_heard_once_in_its_order(steps: int) -> None:
    heard: list[int] = []

    async def play() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        for _ in range(steps):
            await asyncio.sleep(0)

    with closing(asyncio.new_event_loop()) as loop:
        run_heard(loop, play(), heard.append)
    assert heard == [signal.SIGTERM, signal.SIGINT]


def test_signals_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers, and where the loop is told of them that runs here already, as a notebook's does."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGURG)

    def heard_in(here: bool) -> None:
        before = [signal.getsignal(number) for number in numbers]
        loop = asyncio.new_event_loop()
        assert run_heard(loop, asyncio.sleep(0, "done"), lambda _: None) == "done"
        assert loop.is_closed()
        assert [signal.getsignal(number) for number in numbers] == before
        assert (signal.set_wakeup_fd(-1) == -1) is here

    async def notebook() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
        heard_in(here=False)

    heard_in(here=True)
    asyncio.run(notebook())


@pytest.mark.parametrize("hit", ["the process", "another thread"])
def test_a_signal_wakes_an_event_loop_that_waits(hit: str) -> None:
    heard: list[tuple[int, bool]] = []

    def kill() -> None:
        if hit == "the process":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    async def play() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        sent, began = threading.Timer(0.02, kill), loop.time()

        def hear(number: int) -> None:
            heard.append((number, loop.time() < began + 5))
            over.set()

        hears.append(hear)
        sent.start()
        await asyncio.wait_for(over.wait(), 10)  # which wakes the loop in any case
        sent.join()

    hears: list[Callable[[int], None]] = []
    with closing(asyncio.new_event_loop()) as loop:
        run_heard(loop, play(), lambda number: hears[0](number))
    assert heard == [(signal.SIGTERM, True)]
