"""FedAsync (Xie, Koyejo and Gupta 2019): each reply moves the model towards the device's, the less the staler it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, maximum

from algorithms import option_checks
from algorithms.algorithm import Load, Message, Party, Reply
from algorithms.fedprox import FedProx
from algorithms.staleness import Stale


@dataclass(frozen=True)
class FedAsync(Stale, FedProx):
    """The server mixes each reply into its model: x ← (1 - α_t) x + α_t x_i with α_t = α w(s) (Xie et al. 2019, Alg.
    1), in the order of versions and names if a buffer has several.

    A fresh reply has s = 0 and weighs α.  α_t is computed anew for each reply and never compounds.  FedProx's term is
    the paper's regulariser, ρ = μ.  Bytes as FedAvg.  Raises ValueError if a field is out of its range.
    """

    penalty_options: ClassVar[Collection[str]] = ("mu",)

    mu: float = 0.0
    """Weight of the penalty, μ (the paper's ρ): how strongly a device is held to the model it started from."""
    alpha: float = 0.6
    """Mixing weight α: how far a fresh reply moves the model towards the device's; 1 replaces it."""

    def __post_init__(self) -> None:
        Stale.__post_init__(self)
        FedProx.__post_init__(self)
        option_checks.check(self, alpha=(0, 1))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:  # noqa: ARG002
        """Returns the model after all replies are mixed in."""
        model = dict(state["weights"])
        for _, reply in sorted(replies.items(), key=lambda item: (-item[1].staleness, item[0])):
            share = self.alpha * self.weight(reply.staleness)
            model = {name: _mixed(value, reply.upload["weights"][name], share) for name, value in model.items()}
        return {"weights": model}

    def combine_traffic(self, load: Load) -> float:
        """Returns the floats that the mixing moves for each parameter beside a mean: the model is read and written anew
        for each reply."""
        return 2.0 * load.replies - 1


def _mixed(value: Tensor, other: Tensor, share: float) -> Tensor:
    """Returns (1 - share) value + share other, computed in float64; of integers, the larger."""
    if not value.is_floating_point():
        return maximum(value, other)
    return value if share == 0 else value.double().lerp(other.double(), share).to(value.dtype)
