"""The form of a round's uploads: names, types and shapes of their tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from network.wire import payload
from network.wire.payload import DTYPES, Shapes


@dataclass(frozen=True)
class UploadForm:
    """The names, dtypes and shapes of one round's uploads, the same for all devices.  The algorithm is asked for them
    on first access."""

    ask: Callable[[], Shapes]
    tell: Callable[[], Mapping[str, np.ndarray]] = dict

    @cached_property
    def shapes(self) -> Shapes:
        """Dtype and shape of each tensor, by kind and name."""
        return self.ask()

    @cached_property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Tensors that may hold non-finite values; see Lab.constants."""
        return self.tell()

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of an upload without encodings, per kind and "frame"."""
        blank = {
            kind: {name: np.empty(shape, DTYPES[dtype]) for name, (dtype, shape) in shapes.items()}
            for kind, shapes in self.shapes.items()
        }
        return payload.encoded(blank).sizes

    @property
    def nbytes(self) -> int:
        """The bytes of an upload without encodings."""
        return sum(self.sizes.values())

    def values_of(self, kind: str) -> int:
        """Returns the bytes that the decoded tensors of this kind take together."""
        return sum(math.prod(shape) * DTYPES[dtype].itemsize for dtype, shape in self.shapes[kind].values())
