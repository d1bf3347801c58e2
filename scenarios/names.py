"""Checks the names in the plain values of a scenario, even if other values do not fit the schema.

So a wrong name and a wrong number are reported together.  The check imports no algorithm, model or data set.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from algorithms.tasks.task import METRICS
from devices.device import profiles
from network.links.synth import presets
from network.traces.read import FORMATS
from scenarios.schema import known
from scenarios.schema.entries import Entry
from scenarios.text.faults import Fault, did_you_mean, faults_of, short
from scenarios.text.yaml_source import Loc


def faults(plain: Any) -> list[Fault]:
    """Returns a fault for each name that does not exist or is repeated: of profiles, radios, models, algorithms and
    others.

    Values that are not names at all are left to the schema.
    """
    boards = [*profiles(), *_keys(plain, "profiles")]
    return [
        *_unknown(plain, ("model",), "model", known.models(), own=True),
        *_unknown(plain, ("model", "name"), "model", known.models(), own=True),
        *_unknown(plain, ("task",), "task", METRICS, own=True),
        *_unknown(plain, ("task", "name"), "task", METRICS, own=True),
        *_unknown(plain, ("data", "set"), "data set", known.sets(), own=True),
        *_unknown(plain, ("server", "profile"), "profile", boards),
        *_shadowing(plain),
        *(
            fault
            for number in range(_length(plain, "fleet"))
            for fault in (
                *_unknown(plain, ("fleet", number, "profile"), "profile", boards),
                *_link(plain, ("fleet", number, "link")),
            )
        ),
        *_link(plain, ("server", "link")),
        *(fault for name in _keys(plain, "topology") for fault in _link(plain, ("topology", name))),
        *(fault for number in range(_length(plain, "algorithms")) for fault in _algorithm(plain, number)),
        *_twice(plain),
        *_expected(plain),
    ]


def _shadowing(plain: Any) -> Iterator[Fault]:
    for name in _keys(plain, "profiles"):
        if name in profiles():
            message = f"{short(name)} is a profile that comes with fedlapse; give yours another name"
            yield Fault(("profiles", name), message, of_key=True)


def _twice(plain: Any) -> Iterator[Fault]:
    """Yields a fault for each repeated name or seed that must be unique."""
    labels = [_label(plain, number) for number in range(_length(plain, "algorithms"))]
    for number, label in _repeated(labels):
        message = f"{short(label)} is another algorithm's name already; give this one its own `name:`"
        yield Fault(("algorithms", number), message)
    yield from _groups_twice(plain)
    seeds = [_at(plain, ("seeds", number)) for number in range(_length(plain, "seeds"))]
    for number, seed in _repeated(seeds):
        yield Fault(("seeds", number), f"{short(seed)} is there already; each seed is one run")


def _groups_twice(plain: Any) -> Iterator[Fault]:
    """Yields a fault for each group that has another group's name; a group without a name has its profile's."""
    groups = range(_length(plain, "fleet"))
    names = [_at(plain, ("fleet", number, "name")) for number in groups]
    for number, name in _repeated(names):
        message = f"{short(name)} is another group's name already; names must differ"
        yield Fault(("fleet", number, "name"), message)
    profiles = [_at(plain, ("fleet", number, "profile")) for number in groups]
    unnamed = [profiles[number] for number in groups if names[number] is None]
    for number, name in enumerate(names):
        if isinstance(name, str) and name in unnamed:
            message = f"{short(name)} is what another group is called, after its profile"
            yield Fault(("fleet", number, "name"), message)


def _expected(plain: Any) -> Iterator[Fault]:
    labels = [label for number in range(_length(plain, "algorithms")) if (label := _label(plain, number))] or ["fedavg"]
    for number in range(_length(plain, "expect")):
        label = _at(plain, ("expect", number, "label"))
        if isinstance(label, str) and label not in labels:
            yield Fault(("expect", number, "label"), f"there is no label {short(label)}; {did_you_mean(label, labels)}")


def _label(plain: Any, number: int) -> str | None:
    """Returns the name of an algorithm in results; None if its entry is not valid."""
    try:
        return Entry.model_validate(_at(plain, ("algorithms", number))).name
    except ValidationError:
        return None


def _repeated(values: Sequence[Any]) -> list[tuple[int, Any]]:
    """Returns (index, value) of each word or whole number in the list that repeats an earlier one."""
    words = [(number, value) for number, value in enumerate(values) if isinstance(value, (str, int))]
    first: dict[Any, int] = {}
    return [(number, value) for number, value in words if first.setdefault(value, number) != number]


def _unknown(plain: Any, loc: Loc, what: str, names: Collection[str], own: bool = False) -> Iterator[Fault]:
    name = _at(plain, loc)
    if isinstance(name, str) and name not in names and not (own and ":" in name):
        more = "; your own is package.module:function" if own else ""
        yield Fault(loc, f"there is no {what} {name!r}; {did_you_mean(name, names)}{more}")


def _link(plain: Any, loc: Loc) -> Iterator[Fault]:
    yield from _unknown(plain, (*loc, "radio"), "radio", presets())
    yield from _unknown(plain, (*loc, "trace", "format"), "format", FORMATS)


def _algorithm(plain: Any, number: int) -> list[Fault]:
    """Returns the faults of one entry of `algorithms:`: an unknown algorithm, or unknown options or wrong types of a
    built-in one."""
    loc: Loc = ("algorithms", number)
    try:
        entry = Entry.model_validate(_at(plain, loc))
    except ValidationError:
        return []
    inside = (*loc, entry.key)
    if ":" in entry.key:
        return []
    if entry.key not in known.algorithms():
        installed = [point.name for point in entry_points(group=known.GROUP)]
        names = [*known.algorithms(), *installed]
        message = f"there is no algorithm {entry.key!r}; {did_you_mean(entry.key, names)}"
        return [] if entry.key in installed else [Fault(inside, message, of_key=True)]
    options = known.options(entry.key)
    try:
        options.model_validate_json(json.dumps(entry.options, default=str))
    except ValidationError as error:
        return faults_of(error, options, inside)
    return []


def _length(plain: Any, key: str) -> int:
    found = _at(plain, (key,))
    return len(found) if isinstance(found, list) else 0


def _keys(plain: Any, key: str) -> list[str]:
    found = _at(plain, (key,))
    return [name for name in found if isinstance(name, str)] if isinstance(found, dict) else []


def _at(plain: Any, loc: Loc) -> Any:
    for step in loc:
        if isinstance(plain, list) and isinstance(step, int) and step < len(plain):
            plain = plain[step]
        else:
            plain = plain.get(step) if isinstance(plain, dict) else None
    return plain
