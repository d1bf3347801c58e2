"""Reader of scikit-learn's small handwritten digits, which need no download."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from devices.data.dataset import Dataset

TRAIN = 1437  # four fifths of the 1,797


def digits() -> Dataset:
    """Returns 1,797 handwritten digits of 8 x 8 pixels in 0 ... 1: 1,437 to train on, 360 to test.

    The split is always the same: examples are taken in the order of the first 1,797 raw numbers of PCG64(0). Source:
    scikit-learn's `load_digits`, the test part of the UCI "Optical Recognition of Handwritten Digits" (Alpaydin &
    Kaynak 1998), whose pixels are counts from 0 to 16.
    """
    table = _table()
    x = (table[:, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8)  # (1797, 1, 8, 8)
    y = table[:, -1].astype(np.int64)
    # raw numbers, because numpy promises (NEP 19) to keep them, but not `permutation`
    order = np.argsort(np.random.PCG64(0).random_raw(len(y)))
    train, test = order[:TRAIN], order[TRAIN:]
    return Dataset("digits", x[train], y[train], x[test], y[test], classes=10)


@cache
def _table() -> np.ndarray:
    """Returns the digits as an array (1797, 65) of 64 pixels and a label each: scikit-learn's file, read without
    importing scikit-learn, which takes some seconds."""
    found = find_spec("sklearn")
    assert found
    assert found.origin
    with gzip.open(Path(found.origin).parent / "datasets/data/digits.csv.gz", "rt", encoding="ascii") as file:
        return np.loadtxt(file, delimiter=",")
