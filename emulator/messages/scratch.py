"""Temporary folders, on disk and in memory.  A folder that a killed process has left is removed when the next command
starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import BinaryIO

PREFIX, LOCK = "fedlapse-", "lock"
LAST = -1000  # priority at exit: after multiprocessing has removed its own folder, which may be in a Scratch
COMING = 10.0  # s: long enough to put a lock into a new folder
IN_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux has a file system in memory


class Scratch:
    """A temporary folder of this process.  A file in it stays locked until the process ends, in whatever way, so that
    other commands see whether the folder is in use."""

    def __init__(self, parent: Path | None = None) -> None:
        """Makes the folder in `parent`, by default where the system keeps temporary files, and locks it.  Raises
        OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        draft = self.path / f"{LOCK}.new"
        try:
            self.file = draft.open("wb")
        except OSError:
            self.path.rmdir()  # opens no file, because too many may be open
            raise
        if _lock(self.file.fileno()):  # only a locked file gets the name that other commands look for
            draft.rename(self.path / LOCK)
        self.at_exit = Finalize(self, _leave, (self.path, self.file), exitpriority=LAST)

    def close(self) -> None:
        """Removes the folder now; if that is interrupted, at the end of the process."""
        _leave(self.path, self.file)
        self.at_exit.cancel()


def _leave(folder: Path, file: BinaryIO) -> None:
    remove(folder)
    file.close()


def clear() -> None:
    """Removes the temporary folders of this user whose processes have ended."""
    try:
        parents = {Path(tempfile.gettempdir()), IN_MEMORY}
    except OSError:  # no writable folder: a caller that needs one reports it
        parents = {IN_MEMORY}
    for parent in parents:
        for folder in abandoned(parent):
            remove(folder)


def remove(folder: Path) -> None:
    """Removes a temporary folder.  Files that cannot be removed stay."""
    _empty(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Removes all from the folder but its lock.  The lock goes last, so that if the process is killed meanwhile, the
    next command finds the folder."""
    try:
        found = [path for path in folder.iterdir() if path.name != LOCK]
    except OSError:  # the folder is gone, or not readable
        return
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def abandoned(parent: Path) -> Iterator[Path]:
    """Yields this user's temporary folders in `parent` whose processes have ended."""
    for folder in parent.glob(f"{PREFIX}*"):
        if _own(folder) and not _lives(folder):
            yield folder


def in_use(parent: Path) -> bool:
    """Returns true if a running process has a temporary folder in `parent`."""
    return any(map(_held, parent.glob(f"{PREFIX}*/{LOCK}")))


def in_memory() -> Scratch | None:
    """Returns a new temporary folder in memory; None if this machine has no place for it."""
    try:
        return Scratch(IN_MEMORY) if IN_MEMORY.is_dir() else None
    except OSError:
        return None


def _own(folder: Path) -> bool:
    """Returns true for a folder that belongs to this user and is not a link."""
    try:
        found = folder.lstat()
    except OSError:  # the folder has just been removed
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _lives(folder: Path) -> bool:
    """Returns false if the process of this temporary folder has certainly ended."""
    lock = folder / LOCK
    return _held(lock) if lock.exists() else _may_come(folder)


def _may_come(folder: Path) -> bool:
    """Returns true if a process may be about to put its lock into this folder, or has put one there that cannot be
    locked.  Otherwise the process was killed while it created or removed the folder."""
    try:
        return any(folder.iterdir()) or time.time() - folder.stat().st_mtime < COMING
    except OSError:
        return True


def _held(lock: Path) -> bool:
    """Returns false if the process that locked this file has certainly ended."""
    try:
        with lock.open("rb") as file:
            return not _lock(file.fileno())
    except OSError:
        return True


def _lock(file: int) -> bool:
    """Locks an open file and returns true; false if another process has locked it, or if its file system has no
    locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
