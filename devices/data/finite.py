"""Checks for NaN and infinite values, which spoil the model of each device that trains on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices.data.dataset import Dataset

CHUNK = 1 << 22  # values per check: an array may be mapped, and larger than the memory


def check_finite(data: Dataset) -> None:
    """Raises ValueError, naming the array and the example, if any value of the data set is NaN or infinite."""
    for part in ("x", "x_test", "y", "y_test"):
        values: NDArray[Any] = getattr(data, part)
        found = _not_finite(values)
        if found is not None:
            place = np.argwhere(~np.isfinite(values[found]))[0].tolist()
            value = values[(found, *place)]
            raise ValueError(
                f"{data.name}: {part}[{', '.join(map(str, (found, *place)))}] is {value}, in example {found} of "
                f"{len(values)}; all values must be finite"
            )


def _not_finite(values: NDArray[Any]) -> int | None:
    """Returns the index of the first example with a value that is not finite; None if there is none."""
    if values.dtype.kind != "f":
        return None
    rows = max(1, CHUNK // max(1, values[:1].size))
    for start in range(0, len(values), rows):
        fine = np.isfinite(values[start : start + rows])
        if not fine.all():
            return start + int(np.argmin(fine.reshape(len(fine), -1).all(axis=1)))
    return None
