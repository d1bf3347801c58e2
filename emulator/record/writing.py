"""Files that are written whole or not at all, and in plain words why one could not be."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PLAIN = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: "it is there already",
    errno.ENOTDIR: "it is a file, or lies in one; give a folder",
}


@contextmanager
def named(path: Path) -> Iterator[None]:
    """An OSError in here is about this file: where the disk is full, the system itself does not say so."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def why(error: OSError) -> str:
    """What the system says is wrong, without its number."""
    return PLAIN.get(error.errno or 0) or (error.strerror or str(error)).lower()


def told(error: OSError) -> str:
    """The same, and of which file."""
    return f"{error.filename}: {why(error)}" if error.filename is not None else why(error)
