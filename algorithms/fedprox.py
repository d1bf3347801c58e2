"""FedProx (Li et al. 2020): federated averaging with a spring to the broadcast model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from algorithms.algorithm import Load, Message, Party
from algorithms.counting.cost import PULL_PLAIN
from algorithms.fedavg import FedAvg
from algorithms.training.local import STRONGEST, Quadratic


@dataclass(frozen=True)
class FedProx(FedAvg):
    """Devices add the penalty (μ/2) ‖θ - θ_t‖² to their loss, so that the gradient μ (θ - θ_t) pulls them back to the
    broadcast model (Li et al. 2020, Eq. 2).

    For its partial work give `training.seconds` (docs/design/algorithms.md §3).  Bytes as FedAvg.
    Raises ValueError if μ is negative.
    """

    penalty_options: ClassVar[Collection[str]] = ("mu",)

    mu: float = 0.1
    """Weight of the penalty, μ: how strongly a device is held to the broadcast model; 0 makes it FedAvg."""

    def __post_init__(self) -> None:
        if not 0 <= self.mu <= STRONGEST:
            raise ValueError(f"mu is {self.mu}; it must be from 0 (no penalty) to {STRONGEST:g}")

    def penalty(self, download: Message, device: Party) -> Quadratic | None:  # noqa: ARG002
        """Returns the penalty (μ/2) ‖θ - θ_t‖², with the broadcast model as θ_t; None if μ is 0."""
        return Quadratic(download["weights"], self.mu / 2) if self.mu else None

    def penalty_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns the floats that the penalty moves for each parameter and step (parameter, anchor and gradient); 0 if
        μ is 0."""
        return PULL_PLAIN if self.mu else 0.0
