"""MNIST with its writers, as QMNIST publishes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from devices.data import idx, tv
from devices.data.dataset import Dataset
from devices.data.packed import located
from devices.owners import tenths

PLACES = ("", "qmnist", "QMNIST/raw")
# md5 of the .gz (torchvision's list) and of its content (computed from files with the published md5)
SUMS = {
    "train": ("0058f8dd561b90ffdd0f734c6a30e5e4", "1d43300e7f41ddcbf7fd006cbe865af9"),
    "test": ("5b5b05890a5e13444e108efe57b788aa", "5e00709fb0090091f3afc51d204ad83c"),
}
SERIES, WRITER = 1, 2  # columns of a label file: NIST's series of forms, the writer's number
# NIST Special Database 19: field staff of the Census Bureau filled in series 0 to 3, high-school students 4
DOMAINS = {0: "census", 1: "census", 2: "census", 3: "census", 4: "student"}
MOST_WRITERS = 10_000  # their numbers end at 2,599


def qmnist(root: Path, download: bool = False, strangers: bool = False) -> Dataset:
    """Returns MNIST's training images with their 539 writers as owners: 289 such as "census-0012", 250 such as
    "student-2154".

    No writer of MNIST's training images wrote test images.  So the 60,000 training images are split 9:1 for each writer
    (`tenths`) into training and test examples.  With `strangers` the test set is MNIST's own: 10,000 images by 297
    other writers, who are owners too but have no training examples.  Images are found and scaled as by `idx.mnist`; the
    label files are in `root`, `root`/qmnist or `root`/QMNIST/raw.  Raises as `idx.mnist` does. Source: Yadav & Bottou
    2019 (arXiv 1905.10498); docs/design/algorithms.md §12.
    """
    images = idx.mnist(root, download)
    writers = _writers(root, "train", download)
    if strangers:
        # QMNIST's README: its first 10,000 test rows are MNIST's test images in order
        writers = np.concatenate([writers, _writers(root, "test", download)[: len(images.y_test)]])
    codes, owner = np.unique(writers, return_inverse=True)
    names = tuple(_name(int(code)) for code in codes)
    owner = owner.astype(np.int64)
    if strangers:
        n = len(images.y)
        arrays = (images.x, images.y, images.x_test, images.y_test)
        return Dataset("qmnist", *arrays, images.classes, names, owner[:n], owner[n:])
    train, test = tenths(owner)
    arrays = (images.x[train], images.y[train], images.x[test], images.y[test])
    return Dataset("qmnist", *arrays, images.classes, names, owner[train], owner[test])


def _writers(root: Path, part: str, download: bool) -> NDArray[np.int64]:
    """Returns the writer of each row of QMNIST's label file for `part`, as one number: series * MOST_WRITERS + the
    writer's number in that series of forms."""
    name = f"qmnist-{part}-labels-idx2-int"

    def fetch() -> None:
        tv.datasets().QMNIST(root, what=part, download=True)

    what = f"QMNIST's labels ({name})"
    [file] = located(root, PLACES, [name], ".gz", what, fetch if download else None, fetched=True)
    rows = idx.checked(file, SUMS[part], "QMNIST").astype(np.int64)  # (60000, 8)
    return rows[:, SERIES] * MOST_WRITERS + rows[:, WRITER]


def _name(code: int) -> str:
    series, writer = divmod(code, MOST_WRITERS)
    return f"{DOMAINS.get(series, f'series{series}')}-{writer:04d}"
