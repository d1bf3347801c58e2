"""Messages of one form, encoded all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from network.wire import payload
from network.wire.layout import address
from network.wire.payload import DTYPES, Message, Shapes


def encoded(messages: Sequence[Message], shapes: Shapes) -> ndarray | None:
    """What payload.encode makes of each: (messages, bytes) uint8.  None if one has another form, or a value that is not
    finite."""
    if any(payload.manifest(message) != shapes for message in messages):
        return None
    first = payload.encode(messages[0])
    rows = np.tile(np.frombuffer(first, np.uint8), (len(messages), 1))  # names and shapes are the same in all
    for kind, entries in payload.trusted(first).tree.items():
        for name, entry in entries.items():
            stack = np.stack([message[kind][name] for message in messages], dtype=DTYPES[entry["dtype"]])
            values = np.ascontiguousarray(stack)  # as the messages are, whatever the order of their arrays in memory
            if values.dtype.kind == "f" and not payload.finite(values):
                return None
            begin, nbytes = address(entry["data"]) - address(first), len(entry["data"])
            rows[:, begin : begin + nbytes] = values.view(np.uint8).reshape(len(rows), nbytes)
    return rows
