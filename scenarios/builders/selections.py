"""Makes the choice of devices that a scenario names under `selection`, for each of its algorithms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from pydantic import ValidationError

from algorithms.selection.oort import Oort
from algorithms.selection.past import Selection
from algorithms.selection.power_of_choice import PowerOfChoice
from scenarios.builders.plugins import UnknownName, adapter, kind, thing
from scenarios.schema.entries import Entry
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import Fault, did_you_mean, faults_of, short
from scenarios.text.yaml_source import Loc

RANDOM = "random"
KINDS: dict[str, type[Any]] = {"power_of_choice": PowerOfChoice, "oort": Oort}


def selection(entry: Entry, scenario: Scenario) -> Selection | None:
    """Returns the choice of devices of this entry of `algorithms:`; None if they are drawn at random, or by the
    algorithm's own rule.

    Raises UnknownName for an unknown name, ValueError for another form, ValidationError for options that the class does
    not accept.
    """
    name, options = _named(entry.options.get("selection", scenario.selection))
    if name == RANDOM:
        return None
    made: Selection = adapter(_kind(name)).validate_json(json.dumps(options))
    return made


def own(entry: Entry, scenario: Scenario) -> bool:
    """Returns true if the entry's choice of devices is a user's own class."""
    return ":" in _named(entry.options.get("selection", scenario.selection))[0]


def faults(scenario: Scenario) -> Iterator[Fault]:
    """Yields the faults of the choices of devices, with their places."""
    for n, entry in enumerate(scenario.algorithms):
        mine = "selection" in entry.options
        loc: Loc = ("algorithms", n, entry.key, "selection") if mine else ("selection",)
        if not mine and n and any("selection" not in before.options for before in scenario.algorithms[:n]):
            continue  # told before
        yield from _faults(entry, scenario, loc)
    for n, entry in enumerate(scenario.algorithms):
        if _named(entry.options.get("selection", scenario.selection))[0] != RANDOM and _chooses(entry):
            said = f"{entry.key} chooses whom it asks by a rule of its own; it needs `selection: random`"
            yield Fault(("algorithms", n, entry.key), said)


def _faults(entry: Entry, scenario: Scenario, loc: Loc) -> Iterator[Fault]:
    try:
        selection(entry, scenario)
    except ValidationError as error:
        name = _named(entry.options.get("selection", scenario.selection))[0]
        yield from faults_of(error, _kind(name), (*loc, name))
    except (ValueError, TypeError) as error:
        yield Fault(loc, str(error))


def _chooses(entry: Entry) -> bool:
    try:
        return bool(kind(entry.key).cohort_rule == "own")
    except UnknownName:  # told where algorithms are checked
        return False


def _named(said: object) -> tuple[str, dict[str, Any]]:
    """Returns the name of a choice of devices and its options."""
    if isinstance(said, str):
        return said, {}
    if isinstance(said, dict) and len(said) == 1:
        ((name, options),) = said.items()
        if isinstance(name, str) and isinstance(options, dict | None):
            return name, options or {}
    raise ValueError(f"selection is {short(said)}; it must be a name, or one with options, as {{oort: {{alpha: 1}}}}")


def _kind(name: str) -> type[Any]:
    if name in KINDS:
        return KINDS[name]
    if ":" not in name:
        raise UnknownName(f"there is no selection {name!r}; {did_you_mean(name, [RANDOM, *KINDS])}")
    found = thing(name)
    if not isinstance(found, type) or not is_dataclass(found) or not hasattr(found, "cohort"):
        raise UnknownName(f"{name} must be a frozen dataclass with a method `cohort`, as Oort is")
    if getattr(found, "loss_power", None) not in (0, 1, 2):
        raise UnknownName(f"{name} must say `loss_power: ClassVar[int]`, the power of the losses it needs: 0, 1 or 2")
    return found
