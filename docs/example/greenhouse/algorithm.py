"""HoldHead: federated averaging that holds the last layer near the broadcast model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from algorithms.algorithm import Load, Message, Party
from algorithms.counting.cost import PULL
from algorithms.fedavg import FedAvg
from algorithms.training.local import Penalty, Quadratic


@dataclass(frozen=True)
class HoldHead(FedAvg):
    """Local loss plus strength x the squared distance of the last layer's weights from the broadcast ones.

    Down |θ|, up |θ|.  Raises ValueError if strength is negative.
    """

    strength: float = 1.0
    """How strongly the last layer is held; 0 is FedAvg."""

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise ValueError(f"strength is {self.strength}; it must be 0 (no penalty) or more")

    def penalty(self, download: Message, device: Party) -> Penalty | None:
        """A spring in each coordinate of the last layer, none in the others."""
        if not self.strength:
            return None
        weights = download["weights"]
        layer = list(weights)[-1].rpartition(".")[0]
        held = {name: torch.full_like(value, float(name.startswith(layer))) for name, value in weights.items()}
        return Quadratic(weights, self.strength, held)

    def penalty_traffic(self, load: Load) -> float:
        """Floats moved for each parameter and step: virtual time charges what is declared here."""
        return PULL if self.strength else 0.0
