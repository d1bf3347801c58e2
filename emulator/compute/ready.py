"""The process that workers are forked from: it imports once what all of them need, while a command begins.

It is multiprocessing's "forkserver", with what that lacks in Python 3.11: it looks for modules where this process does,
and not in the folder where the user is; and its socket lies in a folder that the next command removes if this one is
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

IMPORTED = ("emulator.compute.executors", "emulator.lab.jobs", "torch.optim", "emulator.__main__")  # by all workers

# Libraries of macOS do not survive a fork; and the path of a socket is short only there.
FORKS = sys.platform == "linux" and os.access(IN_MEMORY, os.W_OK)


def be_ready() -> None:
    """Starts to import IMPORTED, where workers are forked; this process goes on meanwhile, some two seconds."""
    if FORKS:
        with suppress(OSError):  # whoever starts the workers will say it
            start(IMPORTED)


def start(modules: Sequence[str]) -> None:
    """Starts the process, unless it runs: it imports these modules while this one goes on.  Raises OSError."""
    forkserver.set_forkserver_preload([*modules, "emulator.compute.ends_at_once"])
    with held_back(), _as_here():  # it inherits that, and so do all workers
        forkserver.ensure_running()


@cache
def _home() -> Scratch:
    """A folder in memory, until this process ends."""
    return Scratch(IN_MEMORY)


@contextmanager
def _as_here() -> Iterator[None]:
    """A Python that is started meanwhile has the path of this one, and nothing before it; temporary files of this
    process lie in its home."""
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
