"""What each device of a scenario has of the data, found without a model and without training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from devices.data.dataset import Dataset
from emulator.lab.lab import Division, counts_by_class
from emulator.lab.seeds import seed as derive
from scenarios.builders import machines, parts
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Holding:
    """The examples of one device, of all time slices."""

    owner: str  # whose examples they are; "": they are dealt without regard to owners
    train: int
    validation: int  # held out of its training examples
    tests: int
    classes: list[int]  # training examples of each class, or for texts of each time slice


@dataclass(frozen=True)
class Holdings:
    """The data of a scenario, and what each device has of them under one seed."""

    data: Dataset
    seed: int
    proxy: int  # the server's own examples
    fleet: int  # number of all devices
    devices: Mapping[str, Holding]  # by name; a sample of a large fleet that draws its examples


def holdings(scenario: Scenario) -> Holdings:
    """Returns what the devices have under the scenario's first seed.  Raises BadScenario."""
    data, seed = parts.dataset(scenario), scenario.seeds[0]
    parts.augmentation(scenario, data)
    parts.check_enough(scenario, data)
    fleet, _ = machines.fleet(scenario)
    split = Division(**parts.split(scenario, data, fleet, np.random.default_rng(derive(seed, "split"))))
    counts = counts_by_class(data, split.train)
    devices = {}
    for name in sample(split.train):
        train, validation, tests = (sum(map(len, held[name])) for held in (split.train, split.validation, split.tests))
        devices[name] = Holding(split.owners.get(name, ""), train, validation, tests, counts[name])
    return Holdings(data, seed, len(split.proxy), len(fleet), devices)
