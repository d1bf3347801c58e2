"""Where the tensors of a message lie.  Messages of one form have the same bytes around them: one is parsed for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from network.wire.form import Buffer

Entry = dict[str, Any]  # data, dtype, shape
Tree = dict[str, dict[str, Entry]]  # kind -> name -> its entry
Place = tuple[str, Entry, int, int]  # a tensor's name, its dtype and shape, and from where to where its data lie


class Layout:
    """That of one message, once it has been parsed."""

    def __init__(self, data: memoryview, tree: Tree) -> None:
        start, at = address(data), 0
        self.nbytes = len(data)
        self.around: list[tuple[int, int, bytes]] = []  # what lies before, between and after them: from, to, the bytes
        self.kinds: list[tuple[str, list[Place]]] = []
        for kind, entries in tree.items():
            self.kinds.append((kind, []))
            for name, entry in entries.items():
                begin = address(entry["data"]) - start
                self.around.append((at, begin, bytes(data[at:begin])))
                at = begin + len(entry["data"])
                about = {key: value for key, value in entry.items() if key != "data"}  # which would keep the message
                self.kinds[-1][1].append((name, about, begin, at))
        self.around.append((at, self.nbytes, bytes(data[at:])))

    def tree(self, data: memoryview) -> Tree | None:
        """What parsing this message would give; None if it has another layout."""
        if len(data) != self.nbytes:
            return None
        for begin, end, these in self.around:
            if data[begin:end] != these:
                return None
        return {
            kind: {name: {**about, "data": data[begin:end]} for name, about, begin, end in places}
            for kind, places in self.kinds
        }


def address(data: Buffer) -> int:
    """Where its bytes begin in this process's memory."""
    found: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return found
