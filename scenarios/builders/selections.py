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

RANDOM = "random"
KINDS: dict[str, type[Any]] = {"power_of_choice": PowerOfChoice, "oort": Oort}


def selection(entry: Entry, scenario: Scenario) -> Selection | None:
    """Returns the choice of devices for this entry of `algorithms:`; None if they are drawn at random, or chosen by the
    algorithm's own rule.

    Raises UnknownName for an unknown name, ValueError for another form, ValidationError for options that the class does
    not accept.
    """
    name, options = named(entry, scenario)
    if name == RANDOM:
        return None
    made: Selection = adapter(_kind(name)).validate_json(json.dumps(options))
    return made


def named(entry: Entry, scenario: Scenario) -> tuple[str, dict[str, Any]]:
    """Returns the name and the options of the choice of devices for this entry: its own, or the scenario's.  Raises
    ValueError for another form."""
    said = entry.options.get("selection", scenario.selection)
    if isinstance(said, str):
        return said, {}
    if isinstance(said, dict) and len(said) == 1:
        ((name, options),) = said.items()
        if isinstance(name, str) and isinstance(options, dict | None):
            return name, options or {}
    raise ValueError(f"it is {short(said)}; it must be a name, or one with options, for example {{oort: {{alpha: 1}}}}")


def faults(scenario: Scenario) -> list[Fault]:
    """Returns the faults of the choices of devices, each once, with their places."""
    found = (fault for n, entry in enumerate(scenario.algorithms) for fault in _faults(n, entry, scenario))
    return list(dict.fromkeys(found))


def _faults(n: int, entry: Entry, scenario: Scenario) -> Iterator[Fault]:
    inside = ("algorithms", n, entry.key)
    loc = (*inside, "selection") if "selection" in entry.options else ("selection",)
    try:
        if selection(entry, scenario) and _chooses(entry):
            said = f"{entry.key} selects devices by a rule of its own; it needs `selection: random`"
            yield Fault(inside, said)
    except ValidationError as error:
        name, _ = named(entry, scenario)
        yield from faults_of(error, _kind(name), (*loc, name))
    except (ValueError, TypeError) as error:
        yield Fault(loc, str(error))


def _chooses(entry: Entry) -> bool:
    try:
        return bool(kind(entry.key).cohort_rule == "own")
    except UnknownName:  # the entry's own fault
        return False


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
