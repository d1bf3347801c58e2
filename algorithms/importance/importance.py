"""Estimates of the importance of weights: means of |g| or g², where g is the gradient of one example's loss or of a
batch's mean loss.

Gradients are taken in eval mode and on a private copy of the model: the caller's modes, gradients and hooks do not
change.  For single examples, networks of plain Linear and Conv2d layers need one backward for many examples
(batched.py); all others use `torch.func` (gradients.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from algorithms import course
from algorithms.algorithm import Loss, Party, Tensors
from algorithms.course import Course, structure
from algorithms.importance.batched import CHUNK, in_chunks
from algorithms.importance.gradients import Power, gradients, one_by_one, zeros
from algorithms.tasks.task import logits_of
from algorithms.training.as_built import restore
from algorithms.training.copied import copied
from algorithms.training.local import PIECE
from algorithms.training.seeding import drawing
from algorithms.training.tensors import BATCH_NORMS, load, mapped, trainable, travelling

Kind = Literal["abs", "sq", "true", "sampled", "mas", "batch_squared", "mean_squared", "tensor_scalar"]
MEANING: dict[str, str] = {
    "abs": "mean |g|",
    "sq": "mean g², the empirical Fisher diagonal",
    "true": "mean over the examples of Σ_c p(c | x) g_c², g_c the gradient were the label c: the Fisher diagonal",
    "sampled": "mean g² with labels drawn from the model, one for each example",
    "mas": "mean |∂‖f(x)‖² / ∂θ|, which needs no labels",
    "batch_squared": "mean over batches of the squared mean gradient of a batch",
    "mean_squared": "the squared gradient of the mean loss over all examples",
    "tensor_scalar": "one number for each parameter: the same squares summed over batches and coordinates, over n",
}


def importance(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, *, seed: int = 0, batch: int = 64
) -> Tensors:
    """Returns the importance of each trainable parameter for these examples, of a kind in MEANING.

    "abs" is FedCL's Ω, in each coordinate (Yao & Sun, Eq. 1-2), "tensor_scalar" that of its authors' code, "mas" that
    of Aljundi et al. 2018, Eq. 3; "sq" is the Fisher diagonal of EWC and FedCurv, and "true", "sampled",
    "batch_squared" and "mean_squared" are other readings of it (docs/design/algorithms.md §9).  `seed` draws the labels
    of "sampled"; `batch` is the number of examples whose mean gradient is squared, in the order given; the last batch
    may be shorter.  Sums are in float64; the means have each parameter's own type and shape ("tensor_scalar": ()).
    Memory does not grow with the number of examples.  Raises ValueError for another kind, for no examples, for a loss
    that is not one number per example, for several labels per example ("true"), and for a model whose examples affect
    each other.
    """
    return course.alone(_mean(copied(model).eval(), loss, x, y, kind, seed, batch))


def estimating(device: Party, weights: Tensors, kind: Kind, seed: int = 0, batch: int = 64) -> Course[Tensors]:
    """Returns a course (course.py) that computes the `importance` of a party's examples at these weights."""
    restore(device.model)
    private = copied(device.model)
    load(private, {**weights, **device.own})
    return _mean(private.eval(), device.loss, device.x, device.y, kind, seed, batch)


def _mean(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, seed: int, batch: int) -> Course[Tensors]:
    if kind not in MEANING:
        told = ", ".join(f"{known!r} ({meaning})" for known, meaning in MEANING.items())
        raise ValueError(f"kind is {kind!r}; an importance is {told}")
    if len(x) == 0 or len(x) != len(y):
        raise ValueError(f"x has {len(x)} examples and y has {len(y)}; both need the same number, at least one")
    for name, module in model.named_modules():
        if isinstance(module, BATCH_NORMS) and module.running_mean is None:
            raise ValueError(
                f"layer {name!r} normalises over the batch even in eval mode: no example has its own gradient"
            )
    types = {name: parameter.dtype for name, parameter in trainable(model).items()}
    if not types:
        return {}
    count = {"batch_squared": ceil(len(x) / batch), "mean_squared": 1}.get(kind, len(x))
    sums = yield from _sums_of(model, loss, x, y, kind, seed, batch)
    return {name: (sums[name] / count).to(types[name]) for name in travelling(model)}


@dataclass(frozen=True)
class Summed:
    """A computation of a course: sums over the examples of |g| ("abs") or g² ("sq"), in float64, where g is the
    gradient of one example's loss.

    `label`: the label for which the loss is taken (`at_label`); None: each example's own, `y`.  The model is in eval
    mode.
    """

    model: nn.Module
    loss: Loss
    x: Tensor
    y: Tensor
    kind: Power
    label: int | None = None

    @property
    def sort(self) -> Hashable:
        return self.kind, self.label, id(self.loss), structure(self.model)

    @property
    def weighed(self) -> Loss:
        """The loss that is differentiated: `loss`, or `at_label` of it if there is a `label`."""
        return self.loss if self.label is None else at_label(self.loss, self.label)

    def alone(self) -> Tensors:
        """Returns the sums for one device, by name of the parameter, without a stack of other devices."""
        given = self.model, self.weighed, self.x, self.y, self.kind
        with drawing(0):  # some networks draw in eval mode, too
            sums = in_chunks(*given)
            return one_by_one(*given) if sums is None else sums


