"""Commands in processes of their own that need not import anything: they are forked from one that has imported it all.

`python -m tests.emulator.commands.forked FD` is that process; it computes nothing.  What is forked from it is a command
as `python -m emulator` starts it: with its own arguments, environment, folder, session, signals and end.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
MAIN = "emulator.__main__"
IMPORTED = (
    *(MAIN, "emulator.sessions.one_scenario", "emulator.sessions.replaying", "emulator.sessions.tuning"),
    *("emulator.sessions.studying", "emulator.sessions.mapping", "emulator.report.page", "network.windows.crowd"),
    *("torch.optim", "torch.fx.experimental.symbolic_shapes", "sklearn.datasets"),
)
LONG = 1 << 20  # bytes: more than a request has


class Forked:
    """What subprocess.Popen is, of a command that was forked; one pipe has all that it says."""

    def __init__(self, words: list[str], cwd: Path, environment: Mapping[str, str], program: str | None) -> None:
        reading, writing = os.pipe()
        self._ends, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        asked = json.dumps([words, str(cwd), dict(environment), program]).encode()
        assert len(asked) < LONG
        socket.send_fds(_parent(), [asked], [writing, theirs.fileno()])
        os.close(writing)
        theirs.close()
        self.args, self.pid, self._output = words, int(self._ends.recv(16)), os.fdopen(reading, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns its exit code, as subprocess has it; None while it lives."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Returns all that it says, once it has ended and nothing that it has started can say more."""
        until, said = None if timeout is None else time.monotonic() + timeout, b""
        while until is None or select.select([self._output], [], [], max(0.0, until - time.monotonic()))[0]:
            more = os.read(self._output.fileno(), LONG)
            said += more
            if not more:
                self.wait(None if until is None else max(0.0, until - time.monotonic()))
                self._output.close()
                return said.decode(), None
        raise subprocess.TimeoutExpired(self.args, timeout or 0.0, said)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ends], [], [], timeout)[0]:
            self.returncode = int(self._ends.recv(16))
            self._ends.close()
        return self.returncode


@cache
def _parent() -> socket.socket:
    """Starts the process that commands are forked from; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(theirs.fileno())]
    quiet = subprocess.DEVNULL
    parent = subprocess.Popen(
        command, cwd=ROOT, stdin=quiet, stdout=quiet, pass_fds=[theirs.fileno()], start_new_session=True
    )
    theirs.close()

    def end() -> None:
        ours.close()
        parent.wait()

    atexit.register(end)
    return ours


def _serve(control: socket.socket) -> Callable[[], None] | None:
    """Forks a command for each request, and tells the codes of those that have ended; returns None when nobody can ask
    any more.  In a process that it has forked it returns the command."""
    children: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that tells its end
    while True:
        for ready in select.select([control, *children], [], [])[0]:
            if ready is not control:
                number, told = children.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
                with told, suppress(OSError):  # nobody wants to know
                    told.send(str(code).encode())
                os.close(ready)
                continue
            asked, descriptors, *_ = socket.recv_fds(control, LONG, 2)
            if not asked:
                return None
            number = os.fork()
            if number == 0:
                os.setsid()
                for to in (1, 2):
                    os.dup2(descriptors[0], to)
                for each in (*descriptors, *children):
                    os.close(each)
                for told in (control, *(told for _, told in children.values())):
                    told.close()
                return _command(*json.loads(asked))
            told = socket.socket(fileno=descriptors[1])
            told.send(str(number).encode())
            os.close(descriptors[0])
            children[os.pidfd_open(number)] = number, told


def _command(words: list[str], cwd: str, environment: dict[str, str], program: str | None) -> Callable[[], None]:
    """Makes this process one that Python has started just now."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    tempfile.tempdir = None
    sys.path[0] = cwd
    main = importlib.import_module(MAIN)
    if program is not None:
        sys.argv = ["-c", *words]
        return lambda: exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    sys.argv = [str(main.__file__), *words]
    sys.modules["__main__"] = main
    command: Callable[[], None] = main.main
    return command


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command:
        command()
