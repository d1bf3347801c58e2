"""Names that a scenario uses, looked up in its plain values: also where other values do not fit the schema.

So a wrong name and a wrong number are told together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import ValidationError

from algorithms.models import MODELS
from devices.device import profiles
from scenarios import plugins
from scenarios.faults import Fault, did_you_mean
from scenarios.schema import Entry, Training
from scenarios.source import Loc

DATASETS = ("digits", "mnist")


def faults(plain: Any) -> list[Fault]:
    """Profiles, model, data set, algorithms and their options that there are not.

    What is no name at all is left to the schema.
    """
    return [
        *_unknown(plain, ("model",), "model", MODELS, own=True),
        *_unknown(plain, ("data", "set"), "data set", DATASETS, own=True),
        *_unknown(plain, ("server", "profile"), "profile", profiles()),
        *(
            fault
            for number in range(_length(plain, "fleet"))
            for fault in _unknown(plain, ("fleet", number, "profile"), "profile", profiles())
        ),
        *(fault for number in range(_length(plain, "algorithms")) for fault in _algorithm(plain, number)),
    ]


def _unknown(plain: Any, loc: Loc, what: str, known: Collection[str], own: bool = False) -> Iterator[Fault]:
    name = _at(plain, loc)
    if isinstance(name, str) and name not in known and not (own and ":" in name):
        more = "; your own is package.module:function" if own else ""
        yield Fault(loc, f"there is no {what} {name!r}; {did_you_mean(name, known)}{more}")


def _algorithm(plain: Any, number: int) -> list[Fault]:
    loc: Loc = ("algorithms", number)
    try:
        entry = Entry.model_validate(_at(plain, loc))
    except ValidationError:
        return []
    try:
        shared = Training.model_validate(plain.get("training", {}))
    except ValidationError:
        shared = Training()
    return plugins.faults(entry, shared, loc)


def _length(plain: Any, key: str) -> int:
    found = _at(plain, (key,))
    return len(found) if isinstance(found, list) else 0


def _at(plain: Any, loc: Loc) -> Any:
    for step in loc:
        if isinstance(plain, list) and isinstance(step, int) and step < len(plain):
            plain = plain[step]
        else:
            plain = plain.get(step) if isinstance(plain, dict) else None
    return plain