@dataclass(frozen=True)
class BatchSquares:
    """A computation of a course: sums over batches, in the order given, of the squared gradient of a batch's mean loss,
    in float64."""

    model: nn.Module
    loss: Loss
    x: Tensor
    y: Tensor
    batch: int

    @property
    def sort(self) -> Hashable:
        return self.batch, id(self.loss), structure(self.model)

    def alone(self) -> Tensors:
        """Returns the sums for one device, by name of the parameter, without a stack of other devices."""
        sums = zeros(self.model)
        with drawing(0):
            for _, gradient in gradients(self.model, self.loss, self.x, self.y, self.batch):
                for name, g in gradient.items():
                    sums[name].addcmul_(g, g)  # in float64
        return sums


@dataclass(frozen=True)
class Slope:
    """A computation of a course: the gradient of the mean loss over all examples, in float64, from chunks of CHUNK
    examples.  The model is in eval mode."""

    model: nn.Module
    loss: Loss
    x: Tensor
    y: Tensor

    @property
    def sort(self) -> Hashable:
        return id(self.loss), structure(self.model)

    def alone(self) -> Tensors:
        """Returns the gradient for one device, by name of the parameter, without a stack of other devices."""
        mean = zeros(self.model)
        with drawing(0):  # some networks draw in eval mode, too
            for examples, gradient in gradients(self.model, self.loss, self.x, self.y, CHUNK):
                for name, g in gradient.items():
                    mean[name].add_(g, alpha=examples / len(self.x))
        return mean


def _sums_of(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, seed: int, batch: int) -> Course[Tensors]:
    """Returns, in float64, the sums whose mean is the importance."""
    if kind == "batch_squared":
        return (yield BatchSquares(model, loss, x, y, batch))
    if kind == "tensor_scalar":
        squares = yield BatchSquares(model, loss, x, y, batch)
        return {name: value.sum() for name, value in squares.items()}
    if kind == "mean_squared":
        slope = yield Slope(model, loss, x, y)
        return {name: value.square() for name, value in slope.items()}
    if kind == "true":
        return (yield from _expected(model, loss, x, y))
    if kind == "sampled":
        return (yield Summed(model, loss, x, drawn(model, loss, x, y, seed), "sq"))
    if kind == "mas":
        return (yield Summed(model, norm, x, y, "abs"))
    return (yield Summed(model, loss, x, y, kind))


def _expected(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Course[Tensors]:
    """Returns, for each trainable parameter, the sum over the examples of Σ_c p(c | x) g_c², where g_c is the gradient
    of an example's loss if its label were c."""
    if y.dim() != 1:
        raise ValueError(f"y has shape {tuple(y.shape)}; the exact sum over labels needs one label per example, (n,)")
    with torch.no_grad():
        classes = model(x[:1]).shape[-1]
    sums = zeros(model)
    for label in range(classes):
        found = yield Summed(model, loss, x, y, "sq", label)
        for name, total in found.items():
            sums[name] += total
    return sums


OWN = 2**32 - 1  # a step number that no round reaches: so training with this seed draws otherwise (local.step_seed)


def norm(outputs: Any, y: Tensor) -> Tensor:  # noqa: ARG001  it needs no labels
    """Returns ‖f(x)‖² of each example (Aljundi et al. 2018, Eq. 3), over all of its outputs."""
    found: list[Tensor] = []
    mapped(lambda each: found.append(each.unsqueeze(-1).flatten(1).square().sum(1)), outputs)
    return torch.stack(found).sum(0) if len(found) > 1 else found[0]


def at_label(loss: Loss, label: int) -> Loss:
    """Returns a loss that ignores the examples' labels: the given loss for `label`, times √p(label | x), which is not
    differentiated.  The squares of its gradients are therefore weighted by p."""

    def weighed(outputs: Tensor, y: Tensor) -> Tensor:
        root = logits_of(loss)(outputs, y).detach().softmax(1)[:, label].sqrt()
        return root * loss(outputs, torch.full_like(y, label))

    return weighed


@torch.no_grad()
def drawn(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, seed: int) -> Tensor:
    """Returns labels drawn from the softmax of the model's outputs, in the shape of `y`; positions without a label
    (below 0) keep their value."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(OWN,))))
    labels = []
    with drawing(seed):  # some networks draw in eval mode, too
        for some_x, some_y in zip(torch.split(x, PIECE), torch.split(y, PIECE), strict=True):
            said = logits_of(loss)(model(some_x), some_y)
            said = said.cpu()  # on a GPU the order of a cumulative sum is not deterministic
            reached = said.double().softmax(-1).cumsum(-1)  # (*some_y's shape, classes)
            chance = torch.from_numpy(random.random(tuple(some_y.shape))).unsqueeze(-1)
            label = (reached[..., :-1] < chance).sum(-1).to(y.device)  # the last class takes what rounding leaves
            labels.append(torch.where(some_y < 0, some_y, label))
    return torch.cat(labels)
