"""Optimisers on the server: the mean of the devices' models is where a step leads, not the step itself."""

from __future__ import annotations

from torch import nn

from algorithms.algorithm import Tensors


def change(model: nn.Module, before: Tensors, mean: Tensors) -> Tensors:
    """Δ_t = Σ_k p_k (θ^k - θ_t) of each trainable parameter, float64 (Reddi et al. 2021, Alg. 1, line 9).

    `mean` is the mean of the devices' models; `model` tells parameters from buffers, its values mean nothing.
    """
    trainable = (name for name, parameter in model.named_parameters() if parameter.requires_grad)
    return {name: mean[name].double() - before[name].double() for name in trainable}


def stepped(mean: Tensors, change: Tensors, step: Tensors) -> Tensors:
    """θ_t + step, with all else, buffers, as in the mean.  A step that equals the change is the mean to the bit."""
    moved = {name: (mean[name].double() + (value - change[name])).to(mean[name].dtype) for name, value in step.items()}
    return {**mean, **moved}
