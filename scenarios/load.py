"""From a scenario file to a Scenario, and from a Scenario to the objects that it names."""

from __future__ import annotations

import inspect
import io
import json
import math
import os
from collections.abc import Mapping
from importlib import import_module, resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from algorithms import models
from algorithms.algorithm import Algorithm, Training
from devices import shards
from devices.data.dataset import Dataset
from devices.data.digits import digits
from devices.data.idx import mnist
from devices.device import Device, profiles
from devices.presence import Presence
from network.link import Link
from scenarios import schema
from scenarios.schema import Entry, Scenario


class BadScenario(ValueError):  # noqa: N818  what it is, not what went wrong
    """A scenario that cannot be run; the message says where, and what would be right."""


def load(path: str) -> Scenario:
    """The scenario in a YAML file; `quickstart` and the like name those that come with fedlapse.

    Raises BadScenario.
    """
    return parse(_text(path), path)


def parse(text: str, where: str) -> Scenario:
    """The scenario that a text says; `where` names it in errors.  Raises BadScenario."""
    try:
        raw = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, TypeError) as error:
        raise BadScenario(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise BadScenario(f"{where} is nested too deeply; a scenario has five levels at most") from None
    if not isinstance(raw, dict):
        raise BadScenario(f"{where} must be a mapping with `name:` and `fleet:`; it holds {type(raw).__name__}")
    return build(raw, where)


def build(raw: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """A scenario from plain values, checked as far as it can be without reading data.  Raises BadScenario."""
    try:
        # JSON mode: a YAML list is what the schema calls a tuple
        scenario = Scenario.model_validate_json(json.dumps(raw, default=str))
    except ValidationError as error:
        raise BadScenario(_in_one_line(where, error)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadScenario(f"{where}: {error}") from None
    for entry in scenario.algorithms:
        algorithm(entry, scenario.training, where)
    return scenario


def dump(scenario: Scenario) -> str:
    """The scenario as YAML with every default written out; `parse` reads it back as the same."""
    plain = scenario.model_dump(mode="json")
    plain["algorithms"] = [{entry.key: dict(entry.options), "name": entry.name} for entry in scenario.algorithms]
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(plain, text)
    return text.getvalue()


def dataset(scenario: Scenario) -> Dataset:
    """The data that the scenario names.  Raises BadScenario where files are missing or damaged."""
    if scenario.data.set == "digits":
        return digits()
    root = scenario.data.root or os.environ.get("FEDLAPSE_DATA") or "data"
    try:
        return mnist(Path(root).expanduser(), download=scenario.data.download)
    except (OSError, ValueError) as error:
        raise BadScenario(f"data: {error}") from None


def check_model(scenario: Scenario, data: Dataset) -> None:
    """Raises BadScenario if there is no such model, or if it cannot take the data's examples."""
    try:
        shape = models.input_shape(scenario.model)
    except ValueError as error:
        raise BadScenario(f"model: {error}") from None
    if shape != data.x.shape[1:]:
        raise BadScenario(
            f"model: {scenario.model} takes examples of shape {shape}; {data.name} has {data.x.shape[1:]}"
        )


def fleet(scenario: Scenario) -> tuple[dict[str, Device], dict[str, Link]]:
    """Devices and their links by name (profile and number), sorted."""
    sizes: dict[str, int] = {}
    devices: dict[str, Device] = {}
    links: dict[str, Link] = {}
    totals = {p: sum(g.count for g in scenario.fleet if g.profile == p) for p in {g.profile for g in scenario.fleet}}
    for group in scenario.fleet:
        width = len(str(totals[group.profile] - 1))
        presence = _presence(group.presence)
        for _ in range(group.count):
            number = sizes[group.profile] = sizes.get(group.profile, -1) + 1
            name = f"{group.profile}-{number:0{width}}"
            devices[name] = machine(name, group.profile, presence)
            links[name] = link(group.link)
    return dict(sorted(devices.items())), dict(sorted(links.items()))


def machine(name: str, profile: str, presence: Presence | None = None) -> Device:
    """A device of a named profile.  Raises BadScenario for an unknown one."""
    known = profiles()
    if profile not in known:
        raise BadScenario(f"there is no profile {profile!r}; the profiles are {', '.join(sorted(known))}")
    return Device(name, known[profile], presence or Presence())


def link(said: schema.Link) -> Link:
    return Link.of(said.up_mbit_s, said.down_mbit_s, said.latency_ms)


def algorithm(entry: Entry, shared: schema.Training, where: str = "scenario") -> Algorithm:
    """The algorithm of an entry: the class in algorithms/KEY.py whose name is KEY, whatever the case.

    Its options are the fields of that class; `training` overrides single values of the shared training.
    """
    kind = _kind(entry.key, where)
    options = dict(entry.options)
    own = options.pop("training", None) or {}
    try:
        if not isinstance(own, dict):
            raise BadScenario(f"{where}: algorithms: {entry.name}: training has {own!r}; it must be a mapping")
        training = schema.Training.model_validate(shared.model_dump() | own)
        adapter = TypeAdapter(_strict(kind))
        made: Algorithm = adapter.validate_json(json.dumps({**options, "training": training.model_dump()}))
    except ValidationError as error:
        raise BadScenario(_in_one_line(f"{where}: algorithms: {entry.name}", error)) from None
    return made


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


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadScenario(f"{path} is not a text file") from None
    except OSError as error:
        shipped = resources.files("scenarios").joinpath(f"{path}.yaml")
        if "/" not in path and shipped.is_file():
            return shipped.read_text(encoding="utf-8")
        raise BadScenario(f"cannot read {path}: {error.strerror or error}") from None


def _presence(said: schema.Presence) -> Presence:
    try:
        return Presence(said.off)
    except ValueError as error:
        raise BadScenario(f"presence: {error}") from None


def _kind(key: str, where: str) -> type[Any]:
    known = {module: import_module(f"algorithms.{module}") for module in _modules()}
    kinds = {name: kind for name, module in known.items() if (kind := _class(module, name))}
    if key not in kinds:
        raise BadScenario(f"{where}: there is no algorithm {key!r}; the algorithms are {', '.join(sorted(kinds))}")
    return kinds[key]


def _modules() -> list[str]:
    return sorted(
        Path(file.name).stem
        for file in resources.files("algorithms").iterdir()
        if file.name.endswith(".py") and not file.name.startswith("_")
    )


def _class(module: ModuleType, key: str) -> type[Any] | None:
    for name, kind in inspect.getmembers(module, inspect.isclass):
        if name.lower() == key and kind.__module__ == module.__name__ and name != "Algorithm":
            return kind
    return None


def _strict(kind: type[Any]) -> type[Any]:
    """The class as pydantic reads it: no unknown option, no silent conversion."""
    for owner in (kind, Training):
        if "__pydantic_config__" not in vars(owner):
            setattr(owner, "__pydantic_config__", ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))  # noqa: B010  pydantic's own hook
    return kind


def _in_one_line(where: str, error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False):
        place = ".".join(str(part) for part in fault["loc"]) or "scenario"
        message = fault["msg"].removeprefix("Value error, ")
        given = fault.get("input")
        shown = "" if isinstance(given, (dict, list)) or fault["type"] == "missing" else f" (it is {given!r})"
        faults.append(f"{place}: {message}{shown}")
    return f"{where}: " + "; ".join(faults)
