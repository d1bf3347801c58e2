"""Placebos of an importance: the control of a study which asks whether importance is what helps.

If a penalty does as well with a placebo, it helps by how stiff it is, and not by which weights it holds.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from algorithms.algorithm import Tensors

Placebo = Literal["none", "shuffled", "mean"]
OWN = 2**32 - 2  # keeps draws apart from those of training and of labels with the same seed (local.py, labels.py)


def replaced(importance: Tensors, placebo: Placebo, seed: int, round: int) -> Tensors:
    """What stands for an estimated importance, tensor by tensor: itself (none), its values in an order drawn at random
    (shuffled), or their mean, taken in float64, at each place (mean).

    `seed` is that of the party that estimated it, and `round` the one that it is for: another round or device draws
    another order.  Drawn by numpy on the CPU, so it is the same wherever the importance lies.  What this takes is not
    in the declared work: a control is charged as the original is.  Its bytes are the original's, too, unless an
    encoding leaves zeros out: where a mean stands there are none.
    """
    if placebo == "none":
        return importance
    if placebo == "mean":
        return {name: _mean(value) for name, value in importance.items()}
    sequence = np.random.SeedSequence(seed, spawn_key=(OWN, round))
    random = np.random.Generator(np.random.PCG64(sequence))
    return {name: _shuffled(value, random) for name, value in importance.items()}


def _mean(value: Tensor) -> Tensor:
    return torch.empty_like(value).copy_(value.mean(dtype=torch.float64))


def _shuffled(value: Tensor, random: np.random.Generator) -> Tensor:
    order = torch.from_numpy(random.permutation(value.numel())).to(value.device)
    return value.flatten()[order].view(value.shape)
