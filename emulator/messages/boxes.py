"""Messages in the object store of Ray, which brings each to the nodes that ask for it, and keeps it there once.

What the jobs of a batch have put comes back as one box, {digest: bytes}.  The command owns it, so that it outlives the
worker, and keeps it as long as somebody holds a Ref to one of its messages.  Nothing here imports Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from emulator.messages.files import Draft, Files, written
from emulator.messages.store import NO_TENSORS, NOTHING, Ref
from network.wire.form import Buffer

Box = Mapping[str, ndarray]  # digest -> bytes: Ray lends arrays to all processes of a node without a copy
Object = Any  # Ray's reference to a Box


@dataclass(frozen=True)
class Lent:
    """A box; `box` is None if its bytes are not on this node."""

    object: Object
    box: Box | None = None


@dataclass(frozen=True)
class Put:
    """A message that a job has put into the store.  It is in the box, unless its bytes were there already."""

    ref: Ref
    lent: Lent


class Boxes(Files):
    """The store as the command sees it.  Its folders have what it puts itself, and what a ledger has and keeps."""

    def __init__(self, folders: Sequence[Path], lend: Callable[[Box], Object], borrow: Callable[[Object], Box]) -> None:
        """`lend` and `borrow` are Ray's put and get."""
        super().__init__(folders)
        self.lend, self.borrow = lend, borrow
        self._lent: dict[str, Lent] = {}  # by digest

    def take(self, draft: Draft | Put) -> Ref:
        if isinstance(draft, Draft):
            return super().take(draft)
        self.hold(draft.ref, lambda: self._lent.setdefault(draft.ref.digest, draft.lent))
        return draft.ref

    def objects(self, wanted: Iterable[Ref]) -> list[Object]:
        """The boxes with these messages, each once.  Raises KeyError if a message is nowhere."""
        return list(dict.fromkeys(self._object(ref) for ref in wanted if ref.digest != NOTHING.digest))

    def _object(self, ref: Ref) -> Object:
        if ref.digest not in self._lent:
            box = {ref.digest: np.frombuffer(super().get(ref), np.uint8)}
            self._lent[ref.digest] = Lent(self.lend(box))
        return self._lent[ref.digest].object

    def get(self, ref: Ref) -> memoryview:
        lent = self._lent.get(ref.digest)
        if lent is None:
            return super().get(ref)
        return (lent.box or self.borrow(lent.object))[ref.digest].data

    def has(self, ref: Ref) -> bool:
        return ref.digest in self._lent or super().has(ref)

    def write_down(self, ref: Ref) -> None:
        self.hold(ref)  # nobody frees it meanwhile
        if ref.digest in self._lent and not super().has(ref):
            self.take(Draft(ref, written(self.folders, [self.get(ref)])))

    def free(self, digest: str) -> None:
        self._lent.pop(digest, None)
        super().free(digest)

    def give_back(self, keep: bool) -> None:
        """Lets go of what Ray has lent, before Ray ends.  `keep`: a ledger may want it, and finds it in files."""
        with suppress(OSError):  # it is computed again
            for digest in list(self._lent) if keep else ():
                self.write_down(Ref(digest, 0))
        self._lent.clear()


class Shelf:
    """The store as the jobs of one batch in a worker see it."""

    def __init__(self, boxes: Iterable[Box]) -> None:
        self.given = {digest: array for box in boxes for digest, array in box.items()}
        self.made: dict[str, ndarray] = {}
        self.put_now: list[Ref] = []  # by the job that runs

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        ref = Ref.of(*pieces, digest=digest)
        if ref.digest == NOTHING.digest:
            return ref
        if ref.digest not in self.given:
            self.made.setdefault(ref.digest, np.frombuffer(b"".join(pieces), np.uint8))
        self.put_now.append(ref)
        return ref

    def get(self, ref: Ref) -> memoryview:
        if ref.digest == NOTHING.digest:
            return memoryview(NO_TENSORS)
        return self.given[ref.digest].data
