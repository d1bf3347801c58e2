"""The cost of each known algorithm relative to FedAvg: encoded bytes, declared work, state on the device."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from algorithms.fedavg import stackable
from devices.device import Device
from devices.presence import StatedPresence
from emulator.forecast.mean_round import Kind, comparable, price, weights
from emulator.forecast.rehearsal import Rehearsal, enough, rehearse, sound
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.play.conduct import Conduct
from emulator.record.events import ComputeStarted, Event, ServerStarted
from emulator.record.run import Run
from scenarios.builders import plugins
from scenarios.builders.roster import Made
from scenarios.load import load
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario

BASELINE = "fedavg"
STAND_IN = {"integer": 1, "number": 1.0, "boolean": False}  # values for options without a default, by type


@dataclass(frozen=True)
class Option:
    """One option of an algorithm, which a scenario may set."""

    name: str
    type: str
    default: Any  # None: required
    says: str


@dataclass(frozen=True)
class Cost:
    """A mean round of an algorithm compared with one of FedAvg.  Bytes include the framing of messages."""

    down: float  # bytes over FedAvg's
    up: float
    device_flops: float  # more than FedAvg, over the FLOPs of FedAvg's devices
    server_flops: float  # more than FedAvg, over the FLOPs of FedAvg's devices
    kept_bytes: int  # kept on a device between rounds
    kept_models: float  # kept_bytes over the size of a model
    sums_only: bool  # the server needs only the sums of uploads


@dataclass(frozen=True)
class NamedAlgorithm:
    """An algorithm that a scenario names, or could name, with its options and its cost."""

    name: str  # the label
    key: str  # fedcl, or my_package.mine:Mine
    says: str
    stacked: bool  # devices can train in stacks (algorithms/stack.py)
    options: Sequence[Option]
    given: Mapping[str, Any]  # options from the scenario; without a scenario, stand-ins for missing defaults
    cost: Cost | None
    why_not: str  # reason for a missing cost


def catalogue(scenario: Scenario, only: str = "") -> list[NamedAlgorithm]:
    """Returns all known algorithms, or the one named `only`, with default options and their costs on the scenario's
    model, data and fleet.

    Raises BadScenario.
    """
    kinds = {name: kind for name, kind in plugins.kinds().items() if only in ("", name) or name == BASELINE}
    taken = {name: _taken(name, kind, scenario) for name, kind in kinds.items()}
    entries = {name: Entry(key=name, options=options, name=name) for name, options in taken.items()}
    refused = {
        name: "; ".join(fault.message for fault in plugins.faults(entry, scenario.training, ()))
        for name, entry in entries.items()
    }
    possible = tuple(entry for name, entry in entries.items() if not refused[name])
    costs, failing = _costs(possible, BASELINE, scenario)
    refused |= failing
    return [
        NamedAlgorithm(
            name, name, about(kind), stackable(kind), options(kind), taken[name], costs.get(name), refused[name]
        )
        for name, kind in kinds.items()
        if only in ("", name)
    ]


def chosen(scenario: Scenario) -> list[NamedAlgorithm]:
    """Returns the scenario's own algorithms with their options and their costs relative to plain FedAvg.  Raises
    BadScenario."""
    entries = scenario.algorithms
    plain = next((entry for entry in entries if entry.key == BASELINE and not entry.options), None)
    if plain is None:
        name, taken = BASELINE, {entry.name for entry in entries}
        while name in taken:
            name = f"plain-{name}"
        plain = Entry(key=BASELINE, options={}, name=name)
        entries = (plain, *entries)
    costs, failing = _costs(entries, plain.name, scenario)
    kinds = {entry.key: plugins.kind(entry.key) for entry in entries}
    return [
        NamedAlgorithm(
            entry.name,
            entry.key,
            about(kinds[entry.key]),
            entry.name not in failing
            and stackable(plugins.algorithm(entry, scenario.training, scenario.rounds.per_cycle)),
            options(kinds[entry.key]),
            entry.options,
            costs.get(entry.name),
            failing.get(entry.name, ""),
        )
        for entry in entries
    ]


def _costs(entries: tuple[Entry, ...], baseline: str, scenario: Scenario) -> tuple[dict[str, Cost], dict[str, str]]:
    """Returns {label: Cost of rounds in which all devices answer}, and {label: why the algorithm's own code fails}."""
    seed = scenario.seeds[0]
    alike = tuple(
        entry.model_copy(update={"options": {key: value for key, value in entry.options.items() if key != "rounds"}})
        for entry in entries  # rounds of their own would make costs of rounds incomparable
    )
    lab = lab_of(scenario.model_copy(update={"algorithms": alike, "seeds": (seed,)}))
    lab, failing = sound(lab, seed)
    lab = replace(lab, fleet=Made(lab.fleet, partial(_online, lab.fleet)), always_on=True)
    conduct = Conduct.of(scenario)
    ask = conduct.rules.ask
    conduct = replace(conduct, rules=replace(conduct.rules, needed=ask, deadline=None, finish_stragglers=False))
    kinds: dict[str, Kind] = {label: algorithm.round_kind for label, algorithm in lab.algorithms.items()}
    rounds, _ = enough(kinds, dict.fromkeys(kinds, conduct.rules))
    found = {}
    for label in lab.algorithms:
        try:
            found[label] = rehearse(lab, Run(label, seed), conduct, rounds[label])
        except Faulty as fault:
            failing[label] = str(fault)
    kinds = comparable({label: kinds[label] for label in found}, rounds)
    means = {label: _Mean.of(rehearsal, conduct.rules.max, kinds[label]) for label, rehearsal in found.items()}
    sums = {label: lab.algorithms[label].sums_only for label in means}
    return {label: _cost(mean, means[baseline], sums[label]) for label, mean in means.items()}, failing


def _online(fleet: Mapping[str, Device], name: str) -> Device:
    return replace(fleet[name], presence=StatedPresence())


def about(kind: type[Any]) -> str:
    """Returns a line on an algorithm: the beginning of the module's docstring if the algorithm is built in,
    otherwise of the class's."""
    module = inspect.getmodule(kind) if kind.__module__.startswith("algorithms.") else None
    text = (module.__doc__ if module else kind.__doc__) or ""
    return " ".join(text.strip().split("\n\n")[0].split())


def options(kind: type[Any]) -> list[Option]:
    """Returns the options of an algorithm, without `training`, which all algorithms have."""
    properties = plugins.options(kind)["properties"]
    return [
        Option(name, _type(said), said.get("default"), said.get("description", ""))
        for name, said in properties.items()
        if name != "training"
    ]


def _type(said: Mapping[str, Any]) -> str:
    if "enum" in said:
        return " | ".join(map(str, said["enum"]))
    if "anyOf" in said:
        return " | ".join(_type(one) for one in said["anyOf"])
    return str(said.get("type", "any"))


def _taken(name: str, kind: type[Any], scenario: Scenario) -> dict[str, Any]:
    """Returns values for the options that have no default.

    They come from the scenario, or from the quickstart, if that names the algorithm.  Otherwise they are 1, or False
    for booleans.
    """
    schema = plugins.options(kind)
    entries = (*scenario.algorithms, *load("quickstart").algorithms)
    said = next((entry.options for entry in entries if entry.key == name), {})
    needed = [option for option in schema.get("required", ()) if option != "training"]
    return {option: said.get(option, STAND_IN.get(schema["properties"][option].get("type"))) for option in needed}


@dataclass(frozen=True)
class _Mean:
    """A mean round of an algorithm after round 0."""

    down: float  # bytes
    up: float
    device: float  # FLOPs of all its devices
    server: float
    kept: int  # bytes that a device keeps
    model: int  # bytes of tensors in the largest download

    @classmethod
    def of(cls, found: Rehearsal, rounds: int, kind: Kind) -> _Mean:
        cost, shares = price(found.rows, rounds, kind), weights(len(found.rows), rounds, kind)
        down, up = sum(cost.down_bytes.values()), sum(cost.up_bytes.values())
        return cls(down, up, *_flops(found.events, shares), sum(found.kept.values()), sum(found.downloaded.values()))


def _cost(of: _Mean, baseline: _Mean, sums_only: bool) -> Cost:
    return Cost(
        down=of.down / baseline.down,
        up=of.up / baseline.up,
        device_flops=of.device / baseline.device - 1,
        server_flops=(of.server - baseline.server) / baseline.device,
        kept_bytes=of.kept,
        kept_models=of.kept / baseline.model,
        sums_only=sums_only,
    )


def _flops(events: Sequence[Event], shares: Mapping[int, float]) -> tuple[float, float]:
    """Returns the FLOPs of all devices and of the server in a mean round, in which rounds are weighted by `shares`."""
    device = server = 0.0
    for event in events:
        share = shares.get(event.round, 0.0)
        if isinstance(event, ComputeStarted):
            device += share * sum(event.phases.values())
        if isinstance(event, ServerStarted):
            server += share * event.flops
    return device, server
