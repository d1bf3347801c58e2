"""Placebos of an importance: the control of a study that tests if importance itself helps.

If a penalty does as well with a placebo, it helps by its stiffness, and not by the weights that it holds.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from algorithms.algorithm import Tensors

Placebo = Literal["none", "shuffled", "mean"]
OWN = 2**32 - 2  # keeps draws apart from those of training and of labels with the same seed (local.py, labels.py)


def replaced(importance: Tensors, placebo: Placebo, seed: int, round: int) -> Tensors:
    """Returns an importance or its placebo, tensor by tensor: the importance (none), its values in a random order
    (shuffled), or their mean, taken in float64, at each place (mean).

    `seed` is that of the party that estimated it, and `round` the one that it is for: another round or device draws
    another order. Drawn by numpy on the CPU, so the result does not depend on the importance's device. The declared
    work leaves this out: a control is charged as the original is. Its bytes are the original's, too, unless an encoding
    leaves zeros out: a mean is not 0 anywhere.
    """
    if placebo == "none":
        return importance
    if placebo == "mean":
        return {
            name: torch.empty_like(value).copy_(value.mean(dtype=torch.float64)) for name, value in importance.items()
        }
    sequence = np.random.SeedSequence(seed, spawn_key=(OWN, round))
    random = np.random.Generator(np.random.PCG64(sequence))
    found = {}
    for name, value in importance.items():
        order = torch.from_numpy(random.permutation(value.numel())).to(value.device)
        found[name] = value.flatten()[order].view(value.shape)
    return found
