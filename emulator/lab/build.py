"""From a scenario to the objects that its runs share."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.lab import single, stacking
from emulator.lab.guarded import CAUGHT, Faulty, Guarded, Unmade
from emulator.lab.lab import Lab, Split
from emulator.lab.seeds import seed as derive
from scenarios.builders import machines, parts, plugins, wiring
from scenarios.schema.entries import Encoding, Entry
from scenarios.schema.scenario import Scenario


def lab_of(scenario: Scenario) -> Lab:
    """The scenario's objects, built once for all its runs.  Raises BadScenario."""
    data = parts.dataset(scenario)
    parts.check_model(scenario, data)
    parts.check_enough(scenario, data)
    scenario = stacking.resolved(scenario, data)
    fleet, links = machines.fleet(scenario)
    server, server_link = machines.server(scenario)
    splits = {}
    for root in scenario.seeds:
        rng = np.random.default_rng(derive(root, "split"))
        splits[root] = Split(**parts.split(scenario, data, fleet, rng))
    single.check(scenario, data, splits)
    algorithms: dict[str, Any] = {
        entry.name: Guarded(entry.name, _algorithm(entry, scenario)) for entry in scenario.algorithms
    }
    encodings: dict[str, Encoding] = {}
    for entry in scenario.algorithms:
        try:
            encodings[entry.name] = plugins.encoding(entry, algorithms[entry.name])
        except Faulty as fault:
            algorithms[entry.name], encodings[entry.name] = Guarded(entry.name, Unmade(fault)), Encoding()
    return Lab(
        model=scenario.model,
        dataset=data,
        splits=splits,
        algorithms=algorithms,
        asked=scenario.rounds.ask or scenario.needed,
        up={label: encoding.up for label, encoding in encodings.items()},
        down={label: encoding.down for label, encoding in encodings.items()},
        fleet=fleet,
        links=links,
        server=server,
        server_link=server_link,
        topology=wiring.topology(scenario),
        always_on=machines.always_on(scenario),
        stack={entry.name: stacking.size_of(entry, algorithms[entry.name], scenario) for entry in scenario.algorithms},
    )


def _algorithm(entry: Entry, scenario: Scenario) -> Any:
    """An algorithm that cannot be made fails when it is first asked for something."""
    try:
        return plugins.algorithm(entry, scenario.training, scenario.rounds.per_cycle)
    except CAUGHT as error:
        return Unmade(Guarded(entry.name, plugins.kind(entry.key)).fault(error, "making it"))
