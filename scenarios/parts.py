"""The objects that a scenario names: data and its split, the model's fit, devices and their links."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms import models
from devices import shards
from devices.data.dataset import Dataset
from devices.data.digits import digits
from devices.data.idx import mnist
from devices.device import Device, Profile, profiles
from devices.presence import Presence
from network.link import Link
from scenarios import schema
from scenarios.faults import BadScenario, did_you_mean
from scenarios.plugins import Unknown, thing
from scenarios.schema import Draw, Scenario

LEAST, MOST = 1e-6, 1e6  # what a draw may give, in the unit of its key
MOST_ASKED = 10_000  # devices in a round: some ten seconds of real time before anything is trained
MOST_SHARES = 2_000_000  # devices x seeds: each holds its examples, in half a kilobyte or more


def dataset(scenario: Scenario) -> Dataset:
    """The data that the scenario names.  Raises BadScenario where files are missing or damaged."""
    said = scenario.data
    if ":" in said.set:
        return _own_dataset(said.set)
    if said.set == "digits":
        return digits()
    root = said.root or os.environ.get("FEDLAPSE_DATA") or "data"
    try:
        folder = Path(root).expanduser()
    except RuntimeError:
        raise BadScenario(f"data.root is {root!r}; there is no such home folder") from None
    try:
        return mnist(folder, download=said.download)
    except (OSError, ValueError, RuntimeError) as error:
        raise BadScenario(f"data: {' '.join(str(error).split())}") from None


def check_model(scenario: Scenario, data: Dataset) -> None:
    """Raises BadScenario if the model cannot take the data's examples, or tell its classes apart."""
    shape, name = data.x.shape[1:], scenario.model
    if ":" not in name and models.input_shape(name) != shape:
        raise BadScenario(f"model: {name} takes examples of shape {models.input_shape(name)}; {data.name} has {shape}")
    try:
        module = models.build(name, seed=0)
        with torch.no_grad():
            outputs = module(torch.zeros(2, *shape))  # (2, classes)
    except (Exception, SystemExit) as error:  # a user's own code may raise anything; its message is what helps
        said = " ".join(str(error).split())
        raise BadScenario(f"model: {name} on 2 examples of shape {shape}: {type(error).__name__}: {said}") from None
    if tuple(outputs.shape) != (2, data.classes) or not _learns(module):
        raise BadScenario(
            f"model: {name} gives {tuple(outputs.shape)} for 2 examples; {data.name} has {data.classes} classes, "
            f"so it must be (2, {data.classes}), from parameters that can be trained"
        )


def fleet(scenario: Scenario) -> tuple[dict[str, Device], dict[str, Link]]:
    """Devices and their links by name (of the group or profile, and a number), sorted.

    Raises BadScenario for more of them than this computer can play.
    """
    _check_size(scenario)
    devices: dict[str, Device] = {}
    links: dict[str, Link] = {}
    for name, group in _named(scenario):
        devices[name] = machine(name, group, scenario.fleet_seed)
        links[name] = _link(name, group.link, scenario.fleet_seed)
    return dict(sorted(devices.items())), dict(sorted(links.items()))


def server(scenario: Scenario) -> tuple[Device, Link]:
    said = scenario.server.link
    link = Link.of(said.up_mbit_s, said.down_mbit_s, said.latency_ms)
    return Device("server", profiles()[scenario.server.profile], Presence()), link


def machine(name: str, group: schema.Group, seed: int) -> Device:
    """One device of a group: its profile, with what the group says or draws instead."""
    changed = {
        "flops_per_s": (group.speed_gflop_s, "speed", 1e9),
        "memory_bytes_per_s": (group.memory_bandwidth_gb_s, "memory_bandwidth", 1e9),
        "overhead_s": (group.overhead_ms, "overhead", 1e-3),
        "memory_bytes": (group.memory_mb, "memory", 1e6),
    }
    values: dict[str, Any] = {}
    for quantity, (amount, what, unit) in changed.items():
        if amount is not None:
            values[quantity] = _value(amount, name, what, seed) * unit
    if "memory_bytes" in values:
        values["memory_bytes"] = round(values["memory_bytes"])
    return Device(name, _profile(name, group.profile, values), _presence(group.presence.off))


def split(scenario: Scenario, data: Dataset, names: list[str], rng: np.random.Generator) -> dict[str, Any]:
    """Who holds what: {"train" | "validation" | "tests": {device: indices}, "proxy": indices}.

    Raises BadScenario for a split that cannot be made.
    """
    try:
        return _split(scenario.data, data, names, rng)
    except ValueError as error:
        raise BadScenario(f"data: {error}") from None


