"""Converts an algorithm's tensors to bytes and back, with error feedback for lossy encodings.

Weights with a lossy encoding are sent as their difference to the broadcast model, which the server adds again.  The
device keeps the error of the encoding and adds it to its next upload (error feedback, Seide et al. 2014;
docs/design/algorithms.md §11).
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy import ndarray

from algorithms.algorithm import Message, Tensors
from network.wire import payload
from network.wire.form import Buffer

if TYPE_CHECKING:
    from torch import Tensor

Rows = Mapping[str, Sequence["Tensor"]]  # by name: a tensor for each device of a stack
ERROR = "weights-error"  # kind of a device's memory: the error of its last counted weights


def arrays_of(message: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, ndarray]]:
    """Returns the message as numpy arrays, which share memory with tensors on the CPU."""
    return {kind: {name: tensor.cpu().numpy() for name, tensor in tensors.items()} for kind, tensors in message.items()}


def encode(
    message: Message, encodings: Mapping[str, str] | None = None, seed: int = 0, plain: Collection[str] = ()
) -> payload.View:
    """Returns the encoded message.  `encodings`: by kind, the encoding to use, whose random draws come from `seed`;
    `plain`: names of tensors that are sent exactly all the same.

    Use the result before the tensors change, because large ones are not copied.
    """
    return payload.encoded(arrays_of(message), encodings, seed, plain)


def decode(data: Buffer) -> Message:
    """Returns the message that these bytes encode, as tensors in memory of their own.  Checks nothing: bytes from a
    socket are checked when they arrive."""
    return _tensors(payload.trusted(data).arrays()) if data != payload.NOTHING else {}  # what most devices keep


def _tensors(message: payload.Message) -> Message:
    import torch

    return {kind: {name: torch.from_numpy(array) for name, array in arrays.items()} for kind, arrays in message.items()}


def placed(values: Tensors, like: Tensors) -> Tensors:
    """Returns the values, each moved to the device of torch of the tensor of the same name in `like`."""
    return {name: value.to(like[name].device) for name, value in values.items()}


def unread(view: payload.View, broadcast: Tensors) -> Message:
    """Returns an upload whose tensors are decoded on access, so that a round's uploads need not be in memory together.

    Uploaded weights are differences to `broadcast`, to which they are added on access; with {} they are whole weights.
    """
    return {kind: cast(Tensors, LazyTensors(view, kind, broadcast if kind == "weights" else {})) for kind in view.tree}


class OnDemand(Mapping[str, "Tensor"]):
    """A read-only mapping from names to tensors, which makes the tensor anew at each access."""

    def __or__(self, other: Mapping[str, Tensor]) -> Tensors:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Tensor]) -> Tensors:
        return {**other, **self}

    def copy(self) -> Tensors:
        return dict(self)


class LazyTensors(OnDemand):
    """The tensors of one kind, decoded on access."""

    def __init__(self, view: payload.View, kind: str, base: Tensors) -> None:
        self.view, self.kind, self.base = view, kind, base

    def __getitem__(self, name: str) -> Tensor:
        from torch import from_numpy

        return _on_top(from_numpy(self.view.array(self.kind, name)), self.base.get(name))

    def in_place(self, name: str) -> Tensor | None:
        """Returns the tensor without copying it, at any address and only to be read; None if it must be decoded."""
        from torch import from_numpy

        values = self.view.in_place(self.kind, name)
        if values is None or not values.dtype.isnative or name in self.base:  # torch has no other order of bytes
            return None
        return from_numpy(_for_torch(values))

    def __iter__(self) -> Iterator[str]:
        return iter(self.view.tree[self.kind])

    def __len__(self) -> int:
        return len(self.view.tree[self.kind])


class Row(OnDemand):
    """The tensors of one kind of one device in a stack.  Each access returns a copy."""

    def __init__(self, rows: Rows, k: int) -> None:
        self.rows, self.k = rows, k

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[name][self.k].clone()

    def in_place(self, name: str) -> Tensor:
        """Returns this tensor without a copy, only to be read."""
        return self.rows[name][self.k]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def unstacked(view: payload.View) -> Mapping[str, Rows]:
    """Returns, by kind and name, the tensors of a stack's message as a sequence with one tensor for each device; they
    share the message's memory."""
    from torch import from_numpy

    def rows(kind: str, name: str) -> Sequence[Tensor]:
        values = view.in_place(kind, name)
        assert values is not None  # a stack's uploads are not encoded
        return from_numpy(_for_torch(values.astype(values.dtype.newbyteorder("="), copy=False))).unbind()

    return {kind: {name: rows(kind, name) for name in entries} for kind, entries in view.tree.items()}


