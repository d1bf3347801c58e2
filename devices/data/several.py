"""Several inputs of a network in one array, so that all that handles examples handles one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXACT = 2**24  # whole numbers up to it are float32 numbers

Inputs = tuple[tuple[str, tuple[int, ...], str], ...]  # name, shape and dtype of each; () for a single input


def packed(parts: Mapping[str, Any] | Sequence[Any]) -> tuple[NDArray[np.float32], Inputs]:
    """Returns the inputs as one array, float32 (n, numbers), and the name, shape and dtype of each; those of a tuple
    have no names.

    Raises ValueError for inputs of other dtypes or lengths, and for whole numbers beyond 2^24, which float32 lacks.
    """
    named = parts.items() if isinstance(parts, Mapping) else [("", each) for each in parts]
    rows: list[NDArray[np.float32]] = []
    inputs: list[tuple[str, tuple[int, ...], str]] = []
    for name, each in named:
        values = of_tensor(each) if hasattr(each, "detach") else np.asarray(each)
        what = f"input {name or len(inputs)}"
        if values.dtype.kind not in "biuf" or not values.ndim:
            raise ValueError(f"{what} is {values.dtype} of shape {values.shape}; it must be numbers, (n, ...)")
        whole = values.dtype.kind in "biu"
        if whole and values.size and max(abs(int(values.max())), abs(int(values.min()))) > EXACT:
            raise ValueError(f"{what} has whole numbers beyond {EXACT}; with several inputs they must be smaller")
        inputs.append((name, values.shape[1:], "int64" if whole else "float32"))
        rows.append(values.reshape(len(values), -1).astype(np.float32))
    if len({len(each) for each in rows}) != 1:
        raise ValueError(f"the inputs have {', '.join(str(len(each)) for each in rows)} rows; they must be as many")
    return np.concatenate(rows, axis=1), tuple(inputs)


def of_tensor(values: Any) -> NDArray[Any]:
    """Returns a tensor of torch, which this module does not import, as an array.  NumPy has no bfloat16, so such values
    become float32, which holds them exactly."""
    values = values.detach().cpu()
    found: NDArray[Any] = (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    return found
