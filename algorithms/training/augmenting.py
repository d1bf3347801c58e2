"""Random changes of training examples, which each device draws for each step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from algorithms.algorithm import Party
from algorithms.training.seeding import drawing

OWN = 1  # begins the spawn keys of augmentation: dropout draws otherwise (local.step_seed)


def augmented(device: Party, x: Tensor, step: int) -> Tensor:
    """Returns the examples x (B, ...) of this step of the round as the device augments them, one by one; `x` itself if
    it does not.

    The draws depend on the device's seed and the step alone, and the global generators continue as if nothing had been
    drawn.  So a step may be repeated, and dropout is the same as without augmentation.
    """
    if device.augment is None:
        return x
    seed = np.random.SeedSequence(device.seed, spawn_key=(OWN, step)).generate_state(1)[0]
    with drawing(int(seed)):
        return torch.stack([device.augment(example) for example in x])
