"""Layers of a stack of devices, each with weights of its own, as matrix products.

On a GPU a convolution with as many groups as devices is slower, because cuDNN processes groups one by one
(docs/scaling.md has the figures).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS = {nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus}  # elementwise
TAKE_STACKS = {nn.Sequential, nn.Flatten, nn.Linear, nn.Dropout, nn.Identity, *ACTIVATIONS}


def instead_of(layer: nn.Module, on_cpu: bool = False) -> type[nn.Module] | None:
    """Returns the class that computes the layer in a stack; None if the layer needs no other class."""
    if type(layer) is nn.Linear:
        return StackLinear
    return StackConv if not on_cpu and _plain(layer) else None


def takes_stacks(model: nn.Module) -> bool:
    """Returns true for a plain sequence of layers that accept a stack's inputs and weights directly, with the devices'
    axis first.  Other networks need vmap, which takes 0.5 ms more per step."""
    layers = list(model.modules())
    hooked = any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)
    return not hooked and all(type(layer) in TAKE_STACKS for layer in layers)


class StackFlatten(nn.Flatten):
    """(k, B, ...) -> (k, B, inputs), for k devices; its axes do not include the devices' axis."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name for it
        """Flattens, as torch does."""
        return input.flatten(*(at + (at >= 0) for at in (self.start_dim, self.end_dim)))


def _plain(layer: nn.Module) -> bool:
    """Returns true for a convolution of images with one group, step 1 and no gaps."""
    return (
        type(layer) is nn.Conv2d
        and (layer.groups, layer.stride, layer.dilation) == (1, (1, 1), (1, 1))
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


class StackLinear(nn.Linear):
    """(..., inputs) -> (..., outputs); with the weights (k, outputs, inputs) of k devices (k, B, ..., inputs) -> (k, B,
    ..., outputs).

    Its weights' gradient is one product in the weights' memory order, so the step of SGD needs no copy of it; on a CPU,
    where products in the other order are slow, training takes half or a quarter of the time.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name for it
        """Returns input Wᵀ + bias, as torch does."""
        stacked = self.weight.dim() == 3
        x = (input.flatten(1, -2) if stacked else input.reshape(-1, self.in_features)).mT
        added = torch.baddbmm if stacked else torch.addmm
        said = self.weight @ x if self.bias is None else added(self.bias[..., None], self.weight, x)
        return said.mT.reshape(*input.shape[:-1], self.out_features)


class StackConv(nn.Conv2d):
    """(n, c, h, w) -> (n, channels, H, W), channels last."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name for it
        """Returns the convolution, as torch does."""
        last, (down, across) = input.permute(0, 2, 3, 1), map(int, self.padding)
        if down or across:
            last = F.pad(last, [0, 0, across, across, down, down])
        patches: Tensor = _Patches.apply(last, *self.kernel_size)  # type: ignore[no-untyped-call]
        weight = self.weight.permute(2, 3, 1, 0).reshape(-1, self.out_channels)
        flat = patches.reshape(-1, patches.shape[-1])
        said = flat @ weight if self.bias is None else torch.addmm(self.bias, flat, weight)
        return said.view(*patches.shape[:3], self.out_channels).permute(0, 3, 1, 2)


def _wide(x: Tensor) -> Tensor:
    """Returns a view of the same bytes, as 16-byte numbers if possible, because a GPU then computes fewer addresses to
    copy it."""
    wide = x.shape[3] * x.element_size() % 16 == 0 and x.storage_offset() * x.element_size() % 16 == 0
    return x.view(torch.complex128) if wide else x


class _Patches(torch.autograd.Function):
    """(n, h, w, c) -> (n, H, W, a b c): at each position of an a x b kernel, all inputs under the kernel, row by row.

    Its gradient adds the a b pieces in a fixed order, so that its bits are the same each time.
    """

    @staticmethod
    def forward(x: Tensor, a: int, b: int) -> Tensor:
        (n, h, w, c), kind = x.shape, x.dtype
        x = _wide(x.contiguous())
        image, row, place, _ = x.stride()
        size = (n, h - a + 1, w - b + 1, a, b * x.shape[3])
        seen = x.as_strided(size, (image, row, place, row, 1), x.storage_offset()).contiguous()
        return seen.view(kind).view(n, h - a + 1, w - b + 1, a * b * c)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:  # noqa: ARG004
        ctx.shape, ctx.size = inputs[0].shape, inputs[1:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (n, h, w, c), (a, b) = ctx.shape, ctx.size
        pieces = grad.reshape(n, h - a + 1, w - b + 1, a, b, c)
        found = grad.new_zeros(ctx.shape)
        for i in range(a):
            for j in range(b):
                found[:, i : i + h - a + 1, j : j + w - b + 1] += pieces[:, :, :, i, j]
        return found, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None, None], x: Tensor, a: int, b: int) -> tuple[Tensor, int]:
        """Treats the images of all devices as one batch."""
        x = x.movedim(in_dims[0], 0)
        found: Tensor = _Patches.apply(x.flatten(0, 1), a, b)  # type: ignore[no-untyped-call]
        return found.view(info.batch_size, -1, *found.shape[1:]), 0
