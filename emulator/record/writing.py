"""Says in plain words why a file could not be written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE)  # for bytes, or for open files
NO_FOLDER = "it is a file, or lies in one; give a folder"
PLAIN = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many open files; raise `ulimit -n`",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: NO_FOLDER,
    errno.ENOTDIR: NO_FOLDER,
}


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Puts this file's name into an OSError raised inside: where the disk is full, the system gives none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def why(error: OSError) -> str:
    """What was wrong, in words and without the system's error number."""
    return PLAIN.get(error.errno or 0) or (error.strerror or str(error)).lower()


def told(error: OSError) -> str:
    """The same, with the name of the file."""
    return f"{error.filename}: {why(error)}" if error.filename is not None else why(error)
