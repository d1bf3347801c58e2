"""Training and importance for oracle.py: float64, one step after another, one example after another.

A model is one vector of all parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import cos, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from algorithms.algorithm import Party, Tensors, Training
from algorithms.importance import importance as drawn_labels
from algorithms.importance import placebo as orders
from algorithms.training.local import order, step_seed

Pull = Callable[[Tensor], Tensor]  # θ -> what a penalty adds to the gradient


class Net:
    """A network as a function of one vector θ."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.shapes = {name: parameter.shape for name, parameter in module.named_parameters()}

    def vector(self, tensors: Tensors) -> Tensor:
        """Returns these tensors, one for each parameter, as one vector."""
        return torch.cat([tensors[name].detach().double().flatten() for name in self.shapes])

    def layers(self, vector: Tensor) -> list[Tensor]:
        """Returns the vector's part for each parameter tensor."""
        return list(vector.split([shape.numel() for shape in self.shapes.values()]))

    def named(self, globs: str) -> Tensor:
        """Returns 1 where the parameter's name matches one of the globs, otherwise 0."""
        told = [float(any(fnmatchcase(name, glob) for glob in globs.split())) for name in self.shapes]
        return torch.cat(
            [torch.full_like(part, is_) for part, is_ in zip(self.layers(self.zeros()), told, strict=True)]
        )

    def zeros(self) -> Tensor:
        return torch.zeros(sum(shape.numel() for shape in self.shapes.values()), dtype=torch.float64)

    def outputs(self, theta: Tensor, x: Tensor, seed: int | None = None) -> Tensor:
        """Returns the outputs in train mode with dropout of this seed, or in eval mode."""
        self.module.train(seed is not None)
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        parts = zip(self.shapes.items(), self.layers(theta), strict=True)
        return functional_call(self.module, {name: part.view(shape) for (name, shape), part in parts}, (x.double(),))

    def slope(self, theta: Tensor, x: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns the gradient of `value`, a number, of the outputs in eval mode."""
        leaf = theta.clone().requires_grad_()
        return torch.autograd.grad(value(self.outputs(leaf, x)), leaf)[0]

    def gradient(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Returns the gradient of the mean cross entropy of these examples, in eval mode."""
        return self.slope(theta, x, lambda said: F.cross_entropy(said, y))


# ---- local training (docs/design/algorithms.md §1)


def rate_of(how: Training, t: int) -> float:
    """Returns the learning rate of global round t."""
    if how.lr_schedule == "exponential":
        return how.lr * how.lr_decay**t
    return how.lr_end + (how.lr - how.lr_end) * (1 + cos(pi * min(t / how.lr_rounds, 1))) / 2


@dataclass
class Walk:
    """A round of SGD: the places θ_0 ... θ_T, and the batches' mean losses and their gradients at the first T."""

    places: list[Tensor]
    losses: list[float] = field(default_factory=list)
    slopes: list[Tensor] = field(default_factory=list)


def still(theta: Tensor) -> Tensor:
    """Returns no pull."""
    return torch.zeros_like(theta)


def sgd(net: Net, theta: Tensor, party: Party, how: Training, pull: Pull = still, only: Any = 1) -> Walk:
    """Returns a round of SGD: v ← m v + g + pull(θ) + w θ, θ ← θ - η v, v = 0 at first; `only`: 1 where θ moves."""
    walk, v, rate, n = Walk([theta]), net.zeros(), rate_of(how, party.round), len(party.y)
    for epoch in range(how.epochs):
        drawn = order(n, party.seed, epoch)
        for start in range(0, n, how.batch):
            some = torch.from_numpy(drawn[start : start + how.batch])
            leaf = theta.clone().requires_grad_()
            said = net.outputs(leaf, party.x[some], step_seed(party.seed, len(walk.slopes)))
            loss = F.cross_entropy(said, party.y[some])
            (slope,) = torch.autograd.grad(loss, leaf)
            v = how.momentum * v + slope + pull(theta) + how.weight_decay * theta
            theta = theta - rate * v * only
            walk.losses.append(float(loss.detach()))
            walk.slopes.append(slope)
            walk.places.append(theta)
    return walk


# ---- importance (§4, §5, readings 1, 9 and 10)


def importance(net: Net, theta: Tensor, party: Party, kind: str, batch: int = 64) -> Tensor:
    """Returns the importance of each weight for the party's examples, in eval mode."""
    x, y, n = party.x, party.y, len(party.y)

    def slope(k: int, label: int) -> Tensor:
        return net.gradient(theta, x[k : k + 1], torch.tensor([label]))

    if kind == "abs":
        return sum(slope(k, int(y[k])).abs() for k in range(n)) / n
    if kind in ("sq", "empirical"):
        return sum(slope(k, int(y[k])) ** 2 for k in range(n)) / n
    if kind == "mas":
        return sum(net.slope(theta, x[k : k + 1], lambda said: (said**2).sum()).abs() for k in range(n)) / n
    if kind in ("exact", "sampled"):
        chances = [torch.softmax(net.outputs(theta, x[k : k + 1])[0], 0).tolist() for k in range(n)]
        if kind == "exact":
            return sum(p * slope(k, label) ** 2 for k in range(n) for label, p in enumerate(chances[k])) / n
        drawn = np.random.default_rng(np.random.SeedSequence(party.seed, spawn_key=(drawn_labels.OWN,))).random(n)
        labels = [int(np.searchsorted(np.cumsum(chances[k])[:-1], drawn[k])) for k in range(n)]
        return sum(slope(k, labels[k]) ** 2 for k in range(n)) / n
    if kind == "mean_squared":
        return net.gradient(theta, x, y) ** 2
    squares = [net.gradient(theta, x[at : at + batch], y[at : at + batch]) ** 2 for at in range(0, n, batch)]
    if kind == "batch_squared":
        return sum(squares) / len(squares)
    assert kind == "tensor_scalar", kind
    return torch.cat([part.sum().expand_as(part) / n for part in net.layers(sum(squares))])


def replaced(net: Net, values: Tensor, placebo: str, seed: int, t: int) -> Tensor:
    """Returns the placebo of an importance: each tensor's mean, or its values in a random order."""
    if placebo == "none":
        return values
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(orders.OWN, t)))
    return torch.cat(
        [
            part.mean().expand_as(part) if placebo == "mean" else part[torch.from_numpy(random.permutation(len(part)))]
            for part in net.layers(values)
        ]
    )
