"""Local training of a stack of devices: local.sgd, with each step for all of them together.

Each device draws its examples and its dropout as it does alone, so the results differ from the loop's only in rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import torch
from torch import Tensor

from algorithms.algorithm import Tensors
from algorithms.training import precision, stack_graph
from algorithms.training.augmenting import augmented
from algorithms.training.local import Sgd, order, steps
from algorithms.training.seeding import seeded
from algorithms.training.stack_batches import StepBatches, by_length, means_of, schedule, sums_of
from algorithms.training.stack_step import Stack, StackBatch


def sgd(tasks: Sequence[Sgd]) -> list[Tensors]:
    """Returns the trained weights of each task, as local.sgd does; the tasks are of one sort and of one model.

    Devices with the most steps come first, so that the devices still training are a slice of the stack.
    """
    places = by_length([_steps(task) for task in tasks])
    trained = _trained([tasks[k] for k in places])
    found = dict(zip(places, trained, strict=True))
    return [found[k] for k in range(len(tasks))]


def _steps(task: Sgd) -> int:
    return steps(len(task.device.y), task.training, task.device.steps)


def _trained(tasks: Sequence[Sgd]) -> list[Tensors]:
    """Returns the weights of each device after its last step."""
    training = tasks[0].training
    seeded(tasks[0].device.seed)  # for a user's own penalty that draws
    stack = Stack.of(tasks)
    x, y = (torch.cat([getattr(task.device, part) for task in tasks]) for part in "xy")
    sizes, seeds = [len(task.device.y) for task in tasks], [task.device.seed for task in tasks]
    counts = [_steps(task) for task in tasks]
    drawn = [
        [order(n, seed, epoch) for epoch in range(ceil(count / max(1, ceil(n / training.batch))))]
        for n, seed, count in zip(sizes, seeds, counts, strict=True)
    ]
    take = stack_graph.steps_of(stack)
    with precision.multiplying(training.precision):
        for step, batches in enumerate(schedule(drawn, training.batch, x.device, counts)):
            chosen = batches.of(x)
            for task, own, size in zip(tasks, chosen, batches.sizes.tolist(), strict=False):
                own[:size] = augmented(task.device, own[:size], step)
            dropout = stack.model.draw(seeds, step, chosen, batches.sizes.tolist())
            losses = take(StackBatch(chosen, batches.of(y), batches.counted, tuple(dropout)))
            _note(tasks, counts, step, losses, batches)
    rows = zip(*(value.unbind() for value in take.weights().values()), strict=True)  # one row for each device
    found = [dict(zip(stack.weights, row, strict=True)) for row in rows]
    for task, weights in zip(tasks, found, strict=True):
        task.device.own.update({name: weights.pop(name) for name in stack.kept})
    return found


def _note(tasks: Sequence[Sgd], counts: Sequence[int], step: int, losses: Tensor, batches: StepBatches) -> None:
    """Appends the mean losses of the batches in each device's last pass to the lists of the tasks that have one, and
    notes all losses (k, B) of the step for the devices whose server asks for them."""
    if any(task.losses is not None for task in tasks):
        for task, count, mean in zip(tasks, counts, means_of(losses, batches.counted), strict=False):
            if task.losses is not None and step >= count - ceil(len(task.device.y) / task.training.batch):
                task.losses.append(mean)
    if noting := tasks[0].device.losses:
        sums = sums_of(losses.double() ** noting.power, batches.counted)
        for task, total, size in zip(tasks, sums, batches.sizes.tolist(), strict=False):
            if task.device.losses:
                task.device.losses.add(total, size)
