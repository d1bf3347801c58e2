"""Devices that upload the change of their model, for algorithms that step along changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from algorithms.algorithm import Message, Party, Reply
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.training.local import fitting, forms
from algorithms.training.tensors import travelling


@dataclass(frozen=True)
class Changes(FedAvg):
    """Devices train as FedAvg's and upload Δ_i, the difference from the model that they started from to the one that
    they trained (in most papers it has the other sign).

    Buffers of the model are uploaded as they are.  Bytes: the model down, a change of the same size up.
    """

    uploads: ClassVar[Collection[str]] = ("update",)

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """Returns blank tensors like all of the model's."""
        return {"update": forms(("weights",), model)["weights"]}

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains as FedAvg does and uploads the change of each parameter."""
        start = download["weights"]
        reply = yield from fitting(device, start, self.training, self.penalty(download, device))
        model, trained = reply.upload["weights"], travelling(device.model)
        update = {name: value - start[name] if name in trained else value for name, value in model.items()}
        return replace(reply, upload={"update": update}, model=model)
