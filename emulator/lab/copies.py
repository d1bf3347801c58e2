"""Messages that are decoded again and again, as a round's download is by each of its devices.

They are decoded once.  Each reader gets a copy of its own, of which the kernel copies a page when somebody writes to
it: 0.04 ms for 6.6 MB, where decoding takes 0.5 to 1.3 ms.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from network.wire import payload
from network.wire.form import SMALL, Buffer
from network.wire.payload import ALIGNMENT, Message

POSSIBLE = hasattr(os, "memfd_create")  # on Linux


class Copies:
    """Copies of a message's arrays, writable and apart from each other."""

    def __init__(self, message: Message) -> None:
        self.kinds = list(message)
        self.places = [
            (kind, name, array.dtype, array.shape) for kind, arrays in message.items() for name, array in arrays.items()
        ]
        self.nbytes = sum(_room(dtype, shape) for _, _, dtype, shape in self.places)
        self.file = os.memfd_create("fedlapse-message")
        weakref.finalize(self, os.close, self.file)
        os.truncate(self.file, self.nbytes)
        for kind, arrays in self._in(mmap.mmap(self.file, self.nbytes)).items():
            for name, array in arrays.items():
                array[...] = message[kind][name]

    def one(self) -> Message:
        """A new copy."""
        return self._in(mmap.mmap(self.file, self.nbytes, access=mmap.ACCESS_COPY))

    def _in(self, memory: mmap.mmap) -> Message:
        found: Message = {kind: {} for kind in self.kinds}
        start = 0
        for kind, name, dtype, shape in self.places:
            found[kind][name] = np.frombuffer(memory, dtype, prod(shape), start).reshape(shape)
            start += _room(dtype, shape)
        return found


def _room(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT


class Decoder:
    """Decodes messages that this program has written, and knows the last one again."""

    def __init__(self) -> None:
        self.last: Callable[[], memoryview | None] = lambda: None  # a weak reference: the store may free it
        self.copies: Copies | None = None  # of that one, once it has come again

    def __call__(self, data: Buffer) -> Message:
        """The arrays of the message with these bytes, in memory of its own."""
        if not (POSSIBLE and isinstance(data, memoryview) and len(data) > SMALL):
            return payload.trusted(data).arrays()
        if self.last() is not data:
            self.last, self.copies = weakref.ref(data), None
            return payload.trusted(data).arrays()
        if self.copies is None:
            self.copies = Copies(payload.trusted(data).arrays())
        return self.copies.one()
