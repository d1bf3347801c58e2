"""How many devices train as one stack: what a scenario's `training.stack` comes to.

It follows from the model, the shape of its examples and the batches, never from the machine or its workers: which
devices train together decides the last bits of their models.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms import models, stack
from algorithms.algorithm import Party, Training
from algorithms.as_built import has_changed, remember
from algorithms.fedavg import FedAvg, stackable
from algorithms.seeding import drawing
from algorithms.tensors import tensors_of
from devices.data.dataset import Dataset
from emulator.lab.guarded import unguarded
from scenarios.builders import plugins
from scenarios.schema import rounds
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario

MOST = 25  # devices in a stack of `auto`: more make it hardly faster, and leave workers without work
PARAMETERS = (
    120_000  # of a model that `auto` stacks, at most: 1.5 to 7 times as fast as the loop; of 200,000, 1.1 to 1.4
)
BATCH = 64  # examples in its steps, at most: with more, arithmetic takes most of a step of the loop too


def resolved(scenario: Scenario, data: Dataset) -> Scenario:
    """The scenario without `auto`: stacks are numbers, 1 for a model that cannot be stacked, and the network model
    is the one that is used."""

    def number(training: rounds.Training) -> int:
        return size(scenario.model, data, training.batch, training.stack)

    def own(entry: Entry) -> Entry:
        said = entry.options.get("training") or {}
        if "stack" not in said:
            return entry
        training = {**said, "stack": number(plugins.training_of(entry, scenario.training))}
        return entry.model_copy(update={"options": {**entry.options, "training": training}})

    training = scenario.training.model_copy(update={"stack": number(scenario.training)})
    network = scenario.network.model_copy(update={"model": scenario.network_model})
    algorithms = tuple(map(own, scenario.algorithms))
    return scenario.model_copy(update={"training": training, "network": network, "algorithms": algorithms})


def size_of(entry: Entry, algorithm: Any, scenario: Scenario) -> int:
    """Under this algorithm of a resolved scenario: 1 if its devices train one by one."""
    stacks = stackable(type(unguarded(algorithm)))
    found = plugins.training_of(entry, scenario.training).stack if stacks else 1
    assert isinstance(found, int)
    return found


def size(model: str, data: Dataset, batch: int, said: int | str = "auto") -> int:
    """How many devices train together, where a scenario says `auto` or a number."""
    wanted = _that_pay(model, data.classes, batch) if said == "auto" else int(said)
    return wanted if wanted == 1 or _can_be_stacked(model, data) else 1


def _that_pay(model: str, classes: int, batch: int) -> int:
    """Only dense layers are known to: a convolution keeps a core busy by itself."""
    module = models.build(model, 0, classes)
    layers = [layer for layer in module.modules() if any(True for _ in layer.parameters(recurse=False))]
    parameters = sum(parameter.numel() for parameter in module.parameters())
    small = parameters <= PARAMETERS and batch <= BATCH
    return MOST if small and all(type(layer) is nn.Linear for layer in layers) else 1


_tried: dict[tuple[Any, ...], bool] = {}


def _can_be_stacked(model: str, data: Dataset) -> bool:
    """Whether a trial on two devices with three examples gives what the loop gives."""
    key = (model, data.classes, data.x.shape[1:], data.y.shape[1:], data.x.dtype)
    if key not in _tried:
        _tried[key] = _trial(models.build(model, 0, data.classes), data)
    return _tried[key]


def _trial(model: nn.Module, data: Dataset) -> bool:
    remember(model)
    weights = {name: value.clone() for name, value in tensors_of(model).items()}
    if weights.keys() != {name for name, _ in model.named_parameters()}:  # it has buffers
        return False
    x, y = torch.from_numpy(data.x[:3]), torch.from_numpy(data.y[:3])
    devices = [
        Party("", 2, model, models.cross_entropy, x[some], y[some], round=0, cycle=0, seed=seed)
        for seed, some in enumerate((slice(0, 2), slice(2, 3)))
    ]
    algorithm, download = FedAvg(Training(epochs=2, batch=2, lr=0.01)), {"weights": weights}
    try:
        with warnings.catch_warnings(action="error"):  # torch warns where it would go through the devices one by one
            found = stack.train(algorithm, [download] * 2, devices)
        wanted = [algorithm.train(download, device) for device in devices]
        if has_changed(model) or _draws(model, x):  # a stack would keep and draw one thing for all its devices
            return False
    except Exception:  # a user's own code may do what torch.func.vmap cannot, and raise anything then
        return False
    pairs = zip(found, wanted, strict=True)
    return all(
        torch.allclose(one.upload["weights"][name], value, rtol=1e-3, atol=1e-5, equal_nan=True)
        for one, other in pairs
        for name, value in other.upload["weights"].items()
    )


def _draws(model: nn.Module, x: torch.Tensor) -> bool:
    """Whether it draws from Python's or NumPy's generator, as torch.func.vmap cannot see."""
    with drawing(0):
        before = _states()
        model.train()(x)
        return before != _states()


def _states() -> tuple[Any, ...]:
    numpys: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), numpys[1].tobytes(), numpys[2:]
