"""Placebos of an importance: the control of a study that tests if importance itself helps.

If a penalty does equally well with a placebo, it helps by its stiffness, and not by its choice of weights.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from algorithms.algorithm import Tensors

Placebo = Literal["none", "shuffled", "mean"]
OWN = 2**32 - 2  # no other draw with this seed has this key (local.step_seed; importance.OWN, of drawn labels)


def replaced(importance: Tensors, placebo: Placebo, seed: int, round: int) -> Tensors:
    """Returns an importance or its placebo, tensor by tensor: the importance (none), its values in a random order
    (shuffled), or their mean, computed in float64, in each coordinate (mean).

    `seed`: of the party that estimated it; `round`: the round in which it is used; another round or device draws
    another order.  Drawn by numpy on the CPU, so the result does not depend on the importance's device.  The declared
    work does not include this: a control is charged as the original is.  Its bytes are the original's, too, unless an
    encoding leaves zeros out, because a mean is nowhere 0.
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
