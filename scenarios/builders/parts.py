"""Makes the data set of a scenario and its split among the devices, and checks that the model fits the data."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from algorithms import models
from algorithms import own as networks
from algorithms.importance.gradients import losses_of
from algorithms.tasks.classification import Classification
from algorithms.tasks.task import Task, named
from algorithms.training.copied import copied
from algorithms.training.tensors import as_input
from devices import owners, splits
from devices.data.dataset import Dataset
from network.wire.payload import DTYPES
from scenarios.builders import plugins, reads, sets
from scenarios.builders.drawn import Drawing, SplitInput, by_cycle
from scenarios.builders.networks import network
from scenarios.builders.roster import MANY, all_names
from scenarios.builders.split_files import read_split
from scenarios.builders.transforms import Augmentation, check_augmentation
from scenarios.schema.scenario import Data, Proxy, Scenario, Split
from scenarios.text.faults import BadScenario, did_you_mean

MODEL = ("model",)
LEAST_OWNED = 10  # smallest number of examples of an owner who can be a device


def dataset(scenario: Scenario) -> Dataset:
    """Returns the data set of the scenario, as a single time slice unless the scenario's rounds go from slice to
    slice.  Raises BadScenario."""
    data = sets.dataset(scenario.data)
    if scenario.rounds.per_cycle and data.cycles == 1:
        message = f"it is {scenario.rounds.per_cycle}, but {data.name} has no time slices; it must be 0"
        raise BadScenario(message, ("rounds", "per_cycle"))
    if data.cycles > 1 and not scenario.rounds.per_cycle:
        return replace(data, cycles=1, cycle=None, cycle_test=None)
    return data


def augmentation(scenario: Scenario, data: Dataset) -> Augmentation | None:
    """Returns the augmentation of the training examples, tried on one; None if there is none.  Raises BadScenario."""
    found = Augmentation.of(scenario.data.augment, scenario.data.transform)
    if found:
        check_augmentation(found, data.x[0])
    return found


def with_task(scenario: Scenario) -> tuple[Scenario, Task]:
    """Returns the scenario with what its own task says of its metrics, and the task.  Raises BadScenario."""
    said = scenario.task
    if ":" not in said.name:
        return scenario, named(said.name)
    try:
        plugins.thing(said.name)
        task = named(said.name)
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        raise BadScenario(" ".join(str(error).split()), ("task", "name")) from None
    lower = tuple(name for name, metric in task.metrics.items() if metric.lower)
    scenario = scenario.model_copy(
        update={"task": said.model_copy(update={"metrics": said.metrics or (*task.metrics,), "lower": lower})}
    )
    for metric in scenario.metrics:
        if metric not in task.metrics:
            raise BadScenario(f"{said.name} has no metric {metric!r}; {did_you_mean(metric, task.metrics)}", ("task",))
    return scenario, task


def check_model(scenario: Scenario, data: Dataset, task: Task) -> None:
    """Raises BadScenario if the model does not accept the data's examples, or if the task cannot use its outputs."""
    said, shape = network(scenario), data.x.shape[1:]
    name = said.name
    if ":" not in name and not models.fits(name, shape, data.text):
        fitting = " or ".join(other for other in models.MODELS if models.fits(other, shape, data.text))
        message = f"{name} takes {models.takes(name)}, but {data.name} has {_shape_of(data)}"
        raise BadScenario(
            f"{message}; {f'it must be {fitting}' if fitting else 'none that comes with fedlapse fits'}", MODEL
        )
    if ":" in name:
        reads.watch(name)
    try:
        module = models.build(said, 0, *data.form)
        if strange := networks.unsendable(module, DTYPES):
            raise TypeError(strange)
        copied(models.build(said, 0, *data.form))  # each is a new one, and can be copied
        with torch.no_grad():  # (2, classes) or (2, positions, classes), in eval and train mode
            x = as_input(torch.tensor(data.x[:2]))
            both = [module.train(how)(x) for how in (False, True)]
            if not isinstance(task, Classification):
                _try(scenario, task, both, torch.tensor(data.y[:2]))
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        why = " ".join(str(error).split())
        if isinstance(error, ModuleNotFoundError):
            why += f"; {plugins.advice(name, error)}"
        raise BadScenario(f"{name} on 2 examples of shape {shape}: {type(error).__name__}: {why}", MODEL) from None
    if not isinstance(task, Classification):
        return
    if data.y.dtype != np.int64 or data.y.shape not in ((len(data.y),), *((data.x.shape,) if data.text else ())):
        message = (
            f"the labels of {data.name} are {data.y.dtype} of shape {data.y.shape}; {scenario.task.name} needs int64"
        )
        raise BadScenario(
            f"{message} ({len(data.y)},); other targets need another task, as `task: regression`", ("task",)
        )
    wanted = [(2, data.classes), *([(2, *shape, data.classes)] if data.text else [])]
    if strange := next(filter(None, map(networks.fault, both)), ""):
        logits = f"it must return the logits, {wanted[-1]} for 2 examples, or what has them as `logits`"
        raise BadScenario(f"{name} returns {strange}; {logits}", MODEL)
    outputs = next((each for each in both if tuple(each.shape) not in wanted), both[-1])
    if (
        tuple(outputs.shape) not in wanted
        or (data.y.ndim > 1 and outputs.dim() < 3)
        or not any(parameter.requires_grad for parameter in module.parameters())
    ):
        raise BadScenario(
            f"{name} gives {tuple(outputs.shape)} for 2 examples; {data.name} has {data.classes} classes, "
            f"so it must be {wanted[-1]}, from parameters that can be trained",
            MODEL,
        )


