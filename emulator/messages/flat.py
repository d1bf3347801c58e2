"""Uploads that stay where they were trained: on a GPU, where the server's means are taken, too.

A round of 50 CNNs is 325 MB of uploads.  To copy them to the CPU, to digest them and to read them again for one mean
took half a second on an H200's computer; there it takes some milliseconds.  Uploads of one stack share their memory: it
is free when the last of them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from blake3 import blake3

from algorithms.training.turns import HANDED_OVER
from emulator.messages.codec import OnDemand, encode, finite
from emulator.messages.forms import UploadForm
from emulator.messages.store import OTHERWISE, Ref, Store, Stored
from network.wire import payload

if TYPE_CHECKING:
    from torch import Tensor

    from algorithms.algorithm import Message, Tensors

FLOAT = "float32"  # all that a flat message holds
CHUNK = 1 << 26  # values that are digested at a time, 1 GB of numbers


@dataclass(frozen=True)
class Flat(OnDemand):
    """Float32 tensors by name, which lie one after the other in `row`; whoever reads one has a copy on the CPU."""

    row: Tensor  # (parameters,)
    shapes: Mapping[str, tuple[int, ...]]

    def __getitem__(self, name: str) -> Tensor:
        return self.apart(self.row)[name].cpu()

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def apart(self, row: Tensor) -> Tensors:
        """The tensors by name of which another row (parameters,) is made."""
        sizes = [prod(shape) for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), row.split_with_sizes(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}


FlatMessage = Mapping[str, Flat]


def on_cpu(message: FlatMessage) -> FlatMessage:
    """A copy of the message in CPU memory."""
    return {kind: replace(flat, row=flat.row.cpu()) for kind, flat in message.items()}


class Keeping(Store, Protocol):
    """A store that takes such messages as they are."""

    def keep(self, ref: Ref, message: FlatMessage) -> Ref:
        """Keeps it as long as somebody holds the Ref."""

    def tensors(self, ref: Ref) -> FlatMessage | None:
        """None if it is kept as bytes."""

    def make_room(self) -> None:
        """Frees the memory of the GPU."""


def flattened(messages: Sequence[Message], form: payload.Shapes) -> list[FlatMessage] | None:
    """The messages of a stack of devices; None if one is not of this form or not finite."""
    if not all(_fits(message, form) for message in messages):
        return None
    kinds = {}
    for kind, shapes in sorted(form.items()):  # in the order of the bytes that they might be, in which sums are taken
        names = {name: tuple(shape) for name, (_, shape) in sorted(shapes.items())}
        values = _together([message[kind] for message in messages], list(names))
        HANDED_OVER.set()
        if not finite(values):
            return None
        kinds[kind] = [Flat(row, names) for row in values.unbind()]
    return [dict(zip(kinds, row, strict=True)) for row in zip(*kinds.values(), strict=True)]


def _fits(message: Message, form: payload.Shapes) -> bool:
    if message.keys() != form.keys() or any(message[kind].keys() != form[kind].keys() for kind in form):
        return False
    if not all(form.values()):
        return False
    places = {value.device for tensors in message.values() for value in tensors.values()}
    return len(places) == 1 and all(
        value.dtype == _float() and (FLOAT, tuple(value.shape)) == (form[kind][name][0], tuple(form[kind][name][1]))
        for kind, tensors in message.items()
        for name, value in tensors.items()
    )


def _float() -> object:
    from torch import float32

    return float32


def _together(messages: Sequence[Tensors], names: Sequence[str]) -> Tensor:
    """(devices, parameters): a copy."""
    import torch

    count = len(messages)
    return torch.cat([torch.stack([tensors[name] for tensors in messages]).reshape(count, -1) for name in names], 1)


def stored(store: Store, messages: Sequence[FlatMessage], form: UploadForm) -> list[Stored]:
    """Puts them into the store: as they are, if it takes them.  Their bytes would be as many as those of this form."""
    kept, sizes = keeping(store), form.sizes
    found = []
    for message, digest in zip(messages, _names(messages), strict=True):
        if kept:
            ref = kept.keep(Ref(digest, form.nbytes), message)
        else:
            ref = store.put(*encode(cast("Message", on_cpu(message))).pieces, digest=digest)
        found.append(Stored(ref, sizes))
    return found


def keeping(store: Store) -> Keeping | None:
    """The store, if it takes such messages as they are.  isinstance of a Protocol takes 10 us."""
    return cast(Keeping, store) if hasattr(store, "make_room") else None


def _names(messages: Sequence[FlatMessage]) -> list[str]:
    """Returns digests of messages, from their common form and their values."""
    form = [(kind, list(tensors.shapes.items())) for kind, tensors in messages[0].items()]
    start = repr(form).encode()
    sums = np.concatenate([_digests([message[kind].row for message in messages]) for kind in messages[0]], 1)
    rows = [blake3(start + row.tobytes()).hexdigest() for row in sums.astype("<i8")]
    return [OTHERWISE + row[len(OTHERWISE) :] for row in rows]


def _digests(rows: Sequence[Tensor]) -> np.ndarray:
    """(devices, 2) int64: two sums over a row's bits, each times a number of its own, modulo 2^64.

    In whatever order a GPU adds, the sums are the same.  Two rows that differ have the same ones with a probability of
    less than 2^-60 (Dietzfelbinger 1996), unless somebody seeks such a pair: nobody sends these bytes.
    """
    import torch

    factors = _factors(rows[0].numel(), str(rows[0].device))
    step = max(1, CHUNK // rows[0].numel())
    found = []
    for start in range(0, len(rows), step):
        bits = torch.stack(list(rows[start : start + step])).view(torch.int32)
        found.append(torch.stack([(bits * factor).sum(1) for factor in factors], 1))  # of int64, as the factors are
    return np.asarray(torch.cat(found).cpu().numpy())


@lru_cache(maxsize=4)
def _factors(count: int, place: str) -> Sequence[Tensor]:
    """Two rows of odd numbers."""
    import torch

    generator = torch.Generator().manual_seed(count)
    drawn = torch.randint(-(2**62), 2**62, (2, count), generator=generator)
    return (2 * drawn + 1).to(place).unbind()
