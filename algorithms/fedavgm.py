"""FedAvgM (Hsu et al. 2019): federated averaging with momentum on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from algorithms import option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply
from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import FROM_THE_CURRENT, change, stepped

MOVED = 7.0  # floats per parameter: θ and mean read, θ written (3); the momentum, in float64, read and written (4)


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """The server adds momentum to FedAvg: v ← β v + Δ, θ ← θ + η v, where Δ is the difference from θ to the mean of the
    devices' models (Hsu et al. 2019, §4.3).

    v is float64 and never leaves the server: bytes as FedAvg.  Buffers come from the mean.  Raises ValueError if a
    field is out of its range.
    """

    synchronous: ClassVar[str] = FROM_THE_CURRENT

    beta: float = 0.9
    """Momentum β: how much of the server's last move is kept. With 0 and server_lr 1 the algorithm is FedAvg."""
    server_lr: float = 1.0
    """Learning rate of the server, η: how much of a move it makes."""

    def __post_init__(self) -> None:
        option_checks.check(self, beta=(0, 1), server_lr=(0, inf))

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the new state: the model after a step along the momentum, and the momentum."""
        mean = weighted_mean(replies)
        delta = change(server.model, state["weights"], mean)
        old = state.get("momentum")
        momentum = delta if old is None else {name: self.beta * old[name] + value for name, value in delta.items()}
        step = {name: self.server_lr * value for name, value in momentum.items()}
        return {"weights": stepped(mean, delta, step), "momentum": momentum}

    def combine_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns how many floats the server's step reads from memory or writes to it, for each parameter."""
        return MOVED
