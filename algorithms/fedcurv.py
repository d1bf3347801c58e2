"""FedCurv (Shoham et al. 2019): each device holds on to what mattered to all the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.algorithm import Load, Message, Party, Phase, Reply, Request, Tensors, Work
from algorithms.cost import PULL, SQUARES
from algorithms.fedavg import FedAvg
from algorithms.importance import CHUNK, importance
from algorithms.local import STRONGEST, pull

SUMS = ("fisher", "fisher_theta")  # kinds: the sums U of Î and V of Î⊙θ̂; up go their changes


@dataclass(frozen=True)
class Curvature:
    """The penalty λ Σ_j (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j) over the other devices j (Eq. 3, rearranged)."""

    strength: float  # λ
    importance: Tensors  # u = Σ_j Î_j
    target: Tensors  # v = Σ_j Î_j⊙θ̂_j

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        behind = torch.addcmul(self.target[name], self.importance[name], parameter, value=-1)  # v - u⊙θ
        pull(grad, behind, -self.strength)


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """Local loss L_s(θ) + λ Σ_{j≠s} (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j), Î_j the Fisher diagonal of device j's data
    at its own trained θ̂_j (Shoham et al. 2019, Eq. 3; §3.1 for the sums that travel).

    Down and up 3 |θ|; down |θ| until a reply has been counted.  The server keeps only U = Σ Î_j and
    V = Σ Î_j⊙θ̂_j over the last counted upload of every device, lost or late ones leave no trace: up go
    changes against the device's own running sums, which the device advances, by the values as they are sent,
    once they are counted.  Readings of algorithms.md §7: row 8 sum, λ without ½, unweighted; row 9 empirical
    Fisher, example by example, mean over n_k, eval mode; row 10 mean; row 11 θ by examples; row 12 the latest
    counted value of each device; row 13 no penalty and 1 |θ| down at first; row 14 plain v.

    Numerics: sums are float64 on both sides and travel in the precision of the parameters.  U and the own
    part are rounded alike before they are subtracted, so a lone device has u = v = 0 exactly.  Where the
    others' Î has fallen to 0, u may lie below 0 by the rounding of the changes, 6e-8 of the former Î in
    float32: too little to make a loss concave that a mini-batch can see, so it is not clamped.
    Raises ValueError if λ is negative.
    """

    downloads: ClassVar[Collection[str]] = ("weights", *SUMS)
    uploads: ClassVar[Collection[str]] = ("weights", *SUMS)

    strength: float = 1.0
    """λ, the weight of the penalty; 0 is FedAvg."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= STRONGEST:
            raise ValueError(f"strength is {self.strength}; it must be from 0 (no penalty) to {STRONGEST:g}")

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:  # noqa: ARG002
        """The model, U and V, to all."""
        sums = {kind: _rounded(state[kind], state["weights"]) for kind in SUMS if kind in state}
        return Request({"weights": state["weights"]} | sums)

    def penalty(self, download: Message, device: Party) -> Curvature | None:
        """The curvature of the others: u and v are U and V without the device's own part."""
        if self.strength == 0 or "fisher" not in download:
            return None
        u, v = (_without(download[kind], device.memory.get(kind)) for kind in SUMS)
        return Curvature(self.strength, u, v)

    def train(self, download: Message, device: Party) -> Reply:
        """As FedAvg's, then the Fisher diagonal on the device's own examples; up go θ̂, Δu and Δv."""
        reply = super().train(download, device)
        weights = reply.upload["weights"]
        fisher = importance(device.model, device.loss, device.x, device.y, "sq")
        curvature = {name: value.double() for name, value in fisher.items()}
        new = {
            "fisher": curvature,
            "fisher_theta": {name: value * weights[name].double() for name, value in curvature.items()},
        }
        changes = {kind: _rounded(_minus(new[kind], device.memory.get(kind)), weights) for kind in SUMS}
        own = {kind: _plus(device.memory.get(kind), [changes[kind]]) for kind in SUMS}
        return replace(reply, upload=reply.upload | changes, if_counted=own)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        """The mean of the models; U and V advance by the sum of the changes."""
        uploads = [replies[name].upload for name in sorted(replies)]
        sums = {kind: _plus(state.get(kind), [upload[kind] for upload in uploads]) for kind in SUMS}
        return super().combine(state, replies, server) | sums

    def penalty_traffic(self, load: Load) -> float:
        """Parameter, u, v and gradient, once there is a curvature."""
        return PULL if self.strength and "fisher" in load.kinds else 0.0

    def device_work(self, load: Load) -> Work:
        """Training, then one gradient of each example."""
        fisher = Phase("fisher", load.examples, CHUNK, traffic=SQUARES * load.parameters)
        return (*super().device_work(load), fisher)

    def combine_work(self, load: Load) -> Work:
        """As FedAvg's, three times: θ, U and V."""
        return tuple(replace(phase, traffic=3 * phase.traffic) for phase in super().combine_work(load))


def _rounded(values: Tensors, weights: Tensors) -> Tensors:
    """In the precision in which the parameters travel."""
    return {name: value.to(weights[name].dtype) for name, value in values.items()}


def _without(total: Tensors, own: Tensors | None) -> Tensors:
    """A sum as received, without the own part of it, which is rounded in the same way first."""
    return total if own is None else {name: value - own[name].to(value.dtype) for name, value in total.items()}


def _minus(new: Tensors, old: Tensors | None) -> Tensors:
    return new if old is None else {name: value - old[name] for name, value in new.items()}


def _plus(total: Tensors | None, changes: Sequence[Tensors]) -> Tensors:
    """float64 sum; None stands for zeros."""
    return {
        name: sum(
            (change[name].double() for change in changes),
            torch.zeros_like(first, dtype=torch.float64) if total is None else total[name],
        )
        for name, first in changes[0].items()
    }
