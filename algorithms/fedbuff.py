"""FedBuff (Nguyen et al. 2022): buffered asynchronous aggregation of the changes that devices upload."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import ClassVar, Literal

from torch import nn

from algorithms import option_checks
from algorithms.aggregation import plain_mean
from algorithms.algorithm import Message, Party, Reply
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.staleness import Stale
from algorithms.training.local import fitting, forms


@dataclass(frozen=True)
class FedBuff(Stale, FedAvg):
    """The server steps along the K changes in its buffer: x ← x + η_g (1/K) Σ w(s_i) Δ_i, where Δ_i is the difference
    from the model that device i started from to the one that it trained (Nguyen et al. 2022, Alg. 1 and 2; there the
    difference has the other sign).

    Replies are not weighted by examples.  Buffers of the model, which the upload holds as they are, become their mean.
    Bytes: the model down, a change of the same size up.  Raises ValueError if a field is out of its range.
    """

    uploads: ClassVar[Collection[str]] = ("update",)

    server_lr: float = 1.0
    """Learning rate of the server, η_g; 1 is untuned."""
    divisor: Literal["replies", "weights"] = "replies"
    """Divisor of the sum: the number K of replies, as in the paper, or the sum of their weights."""

    def __post_init__(self) -> None:
        Stale.__post_init__(self)
        option_checks.check(self, server_lr=(0, inf))

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        """Returns blank tensors like all of the model's."""
        return {"update": forms(("weights",), model)["weights"]}

    def course(self, download: Message, device: Party) -> Course[Reply]:
        """Trains as FedAvg does and uploads the change of each parameter."""
        start = download["weights"]
        reply = yield from fitting(device, start, self.training, self.penalty(download, device))
        model, trained = reply.upload["weights"], _trainable(device.model)
        update = {name: value - start[name] if name in trained else value for name, value in model.items()}
        return replace(reply, upload={"update": update}, model=model)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the model after a step along the changes, summed in float64 and in the order of names."""
        weights = {name: self.weight(reply.staleness) for name, reply in sorted(replies.items())}
        over = len(weights) if self.divisor == "replies" else fsum(weights.values())
        model = plain_mean(replies, "update")  # of which only the buffers stay
        for name in _trainable(server.model):
            moved = state["weights"][name].double()
            for sender, weight in weights.items():
                moved = moved.add(replies[sender].upload["update"][name].double(), alpha=self.server_lr * weight / over)
            model[name] = moved.to(state["weights"][name].dtype)
        return {"weights": model}


def _trainable(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}
