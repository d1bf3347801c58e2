"""CIFAR-10, which is published as pickles: each file's md5 is checked before it is unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from devices.data import tv
from devices.data.dataset import Dataset
from devices.data.packed import check_md5, located, normalised, unpacked

LIMIT = 1 << 26  # bytes of a batch; twice the real size
PLACES = ("", "cifar-10-batches-py", "cifar10/cifar-10-batches-py")
SHAPE, CLASSES, BATCH = (3, 32, 32), 10, 10_000
BATCHES = 5
TEST = "test_batch"
MD5 = {  # digests of the unpacked files, from torchvision's list
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    TEST: "40351d587109b95175f43aff81a1287e",
}
# of the 50,000 training images in 0 ... 1: red, green, blue; computed from the files
MEAN = np.array([0.49139968, 0.48215841, 0.44653091], np.float32)
DEVIATION = np.array([0.24703223, 0.24348513, 0.26158784], np.float32)


def cifar10(root: Path, download: bool = False, batches: int = BATCHES) -> Dataset:
    """Returns CIFAR-10: 50,000 images of 3 x 32 x 32 to train on, 10,000 to test; each channel normalised by its mean
    and deviation.

    With fewer `batches`, only that many of the five files of 10,000 training images are read.  The files, packed by xz
    or not, are in `root`, `root`/cifar-10-batches-py or `root`/cifar10/cifar-10-batches-py.  With `download`, missing
    files are fetched by torchvision into `root`.  Raises FileNotFoundError if files are missing, ValueError if a file's
    md5 is not CIFAR-10's or the download fails.  Source: Krizhevsky 2009, "Learning Multiple Layers of Features from
    Tiny Images".
    """
    if not 1 <= batches <= BATCHES:
        raise ValueError(f"batches is {batches}; CIFAR-10 has 1 to {BATCHES}")
    names = [*list(MD5)[:batches], TEST]
    what = f"CIFAR-10's {len(names)} files ({names[0]} ... {TEST})"

    def fetch() -> None:
        tv.datasets().CIFAR10(root, train=False, download=True)  # it fetches all, and then reads the test images only

    files = located(root, PLACES, names, ".xz", what, fetch if download else None, fetched=True)
    x = np.empty((batches * BATCH, *SHAPE), np.float32)
    y = np.empty(batches * BATCH, np.int64)
    for k, (path, name) in enumerate(zip(files[:-1], names[:-1], strict=True)):
        rows = slice(k * BATCH, (k + 1) * BATCH)
        x[rows], y[rows] = read_batch(path, MD5[name])
    pixels, y_test = read_batch(files[-1], MD5[TEST])
    x, x_test = (
        normalised(each, MEAN[:, None, None], DEVIATION[:, None, None]) for each in (x, pixels.astype(np.float32))
    )
    return Dataset("cifar10", x, y, x_test, y_test, CLASSES)


def read_batch(path: Path, md5: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns pixels (n, 3, 32, 32) and labels (n,) of one batch, a file whose unpacked content has this `md5`.

    Raises ValueError, naming the file and the reason, for another md5 and for a content that is no batch.
    """
    content = unpacked(path, LIMIT)
    check_md5(content, md5, path, "CIFAR-10")
    try:
        batch = pickle.loads(content, encoding="latin1")  # noqa: S301 - its md5 is right; latin1: numpy's, for Python 2
        pixels, labels = batch["data"], np.array(batch["labels"], np.int64)
        return pixels.reshape(len(labels), *SHAPE), labels
    except (pickle.UnpicklingError, LookupError, TypeError, AttributeError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a batch of CIFAR-10 ({error})") from error
