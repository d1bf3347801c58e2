"""Uploads that stay on the GPU where they were trained, and where the server computes its means.

The uploads of a round of 50 CNNs are 325 MB.  Copying them to the CPU, hashing them and reading them again for one mean
took half a second on an H200's computer; on the GPU it takes some milliseconds.  Uploads of one stack share their
memory, which is freed with the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from blake3 import blake3

from algorithms.training.torch_lock import HANDED_OVER
from emulator.messages.codec import OnDemand, encode, finite
from emulator.messages.forms import UploadForm
from emulator.messages.store import OTHERWISE, Ref, Store, Stored
from network.wire import payload

if TYPE_CHECKING:
    from torch import Tensor

    from algorithms.algorithm import Message, Tensors

FLOAT = "float32"  # the only type in a flat message
CHUNK = 1 << 26  # values that are hashed at a time, 1 GB of numbers


@dataclass(frozen=True)
class Flat(OnDemand):
    """Float32 tensors by name, consecutive in `row`; each access returns a copy on the CPU."""

    row: Tensor  # (parameters,)
    shapes: Mapping[str, tuple[int, ...]]

    def __getitem__(self, name: str) -> Tensor:
        return self.apart(self.row)[name].cpu()

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def apart(self, row: Tensor) -> Tensors:
        """Returns the named tensors in another row (parameters,) of the same layout, as views."""
        sizes = [prod(shape) for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), row.split_with_sizes(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}


FlatMessage = Mapping[str, Flat]


def on_cpu(message: FlatMessage) -> FlatMessage:
    """Returns a copy of the message in CPU memory."""
    return {kind: replace(flat, row=flat.row.cpu()) for kind, flat in message.items()}


class Keeping(Store, Protocol):
    """A store that keeps flat messages on the GPU."""

    def keep(self, ref: Ref, message: FlatMessage) -> Ref:
        """Keeps the message as long as its Ref is held."""

    def tensors(self, ref: Ref) -> FlatMessage | None:
        """Returns the message; None if it is stored as bytes."""

    def make_room(self) -> None:
        """Frees the GPU's memory by moving all kept messages to the CPU."""


def flattened(messages: Sequence[Message], form: payload.Shapes) -> list[FlatMessage] | None:
    """Returns the messages of a stack of devices as flat messages; None if a message has another form than `form`, or a
    value that is not finite."""
    if not all(_fits(message, form) for message in messages):
        return None
    kinds = {}
    for kind, shapes in sorted(form.items()):  # in the order of encoded bytes, in which sums are computed
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
    """Returns the tensors of all messages as one new tensor (devices, parameters)."""
    import torch

    count = len(messages)
    return torch.cat([torch.stack([tensors[name] for tensors in messages]).reshape(count, -1) for name in names], 1)


def stored(store: Store, messages: Sequence[FlatMessage], form: UploadForm) -> list[Stored]:
    """Puts the messages into the store, on the GPU if the store keeps them there.  Their sizes are noted as if they
    were encoded."""
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
    """Returns the store if it can keep flat messages on the GPU, otherwise None.  isinstance with a Protocol would take
    10 us."""
    return cast(Keeping, store) if hasattr(store, "make_room") else None


def _names(messages: Sequence[FlatMessage]) -> list[str]:
    """Returns a digest for each message, from the messages' common form and their values."""
    form = [(kind, list(tensors.shapes.items())) for kind, tensors in messages[0].items()]
    start = repr(form).encode()
    sums = np.concatenate([_digests([message[kind].row for message in messages]) for kind in messages[0]], 1)
    rows = [blake3(start + row.tobytes()).hexdigest() for row in sums.astype("<i8")]
    return [OTHERWISE + row[len(OTHERWISE) :] for row in rows]


def _digests(rows: Sequence[Tensor]) -> np.ndarray:
    """Digests (devices, 2), int64: two sums over a row's bits, each bit pattern times a factor of its own, modulo 2^64.

    The sums do not depend on the GPU's order of addition.  Two different rows collide with a probability below 2^-60
    (Dietzfelbinger 1996), unless an attacker constructs them; these bytes never leave the program.
    """
    import torch

    factors = _factors(rows[0].numel(), str(rows[0].device))
    step = max(1, CHUNK // rows[0].numel())
    found = []
    for start in range(0, len(rows), step):
        bits = torch.stack(list(rows[start : start + step])).view(torch.int32)
        found.append(torch.stack([(bits * factor).sum(1) for factor in factors], 1))  # of int64, as the factors
    return np.asarray(torch.cat(found).cpu().numpy())


@lru_cache(maxsize=4)
def _factors(count: int, place: str) -> Sequence[Tensor]:
    """Returns two rows of `count` odd random factors, int64, in the memory of the device `place`."""
    import torch

    generator = torch.Generator().manual_seed(count)
    drawn = torch.randint(-(2**62), 2**62, (2, count), generator=generator)
    return (2 * drawn + 1).to(place).unbind()
