"""FedYogi (Reddi et al. 2021): Yogi on the server."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from algorithms.fedavg import FedAvg
from algorithms.pseudogradient import Adaptive


@dataclass(frozen=True)
class FedYogi(Adaptive, FedAvg):
    """The server takes a Yogi step along the mean change Δ of the devices' models: m ← β₁ m + (1 - β₁) Δ, v ← v - (1 -
    β₂) Δ² sign(v - Δ²), θ ← θ + η m / (√v + τ) (Reddi et al. 2021, Alg. 2).

    Unlike FedAdam's, v decreases by at most (1 - β₂) Δ²: where changes become small, v stays, and steps become small,
    too.  Bytes: |θ| down and up.  `Adaptive` has the options and rules that such optimisers share.  Raises ValueError
    if a field is out of its range.
    """

    beta2: float = 0.99
    """Rate β₂ of the squared changes: v moves towards a squared change by 1 - β₂ times that square."""

    def variance(self, before: Tensor, square: Tensor) -> Tensor:
        """Returns the new v: the old v (`before`) after a step of size (1 - β₂) Δ² towards Δ² (`square`)."""
        return before - (1 - self.beta2) * square * (before - square).sign()
