"""Local training of a stack of devices: local.sgd, each step for all of them at once.

Each device draws its examples and its dropout as it does by itself, so the results differ from the loop's in rounding
only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from numpy import ndarray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from algorithms import precision
from algorithms.algorithm import Precision, Tensors, matches
from algorithms.dropout import DROPOUTS, mask
from algorithms.local import Descent, Pull, Sgd, lay_out, order, seeded_step, steps
from algorithms.stack_batches import Batches, by_length, schedule, stacked


def sgd(tasks: Sequence[Sgd]) -> list[Tensors]:
    """What local.sgd returns for each of these tasks, which are of one sort and of one model.

    Devices with the most steps come first, so those that train still are a slice of the stack.
    """
    places = by_length([steps(len(task.device.y), task.training) for task in tasks])
    trained = _Stack([tasks[k] for k in places]).trained()
    found = dict(zip(places, trained, strict=True))
    return [found[k] for k in range(len(tasks))]


class _Stack:
    """A round of local training of these devices, sorted by their numbers of steps."""

    def __init__(self, tasks: Sequence[Sgd]) -> None:
        self.tasks, first = tasks, tasks[0]
        self.training = first.training
        self.counts = [steps(len(task.device.y), self.training) for task in tasks]
        self.x = torch.cat([task.device.x for task in tasks])
        self.y = torch.cat([task.device.y for task in tasks])
        model = first.device.model.train()
        self.weights = {name: stacked([task.weights[name] for task in tasks]) for name in first.weights}
        trainable = (name for name, parameter in model.named_parameters() if parameter.requires_grad)
        self.names = [name for name in trainable if matches(name, first.only)]
        for name in self.names:
            self.weights[name] = self.weights[name].clone(memory_format=torch.contiguous_format)
        self.descent = Descent(self.training, first.device.round)
        self.dropout = _Dropout(model, [task.device.seed for task in tasks], self.training.precision)
        self.pulls = _joint([task.pulls for task in tasks])

    def trained(self) -> list[Tensors]:
        """The weights of each device after its last step."""
        orders = [self._orders(task) for task in self.tasks]
        with precision.multiplying(self.training.precision):
            for step, batches in enumerate(schedule(orders, self.training.batch, self.x.device)):
                self._step(step, batches)
        rows = zip(*(value.unbind() for value in self.weights.values()), strict=True)  # of each device
        return [dict(zip(self.weights, row, strict=True)) for row in rows]

    def _orders(self, task: Sgd) -> list[ndarray]:
        return [order(len(task.device.y), task.device.seed, epoch) for epoch in range(self.training.epochs)]

    def _step(self, step: int, batches: Batches) -> None:
        active = len(batches.places)
        weights = {name: value[:active] for name, value in self.weights.items()}
        theta = {name: weights[name].requires_grad_() for name in self.names}
        x, y = self.x[batches.places], self.y[batches.places]
        outputs = self.dropout.outputs({**weights, **theta}, x, step, batches.sizes)  # (k, B, classes)
        losses = self.tasks[0].device.loss(outputs.flatten(0, 1), y.flatten(0, 1)).view(y.shape[:2])
        means = batches.means(losses)  # (k,)
        found = torch.autograd.grad(means.sum(), list(theta.values()), allow_unused=True)
        with torch.no_grad():
            self._note(step, means.detach())
            self._descend({name: value.detach() for name, value in theta.items()}, dict(zip(theta, found, strict=True)))

    def _note(self, step: int, means: Tensor) -> None:
        """The mean losses of the last epoch's batches."""
        for task, count, mean in zip(self.tasks, self.counts, means, strict=False):
            if task.losses is not None and step >= count - count // self.training.epochs:
                task.losses.append(mean)

    def _descend(self, theta: Tensors, found: Mapping[str, Tensor | None]) -> None:
        # Contiguous as the parameters are: the fused kernel looks at no strides.
        grads = {name: grad.contiguous() for name, grad in found.items() if grad is not None}
        if self.pulls:  # which reach parameters that the loss does not reach
            grads = {name: grads[name] if name in grads else torch.zeros_like(value) for name, value in theta.items()}
            for name, grad in grads.items():
                self.pulls(name, theta[name], grad)
        self.descent.step(theta, grads)


# ---- dropout


class _Masked(nn.Module):
    """In the place of a dropout layer: multiplies by what was drawn before."""

    def __init__(self, masks: list[Tensor]) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, x: Tensor) -> Tensor:
        return x * self.masks.pop(0)


