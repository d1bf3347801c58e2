"""Gradients of a model's parameters: of each batch's mean loss, and summed over single examples as |g| or g²."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from algorithms.algorithm import Loss, Tensors
from algorithms.training.tensors import call, trainable
from algorithms.training.unfused import twice_differentiable, unfused_attention

Power = Literal["abs", "sq"]
POWER: dict[Power, Callable[[Tensor], Tensor]] = {"abs": torch.abs, "sq": torch.square}
# A constant, independent of free memory: a sum's last bits depend on where it is split.
VMAP_CHUNK = 8  # examples whose whole gradients are held together: 53 MB for 1.66 M float32 parameters


def gradients(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, batch: int) -> Iterator[tuple[int, Tensors]]:
    """Yields, for each batch in the order given, its number of examples and the gradient of its mean loss."""
    weights = trainable(model)
    for some_x, some_y in chunks(x, y, batch):
        mean = losses_of(loss, model(some_x), some_y).mean()
        found = torch.autograd.grad(mean, list(weights.values()), allow_unused=True, materialize_grads=True)
        yield len(some_y), dict(zip(weights, found, strict=True))


def zeros(model: nn.Module) -> Tensors:
    """Returns float64 zeros in the shape of each trainable parameter."""
    return {n: torch.zeros(p.shape, dtype=torch.float64, device=p.device) for n, p in trainable(model).items()}


def chunks(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields x and y in pieces of `size` examples; the last one may be shorter."""
    return zip(torch.split(x, size), torch.split(y, size), strict=True)


def losses_of(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    """Returns the loss of each example, (n,). Raises ValueError if the loss has another shape."""
    losses = loss(outputs, y)
    if losses.shape != y.shape[:1]:
        raise ValueError(f"the loss has shape {tuple(losses.shape)}; it must be one number per example, ({len(y)},)")
    return losses


def alone(model: nn.Module) -> bool:
    """Returns true if each example's gradient needs a backward of its own, as in networks with recurrent layers.

    torch.func cannot map over a GRU or LSTM with the default initial state, and elsewhere it is slower than a loop:
    0.96 s an example, not 0.18 (character GRU of 4 M parameters, 80 characters, 1 thread).
    """
    return any(isinstance(module, nn.RNNBase) for module in model.modules())


def one_by_one(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Power) -> Tensors:
    """Returns sums of |g| or g² over the examples, from whole gradients of VMAP_CHUNK examples at a time, or of single
    examples for a network that torch.func cannot map over."""
    if not alone(model):
        try:
            return _mapped(model, loss, x, y, kind)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            pass  # such as for a torch.autograd.Function without rules; an error of the network itself recurs
    sums, power = zeros(model), POWER[kind]
    with twice_differentiable():
        for _, gradient in gradients(model, loss, x, y, batch=1):
            for name, g in gradient.items():
                sums[name] += power(g)
    return sums


def _mapped(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Power) -> Tensors:
    """Returns the sums by torch.func.  A network that draws, draws for each example.  Raises RuntimeError for a network
    with an operation that vmap does not know."""
    sums, power = zeros(model), POWER[kind]
    weights = {name: parameter.detach() for name, parameter in trainable(model).items()}

    def one(weights: Tensors, some_x: Tensor, some_y: Tensor) -> Tensor:
        outputs = call(model, weights, some_x[None])
        return losses_of(loss, outputs, some_y[None]).sum()

    of_each = vmap(grad(one), in_dims=(None, 0, 0), randomness="different")
    with unfused_attention():
        for some_x, some_y in chunks(x, y, VMAP_CHUNK):
            for name, g in of_each(weights, some_x, some_y).items():  # (n, *parameter)
                sums[name] += power(g).sum(0)
    return sums
