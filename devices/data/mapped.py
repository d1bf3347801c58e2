"""Arrays that lie in a file: another process maps the same bytes, and nobody copies them."""

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
        """Returns the place of an array, or part of one, that somebody has mapped; None if its values are not in a
        file.

        Those of a map of mode `c` need not be: whoever writes to it changes this process's copy alone.
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
        """Returns the array, mapped anew in this mode of numpy's."""
        return np.memmap(self.file, self.dtype, mode, self.offset, self.shape)
