"""Messages by reference: the event loop passes digests and sizes, and only jobs read the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy import ndarray

from emulator.messages.forms import UploadForm
from network.wire import payload
from network.wire.form import Buffer, RefusedMessage
from network.wire.payload import Message, Shapes, View

NO_TENSORS = payload.encode({})
MOST = 1 << 32  # bytes of a stack's uploads below which msgpack can hold each tensor
OTHERWISE = "gpu"  # prefix of a digest that is not the SHA-256 of the bytes (flat.py)


@dataclass(frozen=True)
class Ref:
    """A message in a store: by itself, or as a row of a stack's message (View.row).

    The message stays in the store as long as this process holds a Ref from the store to it, or to the stack's message.
    """

    digest: str  # digest of the message's bytes (payload.digest), also for a row; uploads from a GPU: see flat.py
    nbytes: int
    stack: Ref | None = field(default=None, compare=False, repr=False)  # the message of which this is a row
    row: int = field(default=0, compare=False, repr=False)

    @classmethod
    def of(cls, *pieces: Buffer, digest: str | None = None) -> Ref:
        """Returns the Ref of the concatenated bytes.  `digest`: the Ref's digest, if it is already known, or if it is
        not that of the bytes (flat.py)."""
        return cls(digest or payload.digest(*pieces), sum(map(len, pieces)))

    @property
    def whole(self) -> Ref:
        """The Ref of the stored message: this one, or the stack's."""
        return self.stack or self

    @property
    def short(self) -> str:
        """The first 16 characters of the digest, as records have them."""
        return self.digest[:16]


class Store(Protocol):
    """A store of messages' bytes, for this process and all workers.  Every store has NOTHING, the message without
    tensors."""

    def put(self, *pieces: Buffer, digest: str | None = None) -> Ref:
        """Keeps the concatenated bytes; equal bytes are kept once.  `digest`: see Ref.of."""

    def get(self, ref: Ref) -> memoryview:
        """Returns the bytes of a whole message, which must not be written to.  Raises KeyError if the store does not
        have them."""


@dataclass(frozen=True)
class Stored:
    """A message in a store.  `fault`: the error that the check of its form and values found, if any."""

    ref: Ref
    sizes: Mapping[str, int]  # bytes per kind and "frame"; their sum is the message's size
    fault: RefusedMessage | None = None

    def check(self, form: object) -> None:  # noqa: ARG002  the form of the earlier check
        """Raises the error that the earlier check found, if any."""
        if self.fault:
            raise self.fault


def stored(
    store: Store, view: View, shapes: Shapes | None = None, constants: Mapping[str, ndarray] = payload.EMPTY
) -> Stored:
    """Puts a message that this program has made into the store.  With `shapes`, first checks it against them and the
    constants (payload.check); a fault that this finds is noted and not raised."""
    fault = None
    if shapes is not None:
        try:
            view.check(shapes, constants)
        except RefusedMessage as refused:
            fault = refused
    return Stored(store.put(*view.pieces), view.sizes, fault)


def stored_together(store: Store, messages: Sequence[Message], form: UploadForm) -> list[Stored] | None:
    """Puts the uploads of a stack of devices into the store as one message, whose tensors have a leading axis of
    devices; returns each device's row of it.

    Returns None, and stores nothing, for a single upload, if an upload has another form or a value that is not finite,
    or if they are too large together.
    """
    if len(messages) == 1 or form.nbytes * len(messages) >= MOST:
        return None
    if any(payload.manifest(message) != form.shapes for message in messages):
        return None
    stack = {
        kind: {name: np.stack([message[kind][name] for message in messages]) for name in shapes}
        for kind, shapes in form.shapes.items()
    }
    if not all(payload.finite(values) for arrays in stack.values() for values in arrays.values()):
        return None
    view = payload.encoded(stack)
    ref, sizes = store.put(*view.pieces), form.sizes
    digests = [payload.digest(*view.row(k).pieces) for k in range(len(messages))]
    return [Stored(Ref(digest, form.nbytes, ref, k), sizes) for k, digest in enumerate(digests)]


def read(store: Store, ref: Ref) -> View:
    """Returns the message with this Ref.  Raises KeyError if the store does not have it."""
    whole = payload.trusted(store.get(ref.whole))
    return whole.row(ref.row) if ref.stack else whole


NOTHING = Ref.of(NO_TENSORS)
EMPTY = Stored(NOTHING, payload.trusted(NO_TENSORS).sizes)
