"""Dropout of a network that is not on the CPU: each mask is computed from one number, which the CPU's generator draws.

So a step has the same masks alone, in a stack, and when it is repeated, and a GPU computes them as fast as it
multiplies by them: the CPU needs 6.8 ns for each value, most of the time of a round.
"""

from __future__ import annotations

from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from algorithms.training import transfers

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_ANY = -(2**63), 2**63 - 1  # range of the numbers from which masks are computed
# SplitMix64 (Steele, Lea & Flood 2014), as signed numbers.
_STEP, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def counter_based(model: nn.Module) -> nn.Module:
    """Makes the model's dropout layers take their masks from `mask` in train mode, unless their inputs are on the CPU;
    returns the model."""
    for layer in model.modules():
        if type(layer) in DROPOUTS:
            layer.forward = partial(_forward, layer)
    return model


def _forward(layer: nn.Module, x: Tensor) -> Tensor:
    if not layer.training or not transfers.elsewhere(x.device):
        as_it_was: Tensor = type(layer).forward(layer, x)
        return as_it_was
    return x * mask(layer, x, keys(1)[0].to(x.device))


def keys(calls: int, generator: torch.Generator | None = None) -> Tensor:
    """Returns the numbers from which the masks of `calls` calls are computed, in order: (calls,) int64, drawn from this
    generator, or from torch's own CPU generator (seeding.seeded)."""
    return torch.randint(*_ANY, (calls,), generator=generator)


def mask(layer: nn.Module, x: Tensor, key: Tensor) -> Tensor:
    """Returns the mask by which this dropout layer multiplies inputs like x (n, ...); `key` () is one of `keys`.

    Entry i, in the order of the indices, is 0 if the i-th half of SplitMix64's numbers from this key is below p; the
    lower half of each number comes first.  Layers of images drop whole channels.
    """
    p: float = layer.p  # type: ignore[assignment]
    if p >= 1:
        return torch.zeros_like(x)
    shape = tuple(x.shape) if isinstance(layer, nn.Dropout) else (*x.shape[:2], *[1] * (len(x.shape) - 2))
    count = prod(shape)
    place = torch.arange(1, count // 2 + 2, device=x.device)
    z = place * _STEP + key
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    z ^= _shifted(z, 31)
    least = int(p * 2**32)
    kept = torch.stack([(z & (2**32 - 1)) >= least, _shifted(z, 32) >= least], -1).flatten()[:count]
    return (kept.to(x.dtype) / (1 - p)).view(shape)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Returns z shifted to the right as an unsigned number."""
    return torch.bitwise_and(torch.bitwise_right_shift(z, bits), 2 ** (64 - bits) - 1)


@torch.no_grad()
def mask_on_cpu(layer: nn.Module, ones: Tensor) -> Tensor:
    """Draws the mask of a dropout layer on the CPU for inputs in the form of `ones`, on whose strides it also
    depends."""
    drawn: Tensor = layer(ones)
    return drawn
