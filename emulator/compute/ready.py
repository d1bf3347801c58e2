"""Starts the process from which workers are forked.  It imports what all workers need, once, while a command begins.

It is multiprocessing's "forkserver" with two changes that Python 3.11 lacks: it searches modules where this process
does, and not in the working directory; and its socket is in a folder that the next command removes if this command is
killed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

from emulator.compute.signals import held_back
from emulator.messages.scratch import IN_MEMORY, Scratch

IMPORTED = (  # by all workers
    "emulator.compute.executors",
    "emulator.lab.jobs",
    "emulator.lab.training",
    "torch.optim",
    "emulator.__main__",
)

# Libraries of macOS do not survive a fork; and a socket's path is short only in shared memory.
FORKS = sys.platform == "linux" and os.access(IN_MEMORY, os.W_OK)


def be_ready() -> None:
    """Starts the process from which workers are forked, if this system can fork them.  That process imports IMPORTED,
    in some two seconds, while this one continues."""
    if FORKS:
        with suppress(OSError):  # the start of the workers reports the error
            start(IMPORTED)


def start(modules: Sequence[str]) -> None:
    """Starts the process from which workers are forked, unless it runs already.  That process imports `modules` while
    this one continues.  Raises OSError if it cannot be started."""
    forkserver.set_forkserver_preload([*modules, "emulator.compute.ends_at_once"])
    with held_back(), _as_here():  # the new process inherits the signal mask, and so do all workers
        forkserver.ensure_running()


@cache
def _home() -> Scratch:
    """Returns a folder in shared memory, for the socket of the process from which workers are forked.  It is removed
    when this process ends."""
    return Scratch(IN_MEMORY)


@contextmanager
def _as_here() -> Iterator[None]:
    """Makes a Python process that is started inside this context search modules exactly where this process does.
    Inside the context, temporary files of this process are created in the folder of `_home`."""
    places = os.pathsep.join(str(entry or Path.cwd()) for entry in sys.path)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    folder, tempfile.tempdir = tempfile.tempdir, str(_home().path)
    os.environ.update(PYTHONPATH=places, PYTHONSAFEPATH="1")
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
