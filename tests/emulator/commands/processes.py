"""Commands in processes of their own, which can be sent real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from tests.emulator.commands.forked import Forked

ROOT = Path(__file__).parents[3]


def wait_for(what: Callable[[], bool], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


class Command:
    """`fedlapse WORDS... --out OUT` in a session of its own, with a temporary folder beside OUT.

    prefix: a program that starts it, as nohup does; program: Python that is run in its place.
    """

    def __init__(self, out: Path, *words: object, prefix: tuple[str, ...] = (), program: str | None = None) -> None:
        self.out, self.temporary = out, out.parent / "temporary"
        self.temporary.mkdir(exist_ok=True)
        told = [*map(str, words), "--out", str(out)]
        self.process: Forked | subprocess.Popen[str]
        if hasattr(os, "pidfd_open") and not prefix:
            self.process = Forked(told, ROOT, self.environment, program)
            return
        starts = ["-m", "emulator"] if program is None else ["-c", program]
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *starts, *told],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=self.environment,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def until(self, what: Callable[[], bool]) -> None:
        """Returns once that is so; fails if the command ends before."""
        wait_for(lambda: self.process.poll() is not None or what())
        assert self.process.poll() is None, self.process.communicate()[0]

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)  # a terminal sends it to the workers too, and so does a service

    def ended(self, seconds: float) -> tuple[int, str]:
        text, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, text

    def killed(self) -> None:
        """Kills it; returns when all its workers have gone too, and nobody holds its stdout any more."""
        self.process.kill()
        self.process.wait()
        wait_for(lambda: self.living() == [], 20)
        self.process.communicate(timeout=20)

    def living(self) -> list[int]:
        """Its processes, the workers among them: all of its session."""
        return [number for number, session in sessions() if session == self.process.pid]

    def left(self) -> list[str]:
        """In the temporary folder."""
        return sorted(path.name for path in self.temporary.glob("fedlapse-*"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def sessions() -> Iterator[tuple[int, int]]:
    """Each process that lives, and its session."""
    for line in subprocess.run(
        ["ps", "-e", "-o", "pid=,sess=,stat="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        number, session, state = line.split()[:3]
        if not state.startswith("Z"):
            yield int(number), int(session)
