"""IDX files, and MNIST which is kept in them."""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from devices.data import tv
from devices.data.dataset import Dataset

LIMIT = 1 << 28  # bytes; six times MNIST's largest file, so that no small file can unpack into all memory

# md5 of the .gz (torchvision's list) and of what it holds (computed from files that have the former)
MNIST = {
    "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}
PLACES = ("", "MNIST/raw", "mnist/MNIST/raw")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes, gzipped or not (the content tells, not the name).

    Raises ValueError, naming the file and the reason, for anything but one whole array of at most `LIMIT`
    bytes.
    Source: "The IDX file format" (Y. LeCun, C. Cortes, C. Burges, the MNIST page).
    """
    if path.stat().st_size > LIMIT:
        raise ValueError(f"{path}: {path.stat().st_size} bytes; an IDX file here has at most {LIMIT}")
    return _array(_unpacked(path.read_bytes(), path), path)


def _unpacked(content: bytes, path: Path) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    gzip = zlib.decompressobj(wbits=31)  # 31: with gzip's header and checksum
    try:
        unpacked = gzip.decompress(content, LIMIT + 1)
    except zlib.error as error:
        raise ValueError(f"{path}: damaged gzip ({error})") from error
    if len(unpacked) > LIMIT:
        raise ValueError(f"{path}: unpacks to more than {LIMIT} bytes; that is no data set of ours")
    if not gzip.eof:
        raise ValueError(f"{path}: truncated gzip; its end is missing")
    if gzip.unused_data:
        raise ValueError(f"{path}: {len(gzip.unused_data)} trailing bytes after the gzip")
    return unpacked


def _array(content: bytes, path: Path) -> NDArray[np.uint8]:
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(f"{path}: wrong magic {content[:4].hex()!r}; an IDX file starts with 0000, type, dimensions")
    kind, dimensions = content[2], content[3]
    if kind != 0x08 or not 1 <= dimensions <= 4:
        raise ValueError(f"{path}: type 0x{kind:02x} in {dimensions} dimensions; only bytes (0x08) in 1 to 4 are read")
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise ValueError(f"{path}: truncated; {len(content)} bytes are less than the header's {header}")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    size = math.prod(shape)
    if size > LIMIT:
        raise ValueError(f"{path}: absurd size {shape}; at most {LIMIT} bytes are read")
    if len(content) != header + size:
        problem = "truncated" if len(content) < header + size else "trailing bytes"
        raise ValueError(f"{path}: {problem}; {shape} needs {header + size} bytes and there are {len(content)}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()  # a view could not be written


def mnist(root: Path, download: bool = False) -> Dataset:
    """MNIST: 60,000 digits of 28 x 28 pixels to train on, 10,000 to test; x = (v/255 - 0.1307)/0.3081.

    The four files, gzipped or not, are read where they lie: in `root`, `root`/MNIST/raw or
    `root`/mnist/MNIST/raw; nothing is written there.  With `download`, missing files are fetched by
    torchvision into `root`.  Raises FileNotFoundError if they are not there, ValueError if a file's md5 is
    not MNIST's or the download fails.
    Source: Y. LeCun, C. Cortes, C. Burges; mean and deviation as in PyTorch's MNIST example.
    """
    files = _find(root)
    if files is None and download:
        _download(root)
        files = _find(root)
    if files is None:
        raise FileNotFoundError(
            f"the four MNIST files are in none of {', '.join(str(root / place) for place in PLACES)};"
            " set data.root or $FEDLAPSE_DATA to where they are, or data.download: true to fetch them"
        )
    x, y, x_test, y_test = (_checked(path, name) for path, name in zip(files, MNIST, strict=True))
    return Dataset("mnist", _normal(x), y.astype(np.int64), _normal(x_test), y_test.astype(np.int64), classes=10)


def _find(root: Path) -> list[Path] | None:
    """The four files in MNIST's order, all from the first place that has all four."""
    for place in PLACES:
        # .gz first: a download that was cut off may leave half an unpacked file beside a whole .gz
        found = [
            next((p for p in (root / place / f"{name}.gz", root / place / name) if p.is_file()), None) for name in MNIST
        ]
        files = [path for path in found if path is not None]
        if len(files) == len(MNIST):
            return files
    return None


def _download(root: Path) -> None:
    try:
        tv.datasets().MNIST(root, download=True)
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"MNIST could not be downloaded into {root} ({error}); put its four files there yourself"
        ) from error


def _checked(path: Path, name: str) -> NDArray[np.uint8]:
    expected = MNIST[name][0 if path.suffix == ".gz" else 1]
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(f"{path}: md5 {found}; MNIST's is {expected}: the file is damaged or another one")
    return read_idx(path)


def _normal(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    x = pixels.astype(np.float32)[:, None]  # (n, 1, 28, 28)
    x /= 255
    x -= 0.1307
    x /= 0.3081
    return x
