"""The process that workers are forked from: it imports once what all of them need.

It is multiprocessing's "forkserver", with what that lacks in Python 3.11: it looks for modules where this process does,
and not in the folder where the user is; its socket lies in a folder that the next command removes if this one is
killed; and it ends with this process, whose output it holds open.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, process
from pathlib import Path
from typing import Any

from emulator.compute.signals import held_back
from emulator.messages.scratch import IN_MEMORY, Scratch

# Libraries of macOS do not survive a fork; and the path of a socket is short only there.
POSSIBLE = sys.platform == "linux" and os.access(IN_MEMORY, os.W_OK)

_home: Scratch | None = None  # where the socket lies
_server: Any = forkserver._forkserver  # nothing public ends it


def start(modules: Sequence[str]) -> None:
    """Starts it, unless it runs: it imports these modules while this process goes on.  Raises OSError if it cannot."""
    global _home
    if _home is None:
        _home = Scratch(IN_MEMORY)
        process.current_process()._config["tempdir"] = str(_home.path)  # type: ignore[attr-defined]
        atexit.register(_end, os.getpid(), _home)
    forkserver.set_forkserver_preload([*modules])
    with held_back(), _modules_as_here():  # it inherits that, and so do all workers
        forkserver.ensure_running()
    forkserver.set_forkserver_preload([])  # one that is started in its place, if it was killed, has another path


def pid() -> int | None:
    """Its process; None: there is none."""
    found: int | None = _server._forkserver_pid
    return found


def stop() -> None:
    """Ends it at once.  Its workers stay."""
    if (running := pid()) is not None:
        os.kill(running, signal.SIGKILL)
        _server._stop()


def _end(owner: int, home: Scratch) -> None:
    if os.getpid() == owner:  # and no process that was forked from it
        stop()
        home.close()


@contextmanager
def _modules_as_here() -> Iterator[None]:
    """A Python that is started meanwhile has the path of this one, and nothing before it."""
    places = os.pathsep.join(str(entry or Path.cwd()) for entry in sys.path)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    os.environ.update(PYTHONPATH=places, PYTHONSAFEPATH="1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
