"""Replaces files completely or not at all, and explains in plain English why a file could not be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE)  # no room for bytes, or open files
PARTIAL = ".partial"  # suffix of a file that is being written
NO_FOLDER = "it is a file, or lies in one; give a folder"
PLAIN = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many open files; raise `ulimit -n`",
    errno.ENOMEM: "not enough memory can be had; raise `ulimit -v`",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: NO_FOLDER,
    errno.ENOTDIR: NO_FOLDER,
}


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Adds the name of this file to an OSError that is raised inside the context: on a full disk the system gives no
    name."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yields a file to write to.  It replaces `path` once all of it is on the disk; after an error `path` is unchanged.

    Raises OSError, with the name of `path`.
    """
    draft = path.with_name(path.name + PARTIAL)
    with named(path), draft.open("wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power cut may leave an empty file with this name
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def replace_file(path: Path, data: str | bytes | memoryview) -> None:
    """Replaces a file completely or not at all; writes text as UTF-8.  Raises OSError, with the file's name."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def why(error: OSError) -> str:
    """Returns the error in words, without the system's error number."""
    return PLAIN.get(error.errno or 0) or (error.strerror or str(error)).lower()


def told(error: OSError) -> str:
    """Returns the error in words, with the name of the file."""
    return f"{error.filename}: {why(error)}" if error.filename is not None else why(error)
