"""The objects that a scenario names: data and its split, the model's fit, devices and their links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from algorithms import models
from devices import shards
from devices.data.dataset import Dataset
from devices.device import Device, Profile, profiles
from devices.presence import Presence
from network.link import Link
from scenarios import schema, sets
from scenarios.faults import BadScenario, did_you_mean
from scenarios.schema import Draw, Scenario

LEAST_OWNED = 10  # examples of an owner who may be a device
LEAST, MOST = 1e-6, 1e6  # what a draw may give, in the unit of its key
MOST_ASKED = 10_000  # devices in a round: some ten seconds of real time before anything is trained
MOST_SHARES = 2_000_000  # devices x seeds: each holds its examples, in half a kilobyte or more


def dataset(scenario: Scenario) -> Dataset:
    """The data that the scenario names, without its time slices if rounds take all at once.  Raises BadScenario."""
    data = sets.dataset(scenario.data)
    if scenario.rounds.per_cycle and data.cycles == 1:
        raise BadScenario(
            f"rounds.per_cycle is {scenario.rounds.per_cycle}; {data.name} has no time slices: it must be 0"
        )
    if data.cycles > 1 and not scenario.rounds.per_cycle:
        return replace(data, cycles=1, cycle=None, cycle_test=None)
    return data


def check_model(scenario: Scenario, data: Dataset) -> None:
    """Raises BadScenario if the model cannot take the data's examples, or tell its classes apart."""
    name, shape = scenario.model, data.x.shape[1:]
    if ":" not in name and not models.fits(name, shape, data.text):
        raise BadScenario(f"model: {name} takes {models.takes(name)}; {data.name} has {_shape_of(data)}")
    try:
        module = models.build(name, 0, data.classes)
        with torch.no_grad():
            outputs = module(torch.from_numpy(data.x[:2]))  # (2, classes) or (2, positions, classes)
    except (Exception, SystemExit) as error:  # a user's own code may raise anything; its message is what helps
        said = " ".join(str(error).split())
        raise BadScenario(f"model: {name} on 2 examples of shape {shape}: {type(error).__name__}: {said}") from None
    wanted = [(2, data.classes), *([(2, *shape, data.classes)] if data.text else [])]
    if tuple(outputs.shape) not in wanted or (data.y.ndim > 1 and outputs.dim() < 3) or not _learns(module):
        raise BadScenario(
            f"model: {name} gives {tuple(outputs.shape)} for 2 examples; {data.name} has {data.classes} classes, "
            f"so it must be {wanted[-1]}, from parameters that can be trained"
        )


def _shape_of(data: Dataset) -> str:
    return f"{data.x.shape[1]} tokens" if data.text else f"examples of shape {data.x.shape[1:]}"


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
    owned, held = _held(said.split, data, pool, len(names), rng)
    parts: dict[str, Any] = {"train": {}, "validation": {}, "tests": {}, "proxy": proxy, "test": None}
    if said.proxy.owners:
        parts["proxy"], parts["test"] = _of_owners(said.proxy, data, owned, len(proxy), rng)
        if not said.proxy.overlap:
            held = [np.setdiff1d(own, parts["proxy"]) for own in held]
    for number, (name, own) in enumerate(zip(names, held, strict=True)):
        slices = [shards.hold_out(part, said.validation, rng) for part in _by_cycle(own, data.cycle, data.cycles)]
        parts["train"][name] = tuple(train for train, _ in slices)
        # what the server trains on, or sends to others, must not decide when to stop
        parts["validation"][name] = tuple(np.setdiff1d(kept, parts["proxy"]) for _, kept in slices)
        if owned is None:
            parts["tests"][name] = _tests(data, own, len(names), rng)
        else:
            assert data.owner_test is not None
            (mine,) = shards.owned(data.owner_test, owned[number : number + 1])
            parts["tests"][name] = _by_cycle(mine, data.cycle_test, data.cycles)
    for name in names:
        for cycle, train in enumerate(parts["train"][name]):
            if not len(train):
                when = f" in time slice {cycle}" if data.cycles > 1 else ""
                raise ValueError(
                    f"{len(data.y)} examples leave {name}, one of {len(names)}, without any to train on{when}"
                )
    return parts


def _held(
    said: schema.Split, data: Dataset, pool: ndarray, devices: int, rng: np.random.Generator
) -> tuple[ndarray | None, list[ndarray]]:
    """The owner of each device, if it is one, and the examples of each."""
    if said.kind == "natural":
        if data.owner is None:
            raise ValueError(f"{data.name} has no owners for a natural split; it may be iid, dirichlet, shards or draw")
        owners, mine = shards.natural(
            data.owner[pool], data.owners, devices, rng, said.owners or "*", said.least or LEAST_OWNED
        )
        return owners, [pool[each] for each in mine]
    labels = data.y[pool] if data.y.ndim == 1 else np.zeros(len(pool), np.int64)  # positions have no one label
    if said.kind in ("dirichlet", "shards") and data.y.ndim > 1:
        raise ValueError(f"{data.name} has a label at each position; its split may be natural, iid or draw")
    if said.kind == "dirichlet":
        found = shards.dirichlet(labels, devices, said.alpha or math.nan, rng)
    elif said.kind == "shards":
        found = shards.labelled(labels, devices, rng, said.each or 2, bool(said.pure))
    elif said.kind == "draw":
        found = shards.draw(len(pool), devices, said.each or 1, rng)
    else:
        found = shards.iid(labels, devices, rng)
    return None, [pool[each] for each in found]


def _of_owners(
    said: schema.Proxy, data: Dataset, devices: ndarray | None, size: int, rng: np.random.Generator
) -> tuple[ndarray, ndarray]:
    """The server's examples, which belong to some owners, and these owners' test examples (FedMeta, Fig. 5)."""
    if devices is None or data.owner is None or data.owner_test is None:
        raise ValueError("proxy.owners belongs to a natural split")
    known = shards.population(data.owner, devices, said.shared_owners, said.owners or 1, rng)
    tested = np.sort(np.concatenate(shards.owned(data.owner_test, known)))
    return shards.among(data.owner, known, size, rng), tested


def _by_cycle(chosen: ndarray, cycle: ndarray | None, cycles: int) -> tuple[ndarray, ...]:
    """What of `chosen` comes in each time slice."""
    return (chosen,) if cycle is None else tuple(chosen[cycle[chosen] == each] for each in range(cycles))


def _tests(data: Dataset, own: ndarray, devices: int, rng: np.random.Generator) -> tuple[ndarray, ...]:
    """A device's test shard of each time slice, with labels in the proportions of its own."""
    found = []
    for pool in _by_cycle(np.arange(len(data.y_test)), data.cycle_test, data.cycles):
        size = len(pool) // devices  # 0 in a fleet larger than the test set
        if data.y.ndim > 1:
            found.append(np.sort(rng.choice(pool, size, replace=False)))
            continue
        labels = data.y_test[pool]
        size = min(size, int(np.isin(labels, data.y[own]).sum()))  # as many as there are of the labels that it holds
        found.append(pool[shards.test_shard(data.y[own], labels, size, rng)] if size else np.zeros(0, np.int64))
    return tuple(found)


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
