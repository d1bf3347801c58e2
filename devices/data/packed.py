"""Files of published data sets, packed or not: found in the usual folders, and identified by their md5."""

from __future__ import annotations

import hashlib
import lzma
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\0"  # first bytes: RFC 1952; "The .xz File Format" 1.2.1
MEMORY = 1 << 27  # bytes that xz may use in addition to its output; its strongest preset needs half of it


def unpacked(path: Path, limit: int) -> bytes:
    """Returns the content of a file, unpacked if the content (not the name) shows that it is gzip or xz.

    Raises ValueError, naming the file and the reason, for more than `limit` bytes (packed or not) and for a gzip or xz
    that is damaged, cut, or followed by other bytes.
    """
    if path.stat().st_size > limit:
        raise ValueError(f"{path}: {path.stat().st_size} bytes; at most {limit} are read")
    content = path.read_bytes()
    if content.startswith(GZIP):
        return _out_of("gzip", zlib.decompressobj(wbits=31), content, path, limit)  # 31: with header and checksum
    if content.startswith(XZ):
        return _out_of("xz", lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY), content, path, limit)
    return content


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _out_of(kind: str, unpacker: _Unpacker, content: bytes, path: Path, limit: int) -> bytes:
    try:
        whole = unpacker.decompress(content, limit + 1)
    except (zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: damaged {kind} ({error})") from error
    if len(whole) > limit:
        raise ValueError(f"{path}: unpacks to more than {limit} bytes, the most that is read")
    if not unpacker.eof:
        raise ValueError(f"{path}: truncated {kind}; its end is missing")
    if unpacker.unused_data:
        raise ValueError(f"{path}: {len(unpacker.unused_data)} trailing bytes after the {kind}")
    return whole


def check_md5(content: bytes, expected: str, path: Path, whose: str) -> None:
    """Raises ValueError unless `content`, read from `path`, has the md5 `expected`; `whose` names the data set in the
    error."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(f"{path}: md5 {found}; {whose}'s is {expected}: the file is damaged or another one")


def find(root: Path, places: Sequence[str], names: Sequence[str], packing: str) -> list[Path] | None:
    """Returns the files called `names`, with or without the ending `packing`, from the first of the `places` (folders
    below `root`) that has all of them; None if no place has all."""
    for place in places:
        # packed first: an interrupted download may leave half an unpacked file next to a complete packed one
        found = [
            next((p for p in (root / place / f"{name}{packing}", root / place / name) if p.is_file()), None)
            for name in names
        ]
        files = [path for path in found if path is not None]
        if len(files) == len(names):
            return files
    return None


def located(
    root: Path,
    places: Sequence[str],
    names: Sequence[str],
    packing: str,
    what: str,
    fetch: Callable[[], object] | None = None,
    fetched: bool = False,
) -> list[Path]:
    """Returns the files that `find` finds.  If it finds none and `fetch` is given, calls `fetch` to download them
    first.

    `fetched`: the error for missing files mentions that the program can download them. Raises FileNotFoundError if
    files are missing, ValueError if the download fails.
    """
    files = find(root, places, names, packing)
    if files is None and fetch is not None:
        try:
            fetch()
        except (OSError, RuntimeError) as error:
            raise ValueError(
                f"{what} could not be downloaded into {root} ({error}); put them there yourself"
            ) from error
        files = find(root, places, names, packing)
    if files is None:
        raise absent(what, root, places, fetched)
    return files


def absent(what: str, root: Path, places: Sequence[str], fetched: bool = True) -> FileNotFoundError:
    """Returns the error for files, called `what`, that are in none of the places; with `fetched`, it says that the
    program can download them."""
    return FileNotFoundError(
        f"{what} are in none of {', '.join(str(root / place) for place in places)};"
        " set data.root or $FEDLAPSE_DATA to where they are"
        + (", or data.download: true to fetch them" if fetched else "; they cannot be fetched for you")
    )


def normalised(x: NDArray[np.float32], mean: Any, deviation: Any) -> NDArray[np.float32]:
    """Returns `x`, pixels from 0 to 255, changed in place to (x / 255 - mean) / deviation."""
    x /= 255
    x -= mean
    x /= deviation
    return x
