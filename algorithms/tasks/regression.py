"""One number, or several, for each example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.tasks import measures
from algorithms.tasks.task import Metric, Task


def _alike(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns outputs and targets as (n, k) of the outputs' dtype, so that (n,) and (n, 1) go together.

    Raises ValueError for targets that are not floating-point numbers, and for other numbers of outputs.
    """
    if not targets.is_floating_point():
        raise ValueError(f"targets are {targets.dtype}; regression needs floating-point numbers")
    flat, wanted = (each.unsqueeze(-1).flatten(1) for each in (outputs, targets))
    if flat.shape != wanted.shape:
        raise ValueError(f"outputs have shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}")
    return flat, wanted.to(flat.dtype)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean squared error of each example, (n,)."""
    said, wanted = _alike(outputs, targets)
    return (said - wanted).square().mean(1)


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean absolute error of each example, (n,)."""
    said, wanted = _alike(outputs, targets)
    return (said - wanted).abs().mean(1)


def pairs(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the targets and the outputs of each example, (n, 2 k)."""
    said, wanted = _alike(outputs, targets)
    return torch.cat([wanted, said], 1)


class Regression(Task):
    """The mean squared error; targets are floating-point numbers, (n,) or (n, k), and so are outputs."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "mse": Metric(squared, lower=True),
        "mae": Metric(absolute, lower=True),
        "r2": Metric(pairs, measures.r2),
    }

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return squared(outputs, targets)
