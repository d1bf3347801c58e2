"""The steps of local training that fit into a scenario's `seconds` on a device: by its profile, known before training.

Prices (emulator/pricing/) and jobs ask here for the same number, so that what is charged is what is trained.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from algorithms import models
from algorithms.algorithm import MOST_STEPS, Load
from algorithms.counting.cost import Meter
from algorithms.networks import Network
from algorithms.tasks.task import Task
from devices.data.dataset import Form, Target
from emulator.lab.faulty import Faulty
from emulator.lab.lab import Lab
from emulator.record.work import TRAINING
from scenarios.builders.own_code import kept_for_a_call


def load_of(lab: Lab, label: str, seed: int, turn: int, examples: int, **more: Any) -> Load:
    """Returns the sizes on which the work of a round depends."""
    return Load(
        turn,
        examples,
        sum(parameter.numel() for parameter in lab.module.parameters() if parameter.requires_grad),
        proxy=len(lab.splits[seed].proxy),
        devices=len(lab.fleet),
        asked=lab.asked.get(label, 1),
        lossy=lab.lossy(label),
        **more,
    )


@contextmanager
def priceable(label: str) -> Iterator[None]:
    """A context that prices work which an algorithm declares: an error becomes Faulty, unless it is this machine's."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # from the algorithm's numbers, or from torch during a pass through the model
        raise Faulty(label, "", f"declares work that has no price: {error}") from None


def steps_of(lab: Lab, label: str, name: str, load: Load) -> int:
    """Returns the number of steps whose training phases take at most the `seconds` of the algorithm's training on this
    device, without jitter, heat and absences; at least 1; 0 if the training has no such limit.

    Raises Faulty if the algorithm declares too little work to reach the limit, or work that has no price.
    """
    algorithm, device = lab.algorithms[label], lab.fleet[name]
    limit = algorithm.training.seconds
    if not limit:
        return 0
    meter = meter_of(lab.model, lab.data.form, lab.data.target, lab.task)

    def seconds(steps: int) -> float:
        phases = [each for each in algorithm.device_work(replace(load, steps=steps)) if each.name == TRAINING]
        with priceable(label):
            return sum(device.seconds(meter.step(phase), meter.steps(phase)) for phase in phases)

    if seconds(MOST_STEPS) <= limit:
        what = f"declares work of {seconds(MOST_STEPS):.3g} s for {MOST_STEPS} steps; its device_work must depend on"
        raise Faulty(label, "", f"{what} load.steps, or training.seconds, which is {limit:g}, must be lower")
    return max(1, bisect_right(range(1, MOST_STEPS), limit, key=seconds))


@kept_for_a_call(maxsize=8)
def meter_of(model: Network, form: Form, target: Target, task: Task) -> Meter:
    """Returns the meter of a network on examples and targets of these forms (devices.data.dataset).

    All runs of this process share it, because counting takes longer than a round of a small scenario.
    """
    _, shape, text, _ = form
    dtype = torch.int64 if text else torch.float32
    return Meter(models.build(model, 0, *form), shape, task, dtype, *target)
