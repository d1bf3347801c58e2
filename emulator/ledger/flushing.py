"""Brings to the disk what was written, in batches: to wait for each file would cost more than most trainings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread

SECONDS = 2.0  # between two batches: what is younger is lost if the power fails


class Flusher:
    """Flushes `log` and the files that are named to it, every few seconds and at the end.

    `warn` gets each OSError.
    """

    def __init__(self, log: Callable[[], None], warn: Callable[[OSError], None]) -> None:
        self.log, self.warn = log, warn
        self._lock, self._ended = Lock(), Event()
        self._files: set[Path] = set()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, path: Path) -> None:
        with self._lock:
            self._files.add(path)

    def close(self) -> None:
        """Returns when everything is on the disk."""
        self._ended.set()
        self._thread.join()
        self._flush()

    def _run(self) -> None:
        while not self._ended.wait(SECONDS):
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            files, self._files = self._files, set()
        try:
            self.log()
            for path in files:
                _sync(path)
        except OSError as error:
            self.warn(error)


def _sync(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # another command has just removed it
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)
