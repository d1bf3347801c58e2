"""A labelled set of images, split once into training and test examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and their classes, checked when built; two are equal only if they are the same object.

    Raises ValueError for arrays of another type or shape, and for labels outside 0 ... classes - 1.
    """

    name: str
    x: NDArray[np.float32]  # (n, channels, height, width)
    y: NDArray[np.int64]  # (n,)
    x_test: NDArray[np.float32]  # (n_test, channels, height, width)
    y_test: NDArray[np.int64]  # (n_test,)
    classes: int

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ValueError(f"{self.name}: classes is {self.classes}; a data set has at least 1")
        self._check("x", self.x, self.y)
        self._check("x_test", self.x_test, self.y_test)
        if self.x.shape[1:] != self.x_test.shape[1:]:
            raise ValueError(
                f"{self.name}: examples have shape {self.x.shape[1:]} in x and {self.x_test.shape[1:]}"
                " in x_test; they must be alike"
            )

    def _check(self, part: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        if x.dtype != np.float32 or x.ndim != 4:
            raise ValueError(
                f"{self.name}: {part} is {x.dtype} of shape {x.shape}; it must be float32 (n, channels, height, width)"
            )
        if y.dtype != np.int64 or y.shape != x.shape[:1]:
            raise ValueError(
                f"{self.name}: the labels of {part} are {y.dtype} of shape {y.shape}; they must be int64 ({len(x)},)"
            )
        if y.size and not 0 <= y.min() <= y.max() < self.classes:
            raise ValueError(
                f"{self.name}: the labels of {part} run from {y.min()} to {y.max()};"
                f" they must lie in 0 to {self.classes - 1}"
            )
