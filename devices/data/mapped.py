"""Arrays in a file: another process maps the same bytes without a copy."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mapped:
    """The place of an array in a file: in C order, without gaps."""

    file: Path
    offset: int  # bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Mapped | None:
        """Returns the place of a mapped array, or of a part of one; None if its values are not in a file.

        A map of mode `c` does not count, because writing to it changes only this process's copy.
        """
        root: Any = array
        while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
            root = root.base
        if not isinstance(root, np.memmap) or root.mode == "c" or not array.flags.c_contiguous or not array.size:
            return None
        if root.filename is None or not Path(root.filename).is_file():
            return None
        offset = root.offset + array.ctypes.data - root.ctypes.data
        return cls(Path(root.filename), offset, array.shape, array.dtype)

    def array(self, mode: Literal["r", "c"]) -> NDArray[Any]:
        """Returns the array, mapped again in this mode of numpy's."""
        return np.memmap(self.file, self.dtype, mode, self.offset, self.shape)
