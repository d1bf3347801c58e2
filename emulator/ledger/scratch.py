"""Temporary folders, on disk and in memory.  One that a killed process has left is removed when the next command
starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX, LOCK = "fedlapse-", "lock"
IN_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux has a file system in memory


class Scratch:
    """A folder of this process.  It holds a file that the process keeps locked until it ends, in whatever way."""

    def __init__(self, parent: Path | None = None) -> None:
        """Raises OSError."""
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        draft = self.path / f"{LOCK}.new"
        try:
            self._file = draft.open("wb")
        except OSError:
            self.path.rmdir()  # which opens no file, of which there may be too many; `cleanup` does
            self._folder.cleanup()
            raise
        if _lock(self._file.fileno()):  # only a locked file gets the name by which others find it
            draft.rename(self.path / LOCK)

    def close(self) -> None:
        self._folder.cleanup()
        self._file.close()


def clear() -> None:
    """Removes this user's folders whose processes are gone."""
    try:
        parents = {Path(tempfile.gettempdir()), IN_MEMORY}
    except OSError:  # there is none that can be written to: whoever needs one says so
        parents = {IN_MEMORY}
    for parent in parents:
        for folder in abandoned(parent):
            shutil.rmtree(folder, ignore_errors=True)


def abandoned(parent: Path) -> Iterator[Path]:
    """This user's folders in there whose processes are gone."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        if _own(lock.parent) and not _held(lock):
            yield lock.parent


def in_use(parent: Path) -> bool:
    """Whether a living process has a folder in there."""
    return any(map(_held, parent.glob(f"{PREFIX}*/{LOCK}")))


def in_memory() -> Scratch | None:
    """A folder in memory, if this machine has a place for it."""
    try:
        return Scratch(IN_MEMORY) if IN_MEMORY.is_dir() else None
    except OSError:
        return None


def _own(folder: Path) -> bool:
    """Whether it is a folder of this user, and not a link to one."""
    try:
        found = folder.lstat()
    except OSError:  # it has just been removed
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _held(lock: Path) -> bool:
    """Whether its process lives.  Also if that cannot be known."""
    try:
        with lock.open("rb") as file:
            return not _lock(file.fileno())
    except OSError:
        return True


def _lock(file: int) -> bool:
    """Locks an open file; False if another process has done so, or its file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
