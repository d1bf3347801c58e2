"""Messages of one form, encoded all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from network.wire import payload
from network.wire.form import unpacked
from network.wire.payload import DTYPES, Message, Shapes


def encoded(messages: Sequence[Message], shapes: Shapes) -> ndarray | None:
    """What payload.encode makes of each: (messages, bytes) uint8.  None if one has another form, or a value that is not
    finite."""
    if any(payload.manifest(message) != shapes for message in messages):
        return None
    first = memoryview(payload.encode(messages[0]))
    rows = np.tile(np.frombuffer(first, np.uint8), (len(messages), 1))  # names and shapes are the same in all
    for kind, entries in unpacked(first).items():
        for name, entry in entries.items():
            begin = _address(entry["data"]) - _address(first)
            end = begin + len(entry["data"])
            stack = np.stack([message[kind][name] for message in messages], dtype=DTYPES[entry["dtype"]])
            values = np.ascontiguousarray(stack)  # as the messages are, whatever the order of their arrays in memory
            if values.dtype.kind == "f" and not payload.finite(values):
                return None
            rows[:, begin:end] = values.view(np.uint8).reshape(len(rows), end - begin)
    return rows


def _address(data: memoryview) -> int:
    """Where the bytes begin in this process's memory."""
    found: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return found