def _try(scenario: Scenario, task: Task, outputs: Sequence[Any], y: Tensor) -> None:
    """Raises an error if the task has no loss, or no value of a metric, for these outputs for 2 examples."""
    for said in outputs:
        losses_of(task, said, y)
        for metric in scenario.metrics:
            task.metrics[metric].rows(said, y)


def _shape_of(data: Dataset) -> str:
    return f"{data.x.shape[1]} tokens" if data.text else f"examples of shape {data.x.shape[1:]}"


def check_enough(scenario: Scenario, data: Dataset) -> None:
    """Raises BadScenario if there are more devices than examples and devices do not share examples, or if there are no
    test examples and a target or an expectation needs them."""
    rounds, said = scenario.rounds, list[tuple[tuple[str | int, ...], str]]()
    said += [(("rounds", "targets", n), target.metric) for n, target in enumerate(rounds.targets)]
    said += [(("rounds", "stop_at"), rounds.stop_at.metric)] if rounds.stop_at else []
    said += [(("expect", n), expected.metric) for n, expected in enumerate(scenario.expect)]
    for loc, metric in said:
        if metric != "validation" and not len(data.y_test):
            message = f"{metric} can never be seen: {data.name} has no test examples; the metric must be validation"
            raise BadScenario(message, loc)
    if scenario.devices > len(data.y) and scenario.data.split.kind not in ("draw", "file"):
        raise BadScenario(
            f"{scenario.devices} devices, but {data.name} has {len(data.y)} training examples; devices may share them, "
            f"as data.split: {{kind: draw, each: 50}}",
            ("fleet",),
        )


def split(scenario: Scenario, data: Dataset, names: Collection[str], rng: np.random.Generator) -> dict[str, Any]:
    """Returns the examples of each device: {"train" | "validation" | "tests": {device: indices by time slice}, "proxy":
    the server's own examples, "test": its test examples, or None}.

    `names` are sorted.  In a fleet of more than MANY devices, or of more devices than examples, each device draws its
    examples when they are needed.  Raises BadScenario for an impossible split.
    """
    try:
        return _split(scenario.data, data, names, rng)
    except ValueError as error:
        raise BadScenario(str(error), ("data", "split")) from None


def _split(said: Data, data: Dataset, fleet: Collection[str], rng: np.random.Generator) -> dict[str, Any]:
    pool = np.arange(len(data.y))
    proxy = splits.proxy(len(pool), said.proxy.fraction, rng)
    if not said.proxy.overlap:
        pool = np.setdiff1d(pool, proxy)
    if said.split.kind == "draw" and len(fleet) > min(len(pool), MANY):
        if said.proxy.owners:
            raise ValueError("proxy.owners belongs to a natural split")
        root, each = int(rng.integers(2**62)), said.split.each or 1
        drawing = Drawing(SplitInput.of(data), pool, proxy, each, said.validation, len(fleet), root)
        return {**drawing.shares(fleet), "proxy": proxy, "test": None}
    names = all_names(fleet)
    if len(pool) < len(names) and said.split.kind != "file":
        raise ValueError(f"{len(pool)} examples outside the proxy set are too few for {len(names)} devices")
    known = SplitInput.of(data)
    owned, held, called = _held(said.split, data, pool, names, rng)
    parts: dict[str, Any] = {"train": {}, "validation": {}, "tests": {}, "proxy": proxy, "test": None}
    parts["owners"] = dict(zip(names, called, strict=True)) if called else {}
    if said.proxy.owners:
        parts["proxy"], parts["test"] = _of_owners(said.proxy, data, owned, len(proxy), rng)
        if not said.proxy.overlap:
            held = [np.setdiff1d(own, parts["proxy"]) for own in held]
    for number, (name, own) in enumerate(zip(names, held, strict=True)):
        slices = [splits.hold_out(part, said.validation, rng) for part in by_cycle(own, data.cycle, data.cycles)]
        parts["train"][name] = tuple(train for train, _ in slices)
        # examples on which the server trains, or which it sends, must not decide when to stop
        parts["validation"][name] = tuple(np.setdiff1d(kept, parts["proxy"]) for _, kept in slices)
        if owned is None or data.owner_test is None:
            parts["tests"][name] = known.test_shards(own, len(names), rng)
        else:
            (mine,) = owners.owned(data.owner_test, owned[number : number + 1])
            parts["tests"][name] = by_cycle(mine, data.cycle_test, data.cycles)
    _check_all_train(parts["train"], data)
    return parts


