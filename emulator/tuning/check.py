"""Checks the section `tune:` of a scenario before anything is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emulator.tuning.space import applied
from emulator.tuning.strengths import automatic
from emulator.tuning.together import spaces, tune_of
from scenarios.builders import plugins
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario, did_you_mean


def check(scenario: Scenario) -> None:
    """Raises BadScenario if the section `tune:` is missing or does not fit the scenario."""
    tune = tune_of(scenario)
    labels = [entry.name for entry in scenario.algorithms]
    for label in tune.fixed:
        if label not in labels:
            raise BadScenario(f"there is no algorithm {label!r}; {did_you_mean(label, labels)}", ("tune", "fixed"))
    if both := sorted(set(tune.seeds) & set(scenario.seeds)):
        message = f"seed {both[0]} is one of the scenario's, which report the result; choose by others"
        raise BadScenario(message, ("tune", "seeds"))
    if not scenario.data.validation:
        raise BadScenario("settings are chosen on validation data; it must be above 0", ("data", "validation"))
    automatic(scenario)
    _check_grid(scenario, labels)


def _check_grid(scenario: Scenario, labels: Sequence[str]) -> None:
    """Raises BadScenario for an option of an unknown algorithm, for a value that an algorithm never accepts, and for
    an algorithm without a valid configuration."""
    owners = ["training", *labels, *(entry.key for entry in scenario.algorithms)]
    for path in tune_of(scenario).grid:
        if not any(path.startswith(f"{owner}.") for owner in owners):
            owner = path.partition(".")[0]
            raise BadScenario(
                f"{path}: no algorithm is called {owner!r}; {did_you_mean(owner, owners)}", ("tune", "grid")
            )
    for label, space in spaces(scenario).items():
        if not space.grid:
            raise BadScenario(f"{label}: {_refusal(scenario, label)}", ("tune", "grid"))
        for dimension in space.dimensions:
            if bad := [
                v for v in dimension.values if not any(dict(each)[dimension.option] == v for each in space.grid)
            ]:
                raise BadScenario(f"{label} does not take {dimension.option} = {bad[0]!r}", ("tune", "grid"))


def _refusal(scenario: Scenario, label: str) -> str:
    """Returns the algorithm's error message for the first configuration of its grid."""
    (entry,) = (each for each in scenario.algorithms if each.name == label)
    first = replace(spaces(scenario)[label], valid=lambda _: True).grid[0]
    return plugins.faults(applied(entry, first), scenario.training, (), scenario.rounds)[0].message
