"""A log that only grows: one line for each row, with a checksum, so that a damaged line is skipped and no other."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack

from emulator.record.writing import replacing

CHECKSUM = 16  # hex digits


class Log:
    """Rows of plain values in a file to which several processes may append.  Raises OSError as files do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":  # its last writer was killed there
            os.write(self._file, b"\n")

    def append(self, row: list[Any]) -> None:
        """Hands the row to the operating system, whole: it outlives this process."""
        text = base64.b64encode(zlib.compress(msgpack.packb(row), 1))
        line = memoryview(_checksum(text) + b" " + text + b"\n")
        while line:
            line = line[os.write(self._file, line) :]

    def rows(self) -> Iterator[list[Any]]:
        """The rows that are whole."""
        for row, _ in self._lines():
            yield row

    def _lines(self) -> Iterator[tuple[list[Any], bytes]]:
        with self.path.open("rb") as file:
            for line in file:
                if (row := _row(line)) is not None:
                    yield row, line

    def shorten(self, wanted: Callable[[list[Any]], bool]) -> None:
        """Leaves these rows only.  Nobody else may have the file open."""
        with replacing(self.path) as file:
            file.writelines(line for row, line in self._lines() if wanted(row))
        self.close()
        self._open()

    def flush(self) -> None:
        """Returns when what was appended is on the disk."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def _row(line: bytes) -> list[Any] | None:
    """None for a line that is damaged."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != _checksum(text):
        return None
    try:
        row: list[Any] = msgpack.unpackb(zlib.decompress(base64.b64decode(text, validate=True)))
    except (ValueError, binascii.Error, zlib.error):
        return None
    return row


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:CHECKSUM].encode()
