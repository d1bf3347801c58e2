"""Dropout of a network that is not on the CPU: its masks are those that the CPU draws, so that they are the same
wherever the network is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # what they draw is what they make of ones


def drawn_on_the_cpu(model: nn.Module) -> nn.Module:
    """The model, whose dropout layers from now on draw from torch's CPU generator (local.seeded), in train mode."""
    for layer in model.modules():
        if type(layer) in DROPOUTS:
            layer.register_forward_hook(_masked)
    return model


def _masked(layer: nn.Module, inputs: tuple[Tensor, ...], _output: Tensor) -> Tensor | None:
    x = inputs[0]
    if not layer.training or x.device.type == "cpu":
        return None  # as it was
    return x.mul(mask(layer, torch.ones_like(x, device="cpu")).to(x.device))


@torch.no_grad()
def mask(layer: nn.Module, ones: Tensor) -> Tensor:
    """What a dropout layer multiplies by inputs of the form of these ones; what it draws follows their strides, too."""
    drawn: Tensor = layer(ones)
    return drawn
