"""FLOPs of operations that torch's counter gets wrong or does not know: 2 for each multiply-add, from their shapes.

Torch's own formula for the gradient of a convolution's weights ignores groups, so that it charges a depthwise layer of
96 channels 96 times (torch 2.13).  It does not count products with a vector, products of three factors, as in
nn.Bilinear, nor products that are added in place.  Fourier transforms and matrix decompositions count as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

Shape = Sequence[int]

aten = torch.ops.aten


def counter() -> FlopCounterMode:
    """Returns torch's counter of FLOPs, with the formulas of this module (FORMULAS)."""
    return FlopCounterMode(display=False, custom_mapping=dict(FORMULAS))


def _product(one: Shape, two: Shape, **_: Any) -> int:
    """Returns the FLOPs of (..., n, k) times (..., k, m), (n, k) times (k,), or (k,) times (k,)."""
    return 2 * prod(one) * (two[-1] if len(two) > 1 else 1)


def _added(_: Shape, one: Shape, two: Shape, **__: Any) -> int:
    """Returns the FLOPs of a product that is added to another tensor."""
    return _product(one, two)


def _outer(one: Shape, two: Shape, **_: Any) -> int:
    """Returns the FLOPs of (n,) times (m,): as (n, 1) times (1, m)."""
    return 2 * prod(one) * prod(two)


def _multiplied(one: Shape, two: Shape | float, **_: Any) -> int:
    """Returns the FLOPs of an outer product in torch's form, for example for the gradient of a matrix that multiplied a
    vector: (n, 1) * (m,).

    Every other elementwise product only moves floats and counts as 0.
    """
    column = len(one) == 2 and one[1] == 1
    return _outer(one, two) if column and isinstance(two, Sequence) and len(two) == 1 else 0


def _distances(one: Shape, two: Shape, **_: Any) -> int:
    """Returns the FLOPs of the products in ‖a - b‖² of (n, k) and (m, k), taken as ‖a‖² + ‖b‖² - 2 a·b."""
    return 2 * prod(one) * two[0]


def _convolution_backward(grad: Shape, x: Shape, weight: Shape, *more: Any, **_: Any) -> int:
    """Returns the FLOPs of a convolution's gradients with respect to its inputs and its weights (outputs, inputs /
    groups, *kernel), as far as they are wanted; each takes as many as a forward pass."""
    _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups, wanted = more
    positions, gradients = (x if transposed else grad)[2:], [each for each in wanted[:2] if each]
    return len(gradients) * 2 * x[0] * prod(positions) * prod(weight)


def _convolution_over_time(_: Shape, weight: Shape, *__: Any, out_shape: Shape, **___: Any) -> int:
    """Returns the FLOPs of a convolution over time, of (positions, n, inputs) with the weights (kernel, inputs,
    outputs)."""
    return 2 * prod(out_shape[:2]) * prod(weight)


def _trilinear(one: Shape, two: Shape, three: Shape, *lacks: Any, **_: Any) -> int:
    """Returns the FLOPs of Σᵢⱼ aᵢ Wₖᵢⱼ bⱼ for each example, or of one of its gradients: the large product with W, and a
    small one.

    `lacks`: for each factor the axes, of (examples, outputs, first inputs, second inputs), that it does not have.
    """
    sizes: dict[int, int] = {}
    for shape, lacking in zip((one, two, three), lacks[:3], strict=True):
        own = [axis for axis in range(len(shape) + len(lacking)) if axis not in lacking]
        sizes.update(zip(own, shape, strict=True))
    every = prod(sizes.values())
    return 2 * (every + every // max(size for axis, size in sizes.items() if axis))


FORMULAS: Mapping[Any, Callable[..., int]] = {
    **dict.fromkeys((aten.mv, aten.dot, aten.vdot), _product),
    **dict.fromkeys((aten.addmv, aten.addmv_, aten.addmm_, aten.baddbmm_), _added),
    **dict.fromkeys((aten.addbmm, aten.addbmm_), _added),
    **dict.fromkeys((aten.addr, aten.addr_), lambda _, one, two, **__: _outer(one, two)),
    aten.mul: _multiplied,
    aten._euclidean_dist: _distances,
    aten.conv_tbc: _convolution_over_time,
    aten.convolution_backward: _convolution_backward,
    aten._trilinear: _trilinear,
}
