"""Temporary folders, on disk and in memory.  One that a killed process has left is removed when the next command
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
LAST = -1000  # of what is done as this process ends: after multiprocessing has removed its folder, which may lie here
COMING = 10.0  # s: long enough to put a lock into a new folder
IN_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux has a file system in memory


class Scratch:
    """A folder of this process.  It holds a file that the process keeps locked until it ends, in whatever way."""

    def __init__(self, parent: Path | None = None) -> None:
        """Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        draft = self.path / f"{LOCK}.new"
        try:
            self.file = draft.open("wb")
        except OSError:
            self.path.rmdir()  # which opens no file, of which there may be too many
            raise
        if _lock(self.file.fileno()):  # only a locked file gets the name by which others find it
            draft.rename(self.path / LOCK)
        self.at_exit = Finalize(self, _leave, (self.path, self.file), exitpriority=LAST)

    def close(self) -> None:
        """Removes it.  If that is broken off, it is done at the process's end."""
        _leave(self.path, self.file)
        self.at_exit.cancel()


def _leave(folder: Path, file: BinaryIO) -> None:
    remove(folder)
    file.close()


def clear() -> None:
    """Removes this user's folders whose processes are gone."""
    try:
        parents = {Path(tempfile.gettempdir()), IN_MEMORY}
    except OSError:  # there is none that can be written to: whoever needs one says so
        parents = {IN_MEMORY}
    for parent in parents:
        for folder in abandoned(parent):
            remove(folder)


def remove(folder: Path) -> None:
    """Removes such a folder.  What cannot be removed stays."""
    _empty(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Leaves the lock, which goes last: whoever is killed meanwhile leaves a folder that the next command finds."""
    try:
        found = [path for path in folder.iterdir() if path.name != LOCK]
    except OSError:  # it is gone, or nobody may look into it
        return
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def abandoned(parent: Path) -> Iterator[Path]:
    """This user's folders in there whose processes are gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        if _own(folder) and not _lives(folder):
            yield folder


def in_use(parent: Path) -> bool:
    """Returns True if a living process has a folder in there."""
    return any(map(_held, parent.glob(f"{PREFIX}*/{LOCK}")))


def in_memory() -> Scratch | None:
    """A folder in memory, if this machine has a place for it."""
    try:
        return Scratch(IN_MEMORY) if IN_MEMORY.is_dir() else None
    except OSError:
        return None


def _own(folder: Path) -> bool:
    """Returns True for a folder of this user, and not for a link to one."""
    try:
        found = folder.lstat()
    except OSError:  # it has just been removed
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _lives(folder: Path) -> bool:
    """Returns False if the folder's process is known to have ended."""
    lock = folder / LOCK
    return _held(lock) if lock.exists() else _may_come(folder)


def _may_come(folder: Path) -> bool:
    """Returns True if a process may be about to put its lock into this folder, or has put there one that nobody can
    lock.  Else it was killed as the folder came, or went."""
    try:
        return any(folder.iterdir()) or time.time() - folder.stat().st_mtime < COMING
    except OSError:
        return True


def _held(lock: Path) -> bool:
    """Returns False if the lock's process is known to have ended."""
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
