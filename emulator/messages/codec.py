"""Between an algorithm's tensors and bytes: what is sent as it is, what loses on the way, and what is done about it.

Weights that lose are sent as their difference to the broadcast model, which the server adds again; what was lost is
kept on the device and sent along next time (error feedback, Seide et al. 2014; docs/design/algorithms.md §11).
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

Rows = Mapping[str, Sequence["Tensor"]]  # by name, a tensor for each device of a stack
ERROR = "weights-error"  # kind of a device's memory: what its weights lost when they were last counted


def arrays_of(message: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, ndarray]]:
    """The message as numpy arrays, which share the memory of tensors that are on the CPU."""
    return {kind: {name: tensor.cpu().numpy() for name, tensor in tensors.items()} for kind, tensors in message.items()}


def encode(
    message: Message, encodings: Mapping[str, str] | None = None, seed: int = 0, plain: Collection[str] = ()
) -> payload.View:
    """The encoded message; kinds that `encodings` names may lose, by draws from `seed`, but for `plain` tensors.

    Use it before the tensors change: large ones are not copied.
    """
    return payload.encoded(arrays_of(message), encodings, seed, plain)


def decode(data: Buffer) -> Message:
    """The message with these bytes, in memory of its own.  What comes off a socket is checked there."""
    return _tensors(payload.trusted(data).arrays()) if data != payload.NOTHING else {}  # what most devices keep


def _tensors(message: payload.Message) -> Message:
    import torch

    return {kind: {name: torch.from_numpy(array) for name, array in arrays.items()} for kind, arrays in message.items()}


def placed(values: Tensors, like: Tensors) -> Tensors:
    """The values, each on the device of the tensor of its name in `like`."""
    return {name: value.to(like[name].device) for name, value in values.items()}


def unread(view: payload.View, broadcast: Tensors) -> Message:
    """An upload of which each tensor is decoded when it is asked for: a round's uploads need no memory together.

    Its weights are put on top of the broadcast ones; {}: they are as they are.
    """
    return {kind: cast(Tensors, LazyTensors(view, kind, broadcast if kind == "weights" else {})) for kind in view.tree}


class OnDemand(Mapping[str, "Tensor"]):
    """Tensors by name, each made anew when it is asked for.  It does what readers of a dict do, and is read only."""

    def __or__(self, other: Mapping[str, Tensor]) -> Tensors:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Tensor]) -> Tensors:
        return {**other, **self}

    def copy(self) -> Tensors:
        return dict(self)


class LazyTensors(OnDemand):
    """The tensors of one kind, which are decoded."""

    def __init__(self, view: payload.View, kind: str, base: Tensors) -> None:
        self.view, self.kind, self.base = view, kind, base

    def __getitem__(self, name: str) -> Tensor:
        from torch import from_numpy

        return _on_top(from_numpy(self.view.array(self.kind, name)), self.base.get(name))

    def in_place(self, name: str) -> Tensor | None:
        """Returns this tensor where it lies, at any address, to be read only; None if it must be decoded."""
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
    """The tensors of one kind of one device of a stack.  Whoever reads one has a copy of its own."""

    def __init__(self, rows: Rows, k: int) -> None:
        self.rows, self.k = rows, k

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[name][self.k].clone()

    def in_place(self, name: str) -> Tensor:
        """Returns this tensor where it lies, to be read only."""
        return self.rows[name][self.k]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def unstacked(view: payload.View) -> Mapping[str, Rows]:
    """The tensors of a stack's message by kind, row by row where they lie in it."""
    from torch import from_numpy

    def rows(kind: str, name: str) -> Sequence[Tensor]:
        values = view.in_place(kind, name)
        assert values is not None  # a stack's uploads are not encoded
        return from_numpy(_for_torch(values.astype(values.dtype.newbyteorder("="), copy=False))).unbind()

    return {kind: {name: rows(kind, name) for name in entries} for kind, entries in view.tree.items()}


def _for_torch(values: ndarray) -> ndarray:
    """The same memory as if it might be written, as torch warns of any other.  Nobody may: it is Ray's, for instance,
    and shared by all processes of a node."""
    if values.flags.writeable:
        return values
    assert values.flags.c_contiguous
    memory = (ctypes.c_uint8 * values.nbytes).from_address(values.ctypes.data)
    memory.owner = values  # type: ignore[attr-defined]  # stays as long as anybody reads
    return np.frombuffer(memoryview(memory), values.dtype).reshape(values.shape)


@dataclass
class Outbox:
    """The uploads of a device in one round, encoded."""

    encodings: Mapping[str, str]  # of its uploads, by kind
    seed: int
    reference: Tensors  # the weights that came down
    errors: Message = field(default_factory=dict)  # ERROR: what weights lost before, then what now
    known: list[tuple[Tensors, Tensors]] = field(default_factory=list)  # what arrives, and what is encoded for it

    def send(self, kind: str, tensors: Tensors) -> Tensors:
        """Returns the tensors as the server decodes them (see algorithms.algorithm.Party.send)."""
        if kind not in self.encodings:
            return tensors
        for arrived, _ in self.known:
            if arrived is tensors:
                return tensors
        wanted = self._differences(tensors) if kind == "weights" else tensors
        found = placed(_tensors(encode({kind: wanted}, self.encodings, self.seed).arrays())[kind], tensors)
        if kind == "weights":
            lost = {name: wanted[name] - found[name] for name in wanted if _floating(wanted[name])}
            self.errors[ERROR] = {**self.errors.get(ERROR, {}), **lost}  # what was not sent now, next time
            found = {name: _on_top(value, self.reference.get(name)) for name, value in found.items()}
        self.known.append((found, wanted))
        return found

    def packed(self, upload: Message) -> payload.View:
        """The encoded upload."""
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
    """0 where both are the same, also if that is no number, as a constant of -inf."""
    found = value - base
    if finite(found):
        return found
    return found.masked_fill((value == base) | (value.isnan() & base.isnan()), 0.0)


def _on_top(value: Tensor, base: Tensor | None) -> Tensor:
    """A difference of weights, put on top of those that it is a difference to."""
    return value + base if base is not None and _floating(value) else value


def finite(values: Tensor) -> bool:
    """A sum is finite only if all values are, and is quicker; it may also overflow."""
    return bool(values.sum().isfinite() or values.isfinite().all())


def _floating(tensor: Tensor) -> bool:
    """Returns True for a tensor that encodings change: counters travel as they are."""
    return tensor.is_floating_point()