def _check_all_train(parts: Mapping[str, Sequence[ndarray]], data: Dataset) -> None:
    for name, slices in parts.items():
        for cycle, train in enumerate(slices):
            if not len(train):
                what = f"{len(data.y)} examples leave {name}, one of {len(parts)}, without any"
                when = f" in time slice {cycle}" if data.cycles > 1 else ""
                raise ValueError(f"{what} to train on{when}")


def _held(
    said: Split, data: Dataset, pool: ndarray, names: Sequence[str], rng: np.random.Generator
) -> tuple[ndarray | None, list[ndarray], Sequence[str]]:
    """Returns the owner that each device has got, None unless the split is by owners; the indices of each device's
    examples; and what the owners are called, () if they have no names."""
    if said.kind == "file":
        called, held = read_split(said.path or "", names, len(data.y))
        return None, [np.intersect1d(own, pool) for own in held], called
    if said.kind == "natural":
        if data.owner is None:
            raise ValueError(
                f"{data.name} has no owners for a natural split; it may be iid, dirichlet, shards, classes or draw"
            )
        globs, least = said.owners or "*", said.least or LEAST_OWNED
        chosen, found = owners.natural(data.owner[pool], data.owners, len(names), rng, globs, least)
        return chosen, [pool[each] for each in found], [data.owners[owner] for owner in chosen]
    return None, [pool[each] for each in _dealt(said, data, pool, len(names), rng)], ()


def _dealt(said: Split, data: Dataset, pool: ndarray, devices: int, rng: np.random.Generator) -> list[ndarray]:
    """Returns, for each device, the positions in `pool` of its examples, divided without regard to the examples'
    owners."""
    if said.kind == "draw":
        return splits.draw(len(pool), devices, said.each or 1, rng)
    if data.groups is not None:
        return _by_label(said, data.groups[pool], devices, rng)
    if said.kind == "iid":
        return splits.iid(np.zeros(len(pool), np.int64), devices, rng, said.sizes_sigma)
    has = "has a label at each position" if data.text else "has no classes, and its Dataset no `strata`"
    raise ValueError(f"{data.name} {has}; its split may be natural, iid or draw")


def _by_label(said: Split, labels: ndarray, devices: int, rng: np.random.Generator) -> list[ndarray]:
    if said.kind == "dirichlet":
        return splits.dirichlet(labels, devices, said.alpha or math.nan, rng, said.sizes_sigma)
    if said.kind == "classes":
        return splits.classes(labels, devices, rng, said.each or 1, said.sizes_sigma)
    if said.kind == "shards":
        return splits.labelled(labels, devices, rng, said.each or 2, bool(said.pure))
    return splits.iid(labels, devices, rng, said.sizes_sigma)


def _of_owners(
    said: Proxy, data: Dataset, devices: ndarray | None, size: int, rng: np.random.Generator
) -> tuple[ndarray, ndarray]:
    """Returns the indices of the server's own examples, which come from a set of owners, and of these owners' test
    examples (as in FedMeta, Fig. 5)."""
    if devices is None or data.owner is None:
        raise ValueError("proxy.owners belongs to a natural split")
    if data.owner_test is None:
        raise ValueError(f"proxy.owners needs the owners of the test examples too, and {data.name} has none")
    known = owners.population(data.owner, devices, said.shared_owners, said.owners or 1, rng)
    tested = np.sort(np.concatenate(owners.owned(data.owner_test, known)))
    return owners.among(data.owner, known, size, rng), tested
