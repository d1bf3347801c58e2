"""Makes the Lab of a replay in milliseconds, with the parts of a scenario that a replay needs: no data and no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import numpy as np

from algorithms.algorithm import Training
from algorithms.cohort import draw
from algorithms.networks import Network
from devices.data.dataset import Dataset
from devices.device import Device
from emulator.lab.lab import Division, Lab
from emulator.replay.script import Script, Unsaid
from network.links.link import Link
from network.sharing.flow import Topology
from scenarios.builders import machines, wiring
from scenarios.builders.selections import selection
from scenarios.schema.scenario import Scenario


@dataclass(frozen=True)
class Setting:
    """The devices and links, under the names that they have in the record, and the server with its link, on which a
    run is replayed."""

    name: str
    fleet: Mapping[str, Device]
    links: Mapping[str, Link]
    server: Device
    server_link: Link
    topology: Topology = field(default_factory=dict)  # access points and cells
    always_on: bool = False  # True if it is known that no device ever goes offline
    draw: int = 0  # number of TCP's chances on full links

    @classmethod
    def of(cls, scenario: Scenario, name: str = "as recorded") -> Setting:
        """Returns the scenario's own devices and links.  Raises BadScenario."""
        shared, on = wiring.topology(scenario), machines.always_on(scenario)
        return cls(name, *machines.fleet(scenario), *machines.server(scenario), shared, on)

    @property
    def parts(self) -> Mapping[str, Any]:
        """The fields of this setting, by name, that are also fields of a Lab."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}


@dataclass(frozen=True)
class RecordedAlgorithm:
    """A stand-in for the algorithm of a recorded run, with the properties that a replay needs."""

    script: Script
    training: Training

    @property
    def any_cohort_will_do(self) -> bool:
        """True if the run's algorithm accepts any devices as a round's cohort."""
        return self.script.facts.any_cohort_will_do

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        """Returns the devices that a round asks: as recorded, or, if the run drew them at random, a new draw from the
        idle `names`.

        The draw equals the recorded one as long as the same devices are idle.
        """
        if self.script.facts.cohort == "drawn":
            return draw(names, count, seed)
        return self.script.rounds[round].asked


class Sizes(dict[str, tuple[range]]):
    """The devices' examples, of which a replay needs only how many there are."""

    def __missing__(self, name: str) -> NoReturn:
        raise Unsaid(f"how many examples {name} holds, and the choice of devices depends on that")


def bare(scenario: Scenario, script: Script, setting: Setting) -> Lab:
    """Returns the Lab for the replay of a run in a setting.  `scenario` has the rounds of the run's algorithm.

    Its data are a single example, as nothing is trained.
    """
    entry = next(each for each in scenario.algorithms if each.name == script.label)
    said = entry.options.get("training") or {}
    training = Training(seconds=said.get("seconds", scenario.training.seconds), per_cycle=scenario.rounds.per_cycle)
    algorithm: Any = RecordedAlgorithm(script, training)
    cycles = 2 if script.cycles else 1
    nothing = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
    time = np.zeros(1, np.int64) if cycles > 1 else None  # the time slice of that example
    sizes: Any = Sizes({name: (range(n),) for name, n in script.examples.items()})
    entry = next(entry for entry in scenario.algorithms if entry.name == script.label)
    own = script.facts.cohort == "chosen" and selection(entry, scenario)
    chosen = {script.label: own} if own else {}
    return Lab(
        model=Network(scenario.model.name),
        dataset=Dataset("none", *nothing, *nothing, classes=1, cycles=cycles, cycle=time, cycle_test=time),
        splits={script.seed: Division(sizes, {}, {}, nothing[1])},
        selections=chosen,
        algorithms={script.label: algorithm},
        asked={script.label: scenario.asked},
        buffer={script.label: scenario.rounds.buffer or 0},
        **setting.parts,
    )
