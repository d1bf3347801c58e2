"""Optimisers on the server, which step along the mean change of the devices' models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor, nn

from algorithms import option_checks
from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Message, Party, Reply, Tensors
from algorithms.training.tensors import travelling

ADAPTED = 11.0  # floats per parameter: θ and mean read, θ written (3); both moments, in float64, read and written (8)
BELOW_1 = 1 - 1e-9


def change(model: nn.Module, before: Tensors, mean: Tensors) -> Tensors:
    """Returns the mean change of each trainable parameter in a round, `mean` - `before`, in float64 (Δ_t in Reddi et
    al. 2021, Alg. 1, line 9).

    `before`: the broadcast model; `mean`: the mean of the devices' models; `model` distinguishes parameters from
    buffers, its values are ignored.
    """
    return {name: mean[name].double() - before[name].double() for name in travelling(model)}


def stepped(mean: Tensors, change: Tensors, step: Tensors) -> Tensors:
    """Returns the model after the server's step: the broadcast parameters plus `step`, and the mean's buffers.  If the
    step equals the change, the result is the mean to the bit."""
    moved = {name: (mean[name].double() + (value - change[name])).to(mean[name].dtype) for name, value in step.items()}
    return {**mean, **moved}


def gradients(steps: int, momentum: float) -> float:
    """Returns how far this many equal gradients have moved the weights, in units of rate times gradient.  With momentum
    the last gradients have not had their full effect yet."""
    spent = momentum * (1 - momentum**steps) / (1 - momentum)
    return (steps - spent) / (1 - momentum)


# Why rounds must be synchronous: the difference of a stale model should be that from the model its device started from.
FROM_THE_CURRENT = "its step is the difference of the replies from the current model"


@dataclass(frozen=True)
class Adaptive:
    """An adaptive optimiser on the server: m ← β₁ m + (1 - β₁) Δ, θ ← θ + η m / (√v + τ), and v by each subclass's own
    rule (Reddi et al. 2021, Alg. 2).

    An algorithm names it before FedAvg among its bases.  Δ is the difference from θ to the mean of the devices' models,
    weighted by examples.  At first m = 0 and v = τ²; there is no bias correction. m and v are float64 and never leave
    the server: bytes as FedAvg.  Buffers come from the mean.
    """

    synchronous: ClassVar[str] = FROM_THE_CURRENT

    server_lr: float = 0.01
    """Learning rate of the server, η: roughly how far a weight moves in a round."""
    beta1: float = 0.9
    """Decay β₁ of the running mean of the changes; the larger it is, the longer the memory."""
    beta2: float = 0.99
    """Decay β₂ of the running mean of the squared changes; the larger it is, the longer the memory."""
    tau: float = 0.001
    """Adaptivity τ, which keeps steps small where all changes are small; the larger it is, the less adaptive the
    server."""

    def __post_init__(self) -> None:
        option_checks.check(self, server_lr=(0, inf), beta1=(0, BELOW_1), beta2=(0, BELOW_1), tau=(1e-12, inf))

    def variance(self, before: Tensor, square: Tensor) -> Tensor:
        """Returns the new v, from the old v (`before`) and Δ² (`square`)."""
        raise NotImplementedError

    def start(self, weights: Tensors, server: Party) -> Message:
        """Returns the model, and the moments before the first round, m = 0 and v = τ²."""
        zeros = change(server.model, weights, weights)
        first = {name: torch.full_like(value, self.tau**2) for name, value in zeros.items()}
        return {"weights": weights, "momentum": zeros, "variance": first}

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """Returns the state after one step of the server's optimiser."""
        mean = weighted_mean(replies)
        delta = change(server.model, state["weights"], mean)
        m = {name: old.lerp(delta[name], 1 - self.beta1) for name, old in state["momentum"].items()}
        v = {name: self.variance(old, delta[name].square()) for name, old in state["variance"].items()}
        step = {name: self.server_lr * value / (v[name].sqrt() + self.tau) for name, value in m.items()}
        return {"weights": stepped(mean, delta, step), "momentum": m, "variance": v}

    def combine_traffic(self, load: Load) -> float:  # noqa: ARG002
        """Returns how many floats the server's step reads from memory or writes to it, for each parameter."""
        return ADAPTED
