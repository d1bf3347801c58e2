"""Messages by reference: the event loop passes digests and sizes, and only jobs read the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from numpy import ndarray

from network.wire import payload
from network.wire.form import Buffer, Refused
from network.wire.payload import Shapes, View

NO_TENSORS = payload.encode({})
LITTLE = 1 << 18  # bytes of a message in a bundle, at most: it keeps the room of all as long as somebody holds it
OTHERWISE = "gpu"  # how a digest begins that is not that of the bytes (flat.py)


@dataclass(frozen=True)
class Ref:
    """Bytes in a store.  They stay there as long as this process holds a Ref to them that the store has given out."""

    digest: str  # see payload.digest; of uploads that were computed on a GPU see flat.py
    nbytes: int
    # The file of a bundle, and where the message begins there; None: it has a file of its own, or its store has none.
    within: tuple[str, int] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, *pieces: Buffer, digest: str | None = None) -> Ref:
        """That of these bytes, one after the other; with this digest, if it is known, or another than their own."""
        return cls(digest or payload.digest(*pieces), sum(map(len, pieces)))

    @property
    def short(self) -> str:
        """The digest as records have it."""
        return self.digest[:16]


class Store(Protocol):
    """Where the bytes lie, for the process that asks and for all workers.  Every store has NOTHING."""

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        """Keeps these bytes, one after the other; the same bytes are kept once.  `digest`: see Ref.of."""

    def put_rows(self, rows: ndarray) -> list[Ref]:
        """Keeps each row of these bytes as a message, (messages, bytes); a store of files may keep them in one file, a
        bundle."""

    def get(self, ref: Ref) -> memoryview:
        """The bytes, to which nobody may write.  Raises KeyError if they are not here."""


@dataclass(frozen=True)
class Stored:
    """A message in a store.  `fault`: what was found where it was looked through."""

    ref: Ref
    sizes: Mapping[str, int]  # bytes per kind and "frame"; together the message's
    fault: Refused | None = None

    def check(self, form: object) -> None:  # noqa: ARG002  with which it was compared
        """Raises the fault, if there is one."""
        if self.fault:
            raise self.fault


def stored(
    store: Store, view: View, shapes: Shapes | None = None, constants: Mapping[str, ndarray] = payload.EMPTY
) -> Stored:
    """Puts a message that this program has made into the store; with `shapes` it is compared with them and with the
    constants first (payload.check)."""
    fault = None
    if shapes is not None:
        try:
            view.check(shapes, constants)
        except Refused as refused:
            fault = refused
    return Stored(store.put(*view.pieces), view.sizes, fault)


NOTHING = Ref.of(NO_TENSORS)
EMPTY = Stored(NOTHING, payload.trusted(NO_TENSORS).sizes)
