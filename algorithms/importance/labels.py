"""Labels and losses other than those of the data, for importance.py: labels drawn from the model's own predictions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.algorithm import Loss
from algorithms.models import answers
from algorithms.training.local import PIECE
from algorithms.training.seeding import drawing

OWN = 2**32 - 1  # separates draws from those of training with the same seed: a step that no round reaches (local.py)


def norm(outputs: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001  it needs no labels
    """Returns ‖f(x)‖² of each example (Aljundi et al. 2018, Eq. 3)."""
    return outputs.flatten(1).square().sum(1)


def at_label(loss: Loss, label: int) -> Loss:
    """Returns √p(label | x), held fixed, times the loss with that label, so that squared gradients are weighted by
    p."""

    def weighed(outputs: Tensor, y: Tensor) -> Tensor:
        root = answers(outputs, y).detach().softmax(1)[:, label].sqrt()
        return root * loss(outputs, torch.full_like(y, label))

    return weighed


@torch.no_grad()
def drawn(model: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
    """Returns labels drawn from the softmax of the model's outputs, in the shape of `y`; positions without a label
    (below 0) keep their value."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(OWN,))))
    labels = []
    with drawing(seed):  # some networks draw in eval mode, too
        for some_x, some_y in zip(torch.split(x, PIECE), torch.split(y, PIECE), strict=True):
            said = answers(model(some_x), some_y).cpu()  # on a GPU the order of a cumulative sum is not deterministic
            reached = said.double().softmax(-1).cumsum(-1)  # (*some_y's shape, classes)
            chance = torch.from_numpy(random.random(tuple(some_y.shape))).unsqueeze(-1)
            label = (reached[..., :-1] < chance).sum(-1).to(y.device)  # the last class takes what rounding leaves
            labels.append(torch.where(some_y < 0, some_y, label))
    return torch.cat(labels)
