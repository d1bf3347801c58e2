"""Chooses the number of devices that train as one stack, for a scenario's `training.stack`.

It depends on the model, the shape of its examples, the batches, the number of devices asked per round, and on training
on a GPU; never on the number of workers or the speed of the machine.  The composition of stacks affects the last bits
of models, so the number is part of the resolved scenario, and a resumed run keeps it on any device.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms import models, stack
from algorithms.algorithm import Party, Training
from algorithms.fedavg import FedAvg, stackable
from algorithms.networks import Network
from algorithms.tasks.task import Task
from algorithms.training.as_built import has_changed, remember
from algorithms.training.copied import copied
from algorithms.training.dropout import DROPOUTS
from algorithms.training.seeding import drawing
from algorithms.training.tensors import as_input, kept_of, mapped, tensors_of
from devices.data.dataset import Dataset
from emulator.lab.guarded import unguarded
from emulator.lab.lab import CPU, Lab, task_named
from scenarios.builders import networks, plugins
from scenarios.builders.own_code import before_each_call
from scenarios.schema import training as schema
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario

MOST = 25  # devices in a stack of `auto` on a CPU; larger models gain little from more
SMALL, MOST_SMALL = 10_000, 250  # parameters up to which more devices pay, and how many: 1.6 to 2 times as fast as 25
STACKS = 4  # stacks in a cohort, at least, if stacks have MOST devices: a single stack would leave workers idle
PARAMETERS = 250_000  # most parameters of a model that `auto` stacks: 1.9 to 3 times as fast as the loop
BATCH = 64  # examples per step, at most: with more, arithmetic dominates the loop's steps, too
MOST_ON_GPU = 50  # as in pfl-research's benchmark, the measured case (docs/scaling.md)
PARAMETERS_ON_GPU = 250_000_000  # most parameters of a whole stack: some 5 GB with gradients, momenta and uploads


def resolved(scenario: Scenario, data: Dataset, place: str = CPU) -> Scenario:
    """Returns the scenario with a value in place of each `auto`, for devices that train at this place (a device of
    torch).

    The sizes of stacks become numbers, 1 for a model that cannot be stacked, and the network model becomes the one that
    is used.
    """

    model = networks.network(scenario)

    def number(training: schema.Training, asked: int = scenario.asked) -> int:
        return size(model, data, training.batch, asked, training.stack, place, scenario.task.name)

    def own(entry: Entry) -> Entry:
        said = entry.options.get("training") or {}
        if "stack" not in said:
            return entry
        training = {
            **said,
            "stack": number(plugins.training_of(entry, scenario.training), scenario.under(entry.name).asked),
        }
        return entry.model_copy(update={"options": {**entry.options, "training": training}})

    training = scenario.training.model_copy(update={"stack": number(scenario.training)})
    network = scenario.network.model_copy(update={"model": scenario.network_model})
    algorithms = tuple(map(own, scenario.algorithms))
    return scenario.model_copy(update={"training": training, "network": network, "algorithms": algorithms})


def size_of(entry: Entry, algorithm: Any, scenario: Scenario) -> int:
    """Returns the number of devices in a stack of this algorithm, in a resolved scenario; 1 if they train one by
    one."""
    stacks = stackable(unguarded(algorithm))
    found = plugins.training_of(entry, scenario.training).stack if stacks else 1
    assert isinstance(found, int)
    return found


def size(
    model: str | Network,
    data: Dataset,
    batch: int,
    asked: int,
    said: int | str = "auto",
    place: str = CPU,
    task: str = "classification",
) -> int:
    """Returns the number of devices in a stack if `training.stack` is `said`, "auto" or a number, and a round asks
    `asked` devices; 1 if the model cannot be stacked."""
    wanted = _that_pay(_built(model, data), batch, asked, place)[0] if said == "auto" else int(said)
    return wanted if wanted == 1 or not _obstacle(model, data, task) else 1


def why_alone(scenario: Scenario, lab: Lab) -> dict[str, str]:
    """Returns, by label, the reason why devices train one by one although the scenario asks for stacks or leaves the
    choice to `auto`.

    `scenario`: as read, before `resolved`; `lab` may have only some of its algorithms.
    """
    found = {}
    for entry in scenario.algorithms:
        training = plugins.training_of(entry, scenario.training)
        if entry.name not in lab.algorithms or lab.stack.get(entry.name, 1) > 1 or training.stack == 1:
            continue
        if not stackable(unguarded(lab.algorithms[entry.name])):
            found[entry.name] = "the algorithm has a training loop of its own"
        elif obstacle := _obstacle(lab.model, lab.data, lab.task_name):
            found[entry.name] = obstacle
        else:
            found[entry.name] = _that_pay(_built(lab.model, lab.data), training.batch, lab.asked[entry.name], lab.on)[1]
    return found


def _built(model: str | Network, data: Dataset) -> nn.Module:
    return models.build(model, 0, *data.form)


def _that_pay(model: nn.Module, batch: int, asked: int, place: str) -> tuple[int, str]:
    """Returns how many devices a stack should have with `auto`, if a round asks `asked` of them; if this is 1, also the
    reason, otherwise ""."""
    layers = [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if place != CPU:
        if slow := [layer for layer in layers if isinstance(layer, nn.RNNBase | nn.RNNCellBase)]:
            return 1, f"stacks of {type(slow[0]).__name__} layers are not faster"
        size = max(1, min(MOST_ON_GPU, PARAMETERS_ON_GPU // parameters))
        return size, "" if size > 1 else f"a model of {parameters:,} parameters fills a GPU by itself"
    if others := [layer for layer in layers if type(layer) is not nn.Linear]:
        return 1, f"on a CPU stacks speed up dense networks only, and the model has {type(others[0]).__name__} layers"
    if parameters > PARAMETERS:
        return 1, f"on a CPU stacks pay up to {PARAMETERS:,} parameters, and the model has {parameters:,}"
    if batch > BATCH:
        return 1, f"on a CPU stacks pay up to batches of {BATCH}, and training.batch is {batch}"
    return MOST if parameters > SMALL else min(MOST_SMALL, max(MOST, ceil(asked / STACKS))), ""


_tried: dict[tuple[Any, ...], str] = {}
before_each_call(_tried.clear)


def _obstacle(model: str | Network, data: Dataset, task: str) -> str:
    """Returns the reason why the model cannot be stacked; "" if a stack of two devices with three examples gives the
    same weights as training them one by one."""
    key = (model, task, data.form, data.y.shape[1:], data.y.dtype)
    if key not in _tried:
        _tried[key] = _trial(_built(model, data), data, task_named(task))
    return _tried[key]


def _trial(model: nn.Module, data: Dataset, task: Task) -> str:
    remember(model)
    weights = {name: value.clone() for name, value in tensors_of(model).items()}
    own = {name: value.clone() for name, value in kept_of(model).items()}
    parameters = dict(model.named_parameters())
    for name in [name for name in (*weights, *own) if name not in parameters]:
        owner = type(model.get_submodule(name.rpartition(".")[0])).__name__
        return f"{owner} keeps {name.rpartition('.')[2]} in addition to its parameters"
    x, y = as_input(torch.tensor(data.x[:3])), torch.tensor(data.y[:3])
    devices = [
        Party("", 2, model, task, x[some], y[some], round=0, cycle=0, seed=seed, own={**own})
        for seed, some in enumerate((slice(0, 2), slice(2, 3)))
    ]
    algorithm, download = FedAvg(Training(epochs=2, batch=2, lr=0.01)), {"weights": weights}
    failure: Exception | None = None
    try:
        with warnings.catch_warnings(action="error"):  # torch warns if it falls back to a loop over the devices
            found = stack.train(algorithm, [download] * 2, devices)
        wanted = [algorithm.train(download, replace(device, own={**own})) for device in devices]
    except Exception as error:  # torch.func.vmap may reject a user's code, which may then raise anything
        failure = error
    if has_changed(model):
        return "the model keeps something in addition to its weights, which a stack would share among its devices"
    if failure is not None:
        if _draws(model, x):
            return "forward draws random numbers, as torch.nn.functional.dropout does; nn.Dropout layers can be stacked"
        return f"torch.func.vmap cannot run the model: {(str(failure).splitlines() or [type(failure).__name__])[0]}"
    if _draws_from_python(model, x):
        return "forward draws from Python's or NumPy's generator, which would be one draw for all devices of a stack"
    pairs = zip(found, wanted, strict=True)
    alike = all(
        torch.allclose(one.upload["weights"][name], value, rtol=1e-3, atol=1e-5, equal_nan=True)
        for one, other in pairs
        for name, value in other.upload["weights"].items()
    )
    return "" if alike else "in a stack the model computes something else"


def _draws(model: nn.Module, x: torch.Tensor) -> bool:
    """Returns true if two seeds give different outputs in train mode although all dropout layers are off."""
    quiet = copied(model).train()
    for layer in quiet.modules():
        if type(layer) in DROPOUTS:
            layer.eval()
    outputs = []
    for seed in (0, 1):
        with drawing(seed), torch.no_grad():
            outputs.append(quiet(x))
    alike: list[bool] = []
    mapped(lambda one, other: alike.append(torch.equal(one, other)), *outputs)
    return not all(alike)


def _draws_from_python(model: nn.Module, x: torch.Tensor) -> bool:
    """Returns true if a training pass draws from Python's or NumPy's generator, which torch.func.vmap cannot see."""
    with drawing(0):
        before = _states()
        model.train()(x)
        return before != _states()


def _states() -> tuple[Any, ...]:
    numpys: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), numpys[1].tobytes(), numpys[2:]
