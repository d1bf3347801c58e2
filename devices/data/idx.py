"""IDX files, and the two data sets published in them: MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data import tv
from devices.data.dataset import Dataset
from devices.data.packed import check_md5, located, normalised, unpacked

LIMIT = 1 << 28  # bytes; six times MNIST's largest file, so that a small file cannot unpack into all memory
NUMBERS: dict[int, np.dtype[Any]] = {0x08: np.dtype(np.uint8), 0x0C: np.dtype(">i4")}  # by the format's type byte


def read_idx(path: Path) -> NDArray[Any]:
    """Returns the array of an IDX file of unsigned bytes or 4-byte integers, gzipped or not; uint8 or int32.

    Raises ValueError, naming the file and the reason, for anything but one whole array of at most `LIMIT`
    bytes.
    Source: "The IDX file format" (Y. LeCun, C. Cortes, C. Burges, the MNIST page).
    """
    content = unpacked(path, LIMIT)
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(f"{path}: wrong magic {content[:4].hex()!r}; an IDX file starts with 0000, type, dimensions")
    kind, dimensions = content[2], content[3]
    if kind not in NUMBERS or not 1 <= dimensions <= 4:
        raise ValueError(
            f"{path}: type 0x{kind:02x} in {dimensions} dimensions; only bytes (0x08) and integers (0x0c) in 1 to 4"
            " are read"
        )
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise ValueError(f"{path}: truncated; {len(content)} bytes are less than the header's {header}")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    size = math.prod(shape) * NUMBERS[kind].itemsize
    if size > LIMIT:
        raise ValueError(f"{path}: absurd size {shape}; at most {LIMIT} bytes are read")
    if len(content) != header + size:
        problem = "truncated" if len(content) < header + size else "trailing bytes"
        raise ValueError(f"{path}: {problem}; {shape} needs {header + size} bytes and there are {len(content)}")
    numbers = np.frombuffer(content, NUMBERS[kind], offset=header).reshape(shape)
    return np.array(numbers, numbers.dtype.newbyteorder("="))  # a copy: a view could not be written


@dataclass(frozen=True)
class PublishedImages:
    """A data set published as four IDX files: training images, training labels, test images and test labels."""

    name: str
    title: str
    torchvision: str  # its class there, to download with
    places: tuple[str, ...]  # below the root
    mean: float  # mean of the training pixels, in 0 ... 1
    deviation: float
    md5: Mapping[str, tuple[str, str]]  # file -> md5 of the .gz (torchvision's list), and of its content


# the md5s of the unpacked files were computed from files with the published ones
MNIST = PublishedImages(
    "mnist",
    "MNIST",
    "MNIST",
    ("", "MNIST/raw", "mnist/MNIST/raw"),
    0.1307,  # mean and deviation as in PyTorch's MNIST example
    0.3081,
    {
        "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    },
)
FASHION = PublishedImages(
    "fashion-mnist",
    "Fashion-MNIST",
    "FashionMNIST",
    ("", "FashionMNIST/raw", "fashion-mnist/FashionMNIST/raw"),
    0.2860,  # mean and deviation computed from the files
    0.3530,
    {
        "train-images-idx3-ubyte": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        "train-labels-idx1-ubyte": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        "t10k-images-idx3-ubyte": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        "t10k-labels-idx1-ubyte": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    },
)


def mnist(root: Path, download: bool = False, examples: int = 60_000) -> Dataset:
    """Returns MNIST: 60,000 digits of 28 x 28 pixels to train on, 10,000 to test; x = (v/255 - 0.1307)/0.3081.

    The four files, gzipped or not, are read from `root`, `root`/MNIST/raw or `root`/mnist/MNIST/raw; nothing is written
    there.  With `download`, missing files are fetched by torchvision into `root`.  Raises FileNotFoundError if files
    are missing, ValueError if a file's md5 is not MNIST's or the download fails.  `examples`: so many of the training
    set's, its first ones.  Source: Y. LeCun, C. Cortes, C. Burges; mean and deviation as in PyTorch's MNIST example.
    """
    if not 1 <= examples <= 60_000:
        raise ValueError(f"examples is {examples}; MNIST has 1 to 60000 to train on")
    whole = _read(MNIST, root, download)
    return whole if examples == len(whole.y) else replace(whole, x=whole.x[:examples], y=whole.y[:examples])


def fashion_mnist(root: Path, download: bool = False) -> Dataset:
    """Returns Fashion-MNIST: 60,000 pieces of clothing of 28 x 28 pixels, and 10,000 to test; x = (v/255 -
    0.2860)/0.3530.

    The files are found as `mnist` finds them, in `root`, `root`/FashionMNIST/raw or
    `root`/fashion-mnist/FashionMNIST/raw. Source: Xiao, Rasul & Vollgraf 2017 (arXiv 1708.07747).
    """
    return _read(FASHION, root, download)


def _read(published: PublishedImages, root: Path, download: bool) -> Dataset:
    names = list(published.md5)

    def fetch() -> None:
        getattr(tv.datasets(), published.torchvision)(root, download=True)

    what = f"the four {published.title} files"
    files = located(root, published.places, names, ".gz", what, fetch if download else None, fetched=True)
    x, y, x_test, y_test = (
        checked(path, published.md5[name], published.title) for path, name in zip(files, names, strict=True)
    )
    images = (each.astype(np.float32)[:, None] for each in (x, x_test))  # (n, 1, 28, 28)
    x, x_test = (normalised(each, published.mean, published.deviation) for each in images)
    return Dataset(published.name, x, y.astype(np.int64), x_test, y_test.astype(np.int64), classes=10)


def checked(path: Path, md5: tuple[str, str], whose: str) -> NDArray[Any]:
    """Returns the array of an IDX file.  Raises ValueError unless the file has the published `md5`: the first one if it
    is a .gz, the second one if it is unpacked; `whose` names the data set in the error."""
    if path.stat().st_size > LIMIT:
        raise ValueError(f"{path}: {path.stat().st_size} bytes; {whose}'s file is smaller")
    check_md5(path.read_bytes(), md5[0 if path.suffix == ".gz" else 1], path, whose)
    return read_idx(path)
