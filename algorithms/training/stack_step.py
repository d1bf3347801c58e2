"""A step of local training for all devices of a stack together, and its tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from algorithms.algorithm import Tensors, matches
from algorithms.training.as_built import restore
from algorithms.training.local import Pull, Sgd
from algorithms.training.optimizers import Descent, descent
from algorithms.training.pulls import changed, joined, mappings, others
from algorithms.training.stack_batches import means_of, stacked
from algorithms.training.stack_model import StackModel, stack_model
from algorithms.training.tensors import mapped

PLAIN = (int, float, str, bool, type(None))  # types of a pull's fields that a recorded step may contain


@dataclass(frozen=True)
class StackBatch:
    """The input of a step: k devices' examples (k, B, ...) and labels; which of them count (k, B), None for all; and
    the masks or keys of dropout."""

    x: Tensor
    y: Tensor
    counted: Tensor | None
    drawn: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        """Returns all tensors of the batch, in the order that `made_of` takes."""
        return [self.x, self.y, *([] if self.counted is None else [self.counted]), *self.drawn]

    def made_of(self, tensors: Sequence[Tensor]) -> StackBatch:
        """Returns a batch like this one with other tensors."""
        x, y, *rest = tensors
        return StackBatch(x, y, None if self.counted is None else rest.pop(0), tuple(rest))


@dataclass(frozen=True)
class Stack:
    """The tensors that a round's steps change in place; each has the devices' axis first."""

    model: StackModel
    loss: Callable[[Tensor, Tensor], Tensor]
    names: Sequence[str]  # names of the trained parameters
    weights: Tensors
    descent: Descent
    pulls: Sequence[JointPull]
    kept: Collection[str] = ()  # names of tensors that travel nowhere, which no pull reaches

    @classmethod
    def of(cls, tasks: Sequence[Sgd]) -> Stack:
        first = tasks[0]
        restore(first.device.model)
        model = first.device.model.train()
        trainable = (name for name, parameter in model.named_parameters() if parameter.requires_grad)
        names = [name for name in trainable if matches(name, first.only)]
        kept = tuple(first.device.own)
        weights = {name: stacked([task.weights[name] for task in tasks]) for name in first.weights}
        weights |= {name: stacked([task.device.own[name] for task in tasks]) for name in kept}
        for name in names:
            weights[name] = weights[name].clone(memory_format=torch.contiguous_format)
        pulls = [JointPull.of(each, first.weights) for each in zip(*(task.pulls for task in tasks), strict=True)]
        optimizer = descent(first.training, first.device.round, stacked=True)
        return cls(stack_model(model).as_built(), first.device.loss, names, weights, optimizer, pulls, kept)

    def step(self, batch: StackBatch) -> Tensor:
        """Takes one step of as many devices as the batch has, the first ones; returns their losses (k, B)."""
        active = len(batch.y)
        weights = {name: value[:active] for name, value in self.weights.items()}
        theta = {name: weights[name].requires_grad_() for name in self.names}
        how = self.descent.training.precision
        outputs = self.model.outputs(how, {**weights, **theta}, batch.x, batch.drawn)  # (k, B, classes)
        flat = mapped(lambda each: each.flatten(0, 1), outputs)
        losses = self.loss(flat, batch.y.flatten(0, 1)).view(batch.y.shape[:2])
        means = means_of(losses, batch.counted)
        found = torch.autograd.grad(means.sum(), list(theta.values()), allow_unused=True)
        with torch.no_grad():
            self._descend({name: value.detach() for name, value in theta.items()}, dict(zip(theta, found, strict=True)))
        return losses.detach()

    def _descend(self, theta: Tensors, found: Mapping[str, Tensor | None]) -> None:
        # Contiguous as the parameters are, because the fused kernel ignores strides.
        grads = {name: grad.contiguous() for name, grad in found.items() if grad is not None}
        if self.pulls or self.descent.training.clip_norm:  # both change gradients in place
            grads = _apart(grads)
        if self.pulls:  # pulls also reach parameters that the loss does not reach
            grads = {name: grads[name] if name in grads else torch.zeros_like(value) for name, value in theta.items()}
            for name, grad in grads.items():
                for pull in self.pulls if name not in self.kept else ():
                    pull(name, theta[name], grad)
        self.descent.step(theta, grads)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Stack:
        """Returns a copy that has `change(t)` in place of each tensor t."""
        weights = {name: change(value) for name, value in self.weights.items()}
        pulls = [pull.mapped(change) for pull in self.pulls]
        return replace(self, weights=weights, descent=self.descent.mapped(change), pulls=pulls)

    def tensors(self) -> list[Tensor]:
        """Returns all its tensors, always in the same order."""
        pulls = [tensor for pull in self.pulls for tensor in pull.tensors()]
        return [*self.weights.values(), *self.descent.tensors(), *pulls]


def _apart(grads: Tensors) -> Tensors:
    """Returns the gradients, each in memory of its own: autograd gives parameters that are only added the same one."""
    places = [grad.data_ptr() for grad in grads.values()]
    return {name: grad.clone() if places[k] in places[:k] else grad for k, (name, grad) in enumerate(grads.items())}


@dataclass(frozen=True)
class JointPull:
    """The pulls of a stack's devices as one pull, for tensors (k, ...) of the first k devices; k may decrease from step
    to step."""

    pulls: Sequence[Pull]  # one per device
    together: Any = None  # one for all, with stacked tensors; None if they cannot be joined
    cut: dict[int, Any] = field(default_factory=dict, compare=False)  # `together` for the first k devices, by k

    @classmethod
    def of(cls, pulls: Sequence[Pull], weights: Tensors) -> JointPull:
        """Returns the joint pull of these pulls, which are of one form; `weights`: those of one device, for the
        shapes."""
        return cls(pulls, joined(pulls, weights, stacked))

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        """Adds each device's pull at `parameter` (k, ...) to its row of `grad` (k, ...), in place."""
        if self.together is None:
            for pull, own, its in zip(self.pulls, parameter, grad, strict=False):
                pull(name, own, its)
            return
        if len(grad) not in self.cut:
            self.cut.clear()
            self.cut[len(grad)] = changed(self.together, lambda value: value[: len(grad)])
        self.cut[len(grad)](name, parameter, grad)

    def tensors(self) -> list[Tensor]:
        """Returns the tensors of the joined pull."""
        return [tensor for tensors in mappings(self.together).values() for tensor in tensors.values()]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> JointPull:
        """Returns a copy that has `change(t)` in place of each tensor t."""
        return self if self.together is None else JointPull(self.pulls, changed(self.together, change))

    @property
    def recordable(self) -> bool:
        """True if steps with pulls of one `sort` differ only in tensors, so that a recorded step can be replayed."""
        return self.together is not None and all(isinstance(value, PLAIN) for value in others(self.together))

    @property
    def sort(self) -> Hashable:
        """A key that is equal for pulls that differ only in the values of their tensors."""
        names = tuple((key, tuple(tensors)) for key, tensors in mappings(self.together).items())
        return type(self.together), names, tuple(others(self.together))
