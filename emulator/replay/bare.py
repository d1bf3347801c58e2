"""A study without its data: what a replay needs of a scenario, made in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from algorithms.algorithm import Message
from devices.data.dataset import Dataset
from devices.device import Device
from emulator.study.guarded import Guarded
from emulator.study.study import Study
from network.links.link import Link
from network.sharing.flow import Topology
from scenarios.build import machines, wiring
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Setting:
    """What a run is replayed on: its devices and links, by the record's names, and the server's."""

    name: str
    fleet: Mapping[str, Device]
    links: Mapping[str, Link]
    server: Device
    server_link: Link
    topology: Topology = field(default_factory=dict)  # access points and cells
    always_on: bool = False  # whether it is known that no device ever goes offline

    @classmethod
    def of(cls, scenario: Scenario, name: str = "as recorded") -> Setting:
        """The scenario's own.  Raises BadScenario."""
        shared, on = wiring.topology(scenario), machines.always_on(scenario)
        return cls(name, *machines.fleet(scenario), *machines.server(scenario), shared, on)


@dataclass(frozen=True)
class Mute(Guarded):
    """An algorithm of which a replay asks only how it trains and whom it asks: nothing is sent that has a shape."""

    def upload_form(self, round: int, model: nn.Module) -> Message:  # noqa: ARG002
        return {}


class Bare(Study):
    """A study whose model is empty and whose data are a single example."""

    @property
    def module(self) -> nn.Module:
        return nn.Identity()


def bare(scenario: Scenario, algorithms: Mapping[str, Guarded], setting: Setting, cycles: int) -> Bare:
    """The study of a replay; `algorithms` by label, `cycles` above 1 where the data drift."""
    nothing = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
    made: Mapping[str, Any] = {label: Mute(label, guarded.algorithm) for label, guarded in algorithms.items()}
    return Bare(
        model=scenario.model,
        dataset=Dataset("none", *nothing, *nothing, classes=1, cycles=cycles),
        splits={},
        algorithms=made,
        asked=scenario.rounds.ask or scenario.needed,
        fleet=setting.fleet,
        links=setting.links,
        server=setting.server,
        server_link=setting.server_link,
        topology=setting.topology,
        always_on=setting.always_on,
    )
