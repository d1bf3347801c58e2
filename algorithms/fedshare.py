"""FedShare (Zhao et al. 2018): all devices also train on a few of the server's examples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from algorithms import option_checks
from algorithms.algorithm import Load, Message, Party, Reply, Request, Tensors, Work
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.staleness import newest
from algorithms.training.local import forms

LEVELS = 256  # number of values of a byte


@dataclass(frozen=True)
class FedShare(FedAvg):
    """Devices train as in FedAvg on their own examples and on the server's proxy set, which it shares with them (Zhao
    et al. 2018, §4.1; Yao et al. 2019, §4).

    Bytes: |θ| down, plus the shared examples to each device until an upload of that device has been counted; |θ| up.
    Images are sent with a byte per pixel if that loses nothing, as for images that were read from bytes: 1.5 MB for 500
    of CIFAR-10 (docs/design/algorithms.md §8); all other data are sent unchanged.  A device's model is weighted by its
    private examples alone.  All parts of a split have one size: of n examples in p parts each has n // p, and the rest
    is left out.  Raises ValueError for another `split`.
    """

    downloads: ClassVar[Collection[str]] = ("weights", "share")

    split: Literal["whole", "per_client", "per_round"] = "whole"
    """Part of the shared set that each device gets: all of it (whole), its own part (per_client), or in each round a
    new part, divided among the selected devices (per_round)."""

    def __post_init__(self) -> None:
        option_checks.check(self)

    @property
    def keeps_uncounted(self) -> bool:
        """True if devices keep the shared examples; false if each round sends new ones."""
        return self.split != "per_round"

    @property
    def synchronous(self) -> str:
        """Reason why all replies of a round must have started from one model; "" if stale replies may be combined."""
        return "with split 'per_round' the devices of a round divide the examples" if self.split == "per_round" else ""

    def download_form(self, server: Party) -> Message:
        """Returns the model and the largest part that a device may receive."""
        parts = server.devices if self.split == "per_client" else 1  # a round may ask a single device
        part = _part(packed(server.x, server.y), torch.arange(len(server.y) // parts))
        return forms(["weights"], server.model) | ({"share": part} if len(part["y"]) else {})

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        """Returns the messages: the model for all asked devices, and shared examples for those that may not have
        them."""
        request = super().request(state, names, server)
        known = state.get("shared_with", {})
        parts = {name: at for name, at in self._parts(names, server).items() if name not in known and len(at)}
        if not parts:
            return request
        share = packed(server.x, server.y)
        return replace(request, extra={name: {"share": _part(share, at)} for name, at in parts.items()})

    def _parts(self, names: Sequence[str], server: Party) -> dict[str, Tensor]:
        """Returns, by device name, the indices of the server's examples that the device gets."""
        n = len(server.y)
        if self.split == "whole":
            return {name: torch.arange(n) for name in names}
        if self.split == "per_round":
            order = torch.from_numpy(np.random.default_rng(server.seed).permutation(n))
            return {name: _cut(order, k, len(names)) for k, name in enumerate(sorted(names))}
        places = {name: k for k, name in enumerate(server.fleet)}
        if not places.keys() >= set(names):
            raise ValueError(f"the {len(places)} names of the fleet lack a selected device; each needs its part")
        return {name: _cut(torch.arange(n), places[name], len(places)) for name in names}

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains on the private and the shared examples together; keeps the shared ones, unless each round sends new
        ones."""
        share = download.get("share", device.memory.get("share"))
        if not share:
            return (yield from super().course(download, device))
        x, y = unpacked(share)
        both = replace(device, x=torch.cat([device.x, x]), y=torch.cat([device.y, y]))
        reply = yield from super().course(download, both)
        kept = {"share": share} if "share" in download and self.split != "per_round" else {}
        return replace(reply, examples=len(device.y), memory=kept)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the mean of the models, and notes that counted devices have their examples."""
        new = super().combine(state, replies, server)
        if self.split == "per_round":
            return new
        counted = {name: torch.tensor(server.round) for name in newest(replies)}
        return new | {"shared_with": counted | state.get("shared_with", {})}

    def device_work(self, load: Load) -> Work:
        """Returns the work of E epochs on the private and the shared examples."""
        if "share" not in {*load.kinds, *load.memory}:
            return super().device_work(load)
        parts = {"whole": 1, "per_client": load.devices, "per_round": load.asked}[self.split]
        return super().device_work(replace(load, examples=load.examples + load.proxy // parts))


def packed(x: Tensor, y: Tensor) -> Tensors:
    """Returns examples in the form in which they are sent; `unpacked` restores them, equal in every bit except the sign
    of zero.

    Images (n, channels, *positions) with at most 256 levels in each channel: "x" is the index of the level, a byte, and
    "levels" (channels, most levels) has the values.  All others are sent unchanged.
    """
    if not (x.is_floating_point() and x.dim() >= 3 and len(x) > 0 and not x.isnan().any()):
        return {"x": x, "y": y}
    channels = x.unbind(1)
    levels = [torch.unique(channel) for channel in channels]
    most = max(len(each) for each in levels)
    if most > LEVELS:
        return {"x": x, "y": y}
    pairs = zip(levels, channels, strict=True)
    numbers = [torch.searchsorted(each, channel.contiguous()) for each, channel in pairs]
    rows = [torch.cat([each, each[-1:].expand(most - len(each))]) for each in levels]
    return {"x": torch.stack(numbers, 1).to(torch.uint8), "levels": torch.stack(rows), "y": y}


def unpacked(share: Tensors) -> tuple[Tensor, Tensor]:
    """Returns the examples x and labels y that `packed` has brought into this form."""
    if "levels" not in share:
        return share["x"], share["y"]
    channels = [table[numbers.long()] for table, numbers in zip(share["levels"], share["x"].unbind(1), strict=True)]
    return torch.stack(channels, 1), share["y"]


def _cut(examples: Tensor, k: int, parts: int) -> Tensor:
    """Returns the k-th of `parts` parts of equal size of these examples (their indices).  Raises ValueError if there
    are examples, but fewer than parts."""
    if 0 < len(examples) < parts:
        raise ValueError(f"the server holds {len(examples)} examples for {parts} parts; each needs at least 1")
    return examples[: len(examples) // parts * parts][k::parts]


def _part(share: Tensors, at: Tensor) -> Tensors:
    """Returns the packed examples at the indices `at`."""
    return {name: value if name == "levels" else value[at] for name, value in share.items()}
