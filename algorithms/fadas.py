"""FADAS (Wang et al. 2024): AMSGrad on the server, along the mean of the changes in its buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

import torch

from algorithms import option_checks
from algorithms.aggregation import plain_mean
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.pseudogradient import BELOW_1
from algorithms.training.tensors import travelling
from algorithms.uploaded_changes import Changes

MOVED = 15.0  # floats per parameter: θ and mean read, θ written (3); m, v and v̂, in float64, read and written (12)


@dataclass(frozen=True)
class FADAS(Changes):
    """The server takes an adaptive step along Δ, the plain mean of the K changes in its buffer: m ← β₁ m + (1 - β₁) Δ,
    v ← β₂ v + (1 - β₂) Δ², v̂ ← max(v̂, v), x ← x + η_t m / (√v̂ + ε) (Wang et al. 2024, Alg. 1).

    η_t = η unless the stalest reply has s > τ_c; then it is min(η, 1/s).  All three moments are 0 at first, and there
    is no bias correction.  β₁, β₂, ε, τ_c are the defaults of the authors' code, η is that of its example.  With such a
    small η the paper's minimum changes nothing; their code has η/s (`divide`).  Bytes as FedBuff; the moments are
    float64 and never leave the server.  Raises ValueError if a field is out of its range.
    """

    server_lr: float = 0.001
    """Learning rate of the server, η; untuned."""
    beta1: float = 0.9
    """Decay β₁ of the running mean of the changes; the larger it is, the longer the memory."""
    beta2: float = 0.99
    """Decay β₂ of the running mean of the squared changes; the larger it is, the longer the memory."""
    epsilon: float = 1e-8
    """Term ε, which bounds the steps where all changes are small."""
    tau_c: int = 1
    """Largest staleness τ_c in a buffer at which the rate is still η."""
    delayed: Literal["minimum", "divide", "none"] = "minimum"
    """Rate if the stalest reply has s > τ_c: min(η, 1/s), as in the paper (minimum); η/s, as in its authors' code
    (divide); or η (none), which is FADAS without adaptation to delays."""

    def __post_init__(self) -> None:
        option_checks.check(
            self, server_lr=(0, inf), beta1=(0, BELOW_1), beta2=(0, BELOW_1), epsilon=(1e-12, inf), tau_c=(0, inf)
        )

    def rate(self, staleness: int) -> float:
        """Returns η_t for a buffer whose stalest reply has this staleness."""
        if self.delayed == "none" or staleness <= self.tau_c:
            return self.server_lr
        return self.server_lr / staleness if self.delayed == "divide" else min(self.server_lr, 1 / staleness)

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, and m, v and v̂, which are 0."""
        zeros = {name: torch.zeros_like(weights[name], dtype=torch.float64) for name in travelling(server.model)}
        zeros = dict(sorted(zeros.items()))
        return {"weights": weights, "momentum": zeros, "variance": zeros, "largest": zeros}

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:  # noqa: ARG002
        """Returns the state after one step; buffers of the model become their mean."""
        model, before = plain_mean(replies, "update"), state["weights"]
        delta = {name: model[name].double() for name in state["momentum"]}
        m = {name: old.lerp(delta[name], 1 - self.beta1) for name, old in state["momentum"].items()}
        v = {name: old.lerp(delta[name].square(), 1 - self.beta2) for name, old in state["variance"].items()}
        largest = {name: torch.maximum(old, v[name]) for name, old in state["largest"].items()}
        rate = self.rate(max(reply.staleness for reply in replies.values()))
        for name, value in m.items():
            step = rate * value / (largest[name].sqrt() + self.epsilon)
            model[name] = (before[name].double() + step).to(before[name].dtype)
        return {"weights": model, "momentum": m, "variance": v, "largest": largest}

    def combine_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns how many floats the server's step reads from memory or writes to it, for each parameter."""
        return MOVED