class _Dropout:
    """Outputs of the model for all devices of a stack, each with the dropout that it draws by itself."""

    def __init__(self, model: nn.Module, seeds: Sequence[int], how: Precision) -> None:
        self.seeds, self.drawing, self.precision = seeds, model, how
        self.masks: list[Tensor] = []  # of the step under way, in the order of the layers
        self.ones: dict[int, list[tuple[nn.Module, Tensor]]] = {}  # by number of examples: layers, their inputs' form
        self.model, self.draws = self._masked(model)
        if self.draws and next(model.parameters()).device.type != "cpu":  # on a GPU, too, the masks are the CPU's
            self.drawing = copy.deepcopy(model).to_empty(device="cpu")  # for the forms alone

    def _masked(self, model: nn.Module) -> tuple[nn.Module, bool]:
        if not any(type(layer) in DROPOUTS for layer in model.modules()):
            return model, False
        masked = copy.deepcopy(model)
        for name, layer in model.named_modules():
            if type(layer) in DROPOUTS:
                masked.set_submodule(name, _Masked(self.masks))
        return masked, True

    def outputs(self, weights: Tensors, x: Tensor, step: int, sizes: Tensor) -> Tensor:
        """For x (k, B, ...), of which each device's first `sizes` count."""
        masks = self._drawn(x, step, sizes.tolist()) if self.draws else ()

        def one(weights: Tensors, x: Tensor, *masks: Tensor) -> Any:
            self.masks[:] = masks
            return functional_call(self.model, weights, (x,))

        return precision.outputs(self.precision, x.device, lambda: vmap(one)(weights, x, *masks))

    def _drawn(self, x: Tensor, step: int, sizes: Sequence[int]) -> Sequence[Tensor]:
        """The masks of each layer, (k, B, ...)."""
        rows = []
        for seed, own, size in zip(self.seeds, x, sizes, strict=False):
            ones = self._ones(own[:size])
            seeded_step(seed, step)
            rows.append([_filled(mask(layer, one), len(own)) for layer, one in ones])
        return [torch.stack(layer).to(x.device) for layer in zip(*rows, strict=True)]

    def _ones(self, x: Tensor) -> list[tuple[nn.Module, Tensor]]:
        """The dropout layers in the order in which the model calls them, with ones in the form of their inputs."""
        if len(x) not in self.ones:
            calls = self.ones[len(x)] = []

            def call(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                calls.append((layer, torch.ones_like(inputs[0])))

            layers = [layer for layer in self.drawing.modules() if type(layer) in DROPOUTS]
            hooks = [layer.register_forward_pre_hook(call) for layer in layers]
            lay_out(self.drawing, torch.channels_last)  # as in local.sgd: what is drawn follows the inputs' strides
            try:
                with torch.no_grad():
                    self.drawing(x if x.device.type == "cpu" else torch.zeros_like(x, device="cpu"))
            finally:
                lay_out(self.drawing, torch.contiguous_format)
                for hook in hooks:
                    hook.remove()
        return self.ones[len(x)]


def _filled(drawn: Tensor, batch: int) -> Tensor:
    """With rows for the examples that fill up a short batch."""
    more = batch - len(drawn)
    return torch.cat([drawn, drawn[:1].expand(more, *drawn.shape[1:])]) if more else drawn


# ---- penalties


def _joint(pulls: Sequence[Sequence[Pull]]) -> Pull | None:
    """The pulls of all devices, (k, ...) at a time, of which each device has as many; k may get smaller."""
    if not pulls[0]:
        return None
    joint = [_of_all(each) for each in zip(*pulls, strict=True)]

    def pull(name: str, parameter: Tensor, grad: Tensor) -> None:
        for each in joint:
            each(name, parameter, grad)

    return pull


def _of_all(pulls: Sequence[Pull]) -> Pull:
    together = _coordinatewise(pulls)
    cut: dict[int, Any] = {}  # by how many devices train still

    def each(name: str, parameter: Tensor, grad: Tensor) -> None:
        for pull, own, its in zip(pulls, parameter, grad, strict=False):
            pull(name, own, its)

    def all_at_once(name: str, parameter: Tensor, grad: Tensor) -> None:
        if len(grad) not in cut:
            cut.clear()
            cut[len(grad)] = _first(together, len(grad))
        cut[len(grad)](name, parameter, grad)

    return each if together is None else all_at_once


def _coordinatewise(pulls: Sequence[Pull]) -> Any:
    """One for all devices, with stacked tensors; None if there is no such thing."""
    first: Any = pulls[0]
    if not is_dataclass(first) or not getattr(first, "coordinatewise", False):
        return None
    found: dict[str, Tensors] = {}
    for field in fields(first):
        values = [getattr(pull, field.name) for pull in pulls]
        if isinstance(values[0], Mapping):
            found[field.name] = {name: stacked([value[name] for value in values]) for name in values[0]}
        elif field.compare and any(value != values[0] for value in values):
            return None
    return replace(first, **found)  # type: ignore[type-var]


def _first(pull: Any, count: int) -> Any:
    """The same for the first devices."""
    tensors = {field.name: getattr(pull, field.name) for field in fields(pull)}
    cut = {key: {n: v[:count] for n, v in of.items()} for key, of in tensors.items() if isinstance(of, Mapping)}
    return replace(pull, **cut)
