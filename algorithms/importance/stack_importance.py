"""Importance on a stack of devices: the passes of importance.py, for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from algorithms.algorithm import Loss, Tensors
from algorithms.importance.batched import CHUNK, chunk_sums, layers_of
from algorithms.importance.gradients import POWER
from algorithms.importance.importance import BatchSquares, Slope, Summed
from algorithms.training.seeding import drawing
from algorithms.training.stack_batches import StepBatches, by_length, means_of, schedule, stacked, sums_of
from algorithms.training.tensors import call, trainable


def summed(tasks: Sequence[Summed]) -> list[Tensors]:
    """Returns the same sums as Summed.alone for each task: computed together if all trainable layers of the model are
    dense and used once, otherwise one by one.

    As in chunk_sums: the gradient of a dense layer's weight is an outer product, and so are its squares.
    """
    first = tasks[0]
    dense = all(type(layer) is nn.Linear for layer in layers_of(first.model).values())
    if not dense or chunk_sums(first.model, first.weighed, first.x[:1], first.y[:1], first.kind) is None:
        return [task.alone() for task in tasks]
    return _added(tasks, CHUNK, _Examples.chunk, first.weighed)


def batch_squares(tasks: Sequence[BatchSquares]) -> list[Tensors]:
    """Returns the same sums as BatchSquares.alone for each task, computed together."""
    return _added(tasks, tasks[0].batch, _Examples.squares, tasks[0].loss)


def slopes(tasks: Sequence[Slope]) -> list[Tensors]:
    """Returns the same gradients as Slope.alone for each task, computed together."""
    return _added(tasks, CHUNK, _Examples.slopes, tasks[0].loss)


def _added(
    tasks: Sequence[Summed] | Sequence[BatchSquares] | Sequence[Slope],
    batch: int,
    values: Callable[[_Examples, StepBatches], Tensors],
    loss: Loss,
) -> list[Tensors]:
    """Returns, for each task, the sums over all batches of what `values` gives for a batch."""
    stack = _Examples(tasks, loss)
    sums = stack.zeros()
    with drawing(0):  # as for a single device
        for batches in stack.schedule(batch):
            for name, total in values(stack, batches).items():
                sums[name][: len(total)] += total
    return stack.apart(sums)


class _Examples:
    """The devices of a stack, ordered by decreasing number of examples, each with its own weights."""

    def __init__(self, tasks: Sequence[Summed] | Sequence[BatchSquares] | Sequence[Slope], loss: Loss) -> None:
        self.places = by_length([len(task.y) for task in tasks])
        self.tasks = [tasks[k] for k in self.places]
        self.model, self.loss = tasks[0].model, loss
        self.x, self.y = (torch.cat([getattr(task, part) for task in self.tasks]) for part in "xy")
        models = [dict([*task.model.named_parameters(), *task.model.named_buffers()]) for task in self.tasks]
        self.weights = {name: stacked([model[name].detach() for model in models]) for name in models[0]}
        self.names = list(trainable(self.model))

    def schedule(self, batch: int) -> Iterator[StepBatches]:
        """Yields batches of each device's examples in the order given."""
        return schedule([[np.arange(len(task.y))] for task in self.tasks], batch, self.x.device)

    def zeros(self) -> Tensors:
        shapes = {name: self.weights[name].shape for name in self.names}
        return {name: torch.zeros(shape, dtype=torch.float64, device=self.x.device) for name, shape in shapes.items()}

    def apart(self, sums: Tensors) -> list[Tensors]:
        """Splits stacked sums, one row for each device, into one dict for each device, in the order of the tasks and
        not of the rows."""
        found = {k: {name: value[row] for name, value in sums.items()} for row, k in enumerate(self.places)}
        return [found[k] for k in range(len(found))]

    def losses(self, outputs: Tensor, batches: StepBatches) -> Tensor:
        """Returns the loss of each example, (k, B), from outputs (k, B, ...) for the batches of k devices."""
        y = batches.of(self.y)
        return self.loss(outputs.flatten(0, 1), y.flatten(0, 1)).view(y.shape[:2])

    def squares(self, batches: StepBatches) -> Tensors:
        """Returns the squared gradients of the batches' mean losses, (k, *shape)."""
        means = partial(means_of, counted=batches.counted)
        return {name: grad.double().square_() for name, grad in self._gradients(batches, means).items()}

    def slopes(self, batches: StepBatches) -> Tensors:
        """Returns what the batches' examples add to the gradients of the devices' mean losses, (k, *shape)."""
        sizes = torch.tensor([len(task.y) for task in self.tasks[: len(batches.places)]], device=self.x.device)
        return self._gradients(batches, lambda losses: sums_of(losses, batches.counted) / sizes)

    def _gradients(self, batches: StepBatches, reduced: Callable[[Tensor], Tensor]) -> Tensors:
        """Returns the gradients (k, *shape) of the losses (k,) that `reduced` makes of the examples' losses (k, B)."""
        weights = {name: value[: len(batches.places)] for name, value in self.weights.items()}
        theta = [weights[name].requires_grad_() for name in self.names]
        outputs = vmap(lambda w, x: call(self.model, w, x))(weights, batches.of(self.x))
        total = reduced(self.losses(outputs, batches)).sum()
        found = torch.autograd.grad(total, theta, allow_unused=True, materialize_grads=True)
        return dict(zip(self.names, found, strict=True))

    def chunk(self, batches: StepBatches) -> Tensors:
        """Returns, for each parameter, each device's sum of |g| or g² over the examples of its batch, (k, *shape)."""
        k, width = batches.places.shape
        weights = {name: value[:k] for name, value in self.weights.items()}
        layers = {name: layer for name, layer in layers_of(self.model).items() if isinstance(layer, nn.Linear)}
        probes = {
            name: weights[_of(name, "weight")].new_zeros(k, width, layer.out_features).requires_grad_()
            for name, layer in layers.items()
        }
        outputs, inputs = vmap(self._probed)(weights, batches.of(self.x), probes)
        total = sums_of(self.losses(outputs, batches), batches.counted).sum()
        deltas = torch.autograd.grad(total, list(probes.values()), allow_unused=True, materialize_grads=True)
        sums: Tensors = {}
        power = POWER[self.tasks[0].kind]  # type: ignore[union-attr]
        for (name, layer), delta in zip(layers.items(), deltas, strict=True):
            if layer.weight.requires_grad and name in inputs:
                sums[_of(name, "weight")] = power(delta).mT @ power(inputs[name])  # |δᵢ aⱼ| = |δᵢ| |aⱼ|
            if layer.bias is not None and layer.bias.requires_grad:
                sums[_of(name, "bias")] = power(delta).sum(1)
        return sums

    def _probed(self, weights: Tensors, x: Tensor, probes: Tensors) -> tuple[Tensor, Tensors]:
        """Returns the outputs, and each dense layer's inputs.  To each layer's outputs a probe is added, so that the
        probe's gradient is that of the outputs."""
        inputs: Tensors = {}

        def probe(name: str, layer: nn.Module) -> torch.utils.hooks.RemovableHandle:
            def hook(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
                inputs[name] = given[0].detach()
                return output + probes[name]

            return layer.register_forward_hook(hook)

        hooks = [probe(name, layer) for name, layer in layers_of(self.model).items()]
        try:
            outputs: Tensor = call(self.model, weights, x)
            return outputs, inputs
        finally:
            for hook in hooks:
                hook.remove()


def _of(layer: str, part: str) -> str:
    return f"{layer}.{part}" if layer else part
