"""Builds the objects that all runs of a scenario share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.tasks.task import Task
from emulator.lab import single, stacking
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import CAUGHT, Guarded, GuardedSelection, Unmade, unguarded
from emulator.lab.lab import CPU, Division, Lab
from emulator.lab.seeds import seed as derive
from scenarios.builders import machines, networks, parts, plugins, selections, wiring
from scenarios.schema.entries import Encoding, Entry
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


def lab_of(scenario: Scenario, places: Sequence[str] = (CPU,)) -> Lab:
    """Returns the objects of a scenario, built once for all its runs.  Raises BadScenario."""
    return built(scenario, places)[1]


def built(scenario: Scenario, places: Sequence[str] = (CPU,)) -> tuple[Scenario, Lab]:
    """Returns the scenario with a value in place of each `auto`, and its objects, built once for all its runs.
    `places`: the devices of torch on which the emulated devices train.

    Raises BadScenario, also for a precision that the places do not support.
    """
    scenario, task = parts.with_task(networks.with_digest(scenario))
    data = parts.dataset(scenario)
    augmentation = parts.augmentation(scenario, data)
    parts.check_model(scenario, data, task)
    parts.check_enough(scenario, data)
    scenario = stacking.resolved(scenario, data, places[0])
    fleet, links = machines.fleet(scenario)
    server, server_link = machines.server(scenario)
    splits = {}
    for root in scenario.seeds:
        rng = np.random.default_rng(derive(root, "split"))
        splits[root] = Division(**parts.split(scenario, data, fleet, rng))
    algorithms: dict[str, Any] = {
        entry.name: Guarded(entry.name, _algorithm(entry, scenario)) for entry in scenario.algorithms
    }
    encodings: dict[str, Encoding] = {}
    for entry in scenario.algorithms:
        try:
            encodings[entry.name] = plugins.encoding(entry, algorithms[entry.name])
        except Faulty as fault:
            algorithms[entry.name], encodings[entry.name] = Guarded(entry.name, Unmade(fault)), Encoding()
    _check_options(algorithms, places[0], task, scenario.task.name)
    lab = Lab(
        model=networks.network(scenario),
        preloaded=scenario.model.preloaded,
        task_name=scenario.task.name,
        metrics=scenario.metrics,
        dataset=data,
        splits=splits,
        algorithms=algorithms,
        asked={label: scenario.under(label).asked for label in algorithms},
        buffer={label: scenario.under(label).rounds.buffer or 0 for label in algorithms},
        up={label: encoding.up for label, encoding in encodings.items()},
        down={label: encoding.down for label, encoding in encodings.items()},
        fleet=fleet,
        links=links,
        server=server,
        server_link=server_link,
        topology=wiring.topology(scenario),
        selections=_selections(scenario),
        always_on=machines.always_on(scenario),
        stack={entry.name: stacking.size_of(entry, algorithms[entry.name], scenario) for entry in scenario.algorithms},
        augment=augmentation,
        trains_on=places,
    )
    single.check(scenario, lab)
    return scenario, lab


def _selections(scenario: Scenario) -> dict[str, GuardedSelection]:
    """Returns the choices of devices by label, of the algorithms that have one.  Raises BadScenario."""
    try:
        made = {entry.name: selections.selection(entry, scenario) for entry in scenario.algorithms}
    except ValueError as error:
        raise BadScenario(f"selection: {error}", ("selection",)) from None
    return {label: GuardedSelection(label, chosen) for label, chosen in made.items() if chosen}


def _check_options(algorithms: Mapping[str, Any], place: str, task: Task, name: str) -> None:
    """Raises BadScenario for a precision that the place does not support, and for a Fisher diagonal that needs
    probabilities of classes in a task without them; `name` is the task's."""
    for label, algorithm in algorithms.items():
        try:
            precision, fisher = algorithm.training.precision, getattr(unguarded(algorithm), "fisher", None)
        except Faulty:  # an algorithm that raises here fails in its own runs
            continue
        if place == CPU and precision == "tf32":
            raise BadScenario(f"{label}: training.precision: tf32 needs --device cuda; on the CPU use float32 or bf16")
        if fisher in ("exact", "sampled") and not task.of_classes:
            what = f"{label}: fisher: {fisher} needs probabilities of classes, and {name} has none"
            raise BadScenario(f"{what}; it may be empirical or batch_squared")


def _algorithm(entry: Entry, scenario: Scenario) -> Any:
    """Returns the algorithm of this entry, unguarded; if it cannot be made, a substitute that raises the error at its
    first use."""
    try:
        return plugins.algorithm(entry, scenario.training, scenario.rounds.per_cycle)
    except CAUGHT as error:
        return Unmade(Guarded(entry.name, plugins.kind(entry.key)).fault(error, "making it"))
