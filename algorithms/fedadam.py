"""FedAdam (Reddi et al. 2021): Adam on the server."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import Adaptive


@dataclass(frozen=True)
class FedAdam(Adaptive, FedAvg):
    """The server takes an Adam step along the mean change Δ of the devices' models: m ← β₁ m + (1 - β₁) Δ, v ← β₂ v +
    (1 - β₂) Δ², θ ← θ + η m / (√v + τ) (Reddi et al. 2021, Alg. 2).

    Bytes: |θ| down and up.  `Adaptive` has the options and rules that such optimisers share.  Raises ValueError if a
    field is out of its range.
    """

    def variance(self, before: Tensor, square: Tensor) -> Tensor:
        """Returns the new v, β₂ v + (1 - β₂) Δ², from the old v (`before`) and Δ² (`square`)."""
        return before.lerp(square, 1 - self.beta2)