def _split(said: schema.Data, data: Dataset, names: list[str], rng: np.random.Generator) -> dict[str, Any]:
    pool = np.arange(len(data.y))
    proxy = shards.proxy(len(pool), said.proxy.fraction, rng)
    if not said.proxy.overlap:
        pool = np.setdiff1d(pool, proxy)
    if len(pool) < len(names):
        raise ValueError(f"{len(pool)} examples beside the proxy set are too few for {len(names)} devices")
    labels = data.y[pool]
    if said.split.kind == "iid":
        held = shards.iid(labels, len(names), rng)
    else:
        held = shards.dirichlet(labels, len(names), said.split.alpha or math.nan, rng)
    parts: dict[str, Any] = {"train": {}, "validation": {}, "tests": {}, "proxy": proxy}
    for name, own in zip(names, held, strict=True):
        train, validation = shards.hold_out(pool[own], said.validation, rng)
        parts["train"][name], parts["validation"][name] = train, validation
        size = len(data.y_test) // len(names)  # 0 in a fleet larger than the test set
        shard = shards.test_shard(data.y[pool[own]], data.y_test, size, rng) if size else np.zeros(0, np.int64)
        parts["tests"][name] = shard
    if min(len(train) for train in parts["train"].values()) < 1:
        raise ValueError(f"{len(labels)} examples leave a device of {len(names)} without any to train on")
    return parts


def _check_size(scenario: Scenario) -> None:
    devices, seeds, rounds = scenario.devices, len(scenario.seeds), scenario.rounds
    asked, key = (rounds.ask, "ask") if rounds.ask else (scenario.needed, "fraction")
    if asked > MOST_ASKED:
        raise BadScenario(f"rounds.{key}: {asked} devices are asked in a round; it must be {MOST_ASKED} at most")
    if devices * seeds > MOST_SHARES:
        raise BadScenario(f"seeds: {seeds} of them x {devices} devices; it must be {MOST_SHARES} in all at most")


@lru_cache(maxsize=16)
def _presence(off: tuple[tuple[float, float], ...]) -> Presence:
    """One for all devices of a group: its stretches may be thousands."""
    return Presence(off)


def _own_dataset(path: str) -> Dataset:
    try:
        found = thing(path)
        made = found() if callable(found) else found
    except Unknown as error:
        raise BadScenario(f"data.set: {error}") from None
    except (Exception, SystemExit) as error:  # a user's own code may raise anything; its message is what helps
        said = " ".join(str(error).split())
        raise BadScenario(f"data.set: {path}() failed: {type(error).__name__}: {said}") from None
    if not isinstance(made, Dataset):
        raise BadScenario(f"data.set: {path}() must return a devices.data.dataset.Dataset, not {type(made).__name__}")
    return made


def _learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _named(scenario: Scenario) -> Iterator[tuple[str, schema.Group]]:
    """Each device's name and group; groups of one profile without names of their own are numbered through."""
    totals: dict[str, int] = {}
    for group in scenario.fleet:
        called = group.name or group.profile
        totals[called] = totals.get(called, 0) + group.count
    numbers = dict.fromkeys(totals, 0)
    for group in scenario.fleet:
        called = group.name or group.profile
        width = len(str(totals[called] - 1))
        for _ in range(group.count):
            yield f"{called}-{numbers[called]:0{width}}", group
            numbers[called] += 1


def _profile(device: str, name: str, values: dict[str, Any]) -> Profile:
    known = profiles()
    if name not in known:
        raise BadScenario(f"there is no profile {name!r}; {did_you_mean(name, known)}")
    if not values:
        return known[name]
    said = f"{known[name].source}; {', '.join(values)}: the scenario's"
    # a name of its own: equal names are priced as equal machines
    return replace(known[name], name=f"{name} of {device}", source=said, **values)


def _link(name: str, said: schema.Links, seed: int) -> Link:
    amounts = (
        _value(said.up_mbit_s, name, "up", seed),
        _value(said.down_mbit_s, name, "down", seed),
        _value(said.latency_ms, name, "latency", seed),
    )
    return Link.of(*amounts)


def _value(amount: float | Draw, device: str, what: str, seed: int) -> float:
    """A number as it is, or one drawn for this device.  Raises BadScenario for a draw that is out of all bounds."""
    if not isinstance(amount, Draw):
        return amount
    value = _drawn(amount, np.random.default_rng([seed, *f"{what} of {device}".encode()]))
    if value > MOST or (value < LEAST and what not in ("latency", "overhead")):
        bounds = f"draws must lie between {LEAST:g} and {MOST:g}"
        raise BadScenario(f"fleet: {device} drew {value:g} as its {what}; {bounds}")
    return value


def _drawn(draw: Draw, rng: np.random.Generator) -> float:
    if draw.lognormal:
        return float(draw.lognormal.median * np.exp(draw.lognormal.sigma * rng.standard_normal()))
    if draw.uniform:
        return float(rng.uniform(draw.uniform.low, draw.uniform.high))
    assert draw.choice
    return float(draw.choice[rng.integers(len(draw.choice))])
