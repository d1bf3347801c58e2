"""Parties that the tests of algorithms share: a small network, and examples drawn from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Party, Tensors
from algorithms.training.seeding import seeded
from tests.all_of import all_of


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs, y, reduction="none")


def same_bits(a: Tensors, b: Tensors) -> bool:
    """Returns true if two models have the same tensors.  Raises AssertionError if they have none."""
    return a.keys() == b.keys() and all_of(torch.equal(a[name], b[name]) for name in a)


def cnn(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """A convolution, dropout and a dense layer for images (n, 1, 4, 4) of three classes; equal in all calls."""
    seeded(3)
    layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3)
    return nn.Sequential(*layers).to(dtype)


def party(
    model: nn.Module,
    name: str = "a",
    n: int = 20,
    *,
    draw: int = 0,
    shape: tuple[int, ...] = (1, 4, 4),
    classes: int = 3,
    devices: int = 5,
    round: int = 0,
    seed: int = 0,
    **more: Any,
) -> Party:
    """A party with n examples in the model's dtype, drawn from the seed `draw`; `more` are further fields."""
    generator, dtype = torch.Generator().manual_seed(draw), next(model.parameters()).dtype
    x = torch.randn(n, *shape, generator=generator, dtype=dtype)
    y = torch.randint(classes, (n,), generator=generator)
    given = {"round": round, "cycle": 0, "seed": seed, "loss": cross_entropy, **more}
    return Party(name, devices, model, x=x, y=y, **given)