def _for_torch(values: ndarray) -> ndarray:
    """Returns the same memory, marked as writable, because torch warns about other memory.  It must not be written to:
    all processes of a node may share it."""
    if values.flags.writeable:
        return values
    assert values.flags.c_contiguous
    memory = (ctypes.c_uint8 * values.nbytes).from_address(values.ctypes.data)
    memory.owner = values  # type: ignore[attr-defined]  # keeps the memory alive
    return np.frombuffer(memoryview(memory), values.dtype).reshape(values.shape)


@dataclass
class Outbox:
    """The outgoing side of a device in one round: encodes its uploads, and keeps the errors of lossy encodings."""

    encodings: Mapping[str, str]  # encodings of the uploads, by kind
    seed: int
    reference: Tensors  # the downloaded weights
    errors: Message = field(default_factory=dict)  # ERROR: what encoding lost of earlier weights, then of these
    known: list[tuple[Tensors, Tensors]] = field(default_factory=list)  # pairs of decoded tensors and tensors to encode

    def send(self, kind: str, tensors: Tensors) -> Tensors:
        """Returns the tensors as the server will decode them (see algorithms.algorithm.Party.send), and notes what a
        lossy encoding loses of weights."""
        if kind not in self.encodings:
            return tensors
        for arrived, _ in self.known:
            if arrived is tensors:
                return tensors
        wanted = self._differences(tensors) if kind == "weights" else tensors
        found = placed(_tensors(encode({kind: wanted}, self.encodings, self.seed).arrays())[kind], tensors)
        if kind == "weights":
            lost = {name: wanted[name] - found[name] for name in wanted if _floating(wanted[name])}
            self.errors[ERROR] = {**self.errors.get(ERROR, {}), **lost}  # the error of this upload, for the next one
            found = {name: _on_top(value, self.reference.get(name)) for name, value in found.items()}
        self.known.append((found, wanted))
        return found

    def packed(self, upload: Message) -> payload.View:
        """Returns the encoded upload.  Tensors that `send` returned are encoded as they were then."""
        sent = {}
        for kind, tensors in upload.items():
            arrived = self.send(kind, tensors)
            sent[kind] = next((wanted for known, wanted in self.known if known is arrived), tensors)
        return encode(sent, self.encodings, self.seed)

    def _differences(self, weights: Tensors) -> Tensors:
        missed = self.errors.get(ERROR, {})
        found = {}
        for name, value in weights.items():
            if _floating(value) and name in self.reference:
                value = _difference(value, self.reference[name])
            found[name] = value + missed[name] if name in missed else value
        return found


def _difference(value: Tensor, base: Tensor) -> Tensor:
    """Returns value - base, and 0 where both are equal, even if they are not finite, such as a constant of -inf."""
    found = value - base
    if finite(found):
        return found
    return found.masked_fill((value == base) | (value.isnan() & base.isnan()), 0.0)


def _on_top(value: Tensor, base: Tensor | None) -> Tensor:
    """Returns the weights of which `value` is the difference to `base`; without a base, and for integers, `value`
    itself."""
    return value + base if base is not None and _floating(value) else value


def finite(values: Tensor) -> bool:
    """Returns true if all values are finite.  The sum is faster to check than each value, but it may overflow."""
    return bool(values.sum().isfinite() or values.isfinite().all())


def _floating(tensor: Tensor) -> bool:
    """Returns true for a tensor of floats, which encodings may change; integers, such as counters, are sent exactly."""
    return tensor.is_floating_point()
