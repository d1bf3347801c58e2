"""Checks options that a program passes to fedlapse's Python functions, by the rules of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from scenarios.text.faults import BadScenario, did_you_mean


def options(said: dict[str, Any], *kinds: Any) -> list[Any]:
    """Returns one object of each dataclass in `kinds`, with the values in `said`.

    The fields of these dataclasses are options of the command line.  Raises BadScenario for a name that is a field of
    none of them, and for an invalid value.
    """
    known = [{each.name for each in fields(kind)} for kind in kinds]
    if strange := said.keys() - set[str]().union(*known):
        name = min(strange)
        raise BadScenario(f"there is no option {name!r}; {did_you_mean(name, sorted(set[str]().union(*known)))}")
    given = [{name: value for name, value in said.items() if name in names} for names in known]
    return [_made(kind, mine) for kind, mine in zip(kinds, given, strict=True)]


def _made(kind: Any, said: dict[str, Any]) -> Any:
    hints, values = get_type_hints(kind, include_extras=True), {}
    for name, value in said.items():
        declared, option = get_args(hints[name])
        several = list[str] in (declared, *get_args(declared))
        try:
            made = TypeAdapter(declared).validate_python([value] if several and isinstance(value, str) else value)
        except ValidationError as error:
            raise BadScenario(f"{name}: {'; '.join(_faults(error))}, not {value!r}") from None
        for bound, beyond, word in ((option.min, -1, "at least"), (option.max, 1, "at most")):
            if None not in (bound, made) and (made - bound) * beyond > 0:
                raise BadScenario(f"{name}: it must be {word} {bound}, not {value!r}")
        values[name] = made
    return kind(**values)


def _faults(error: ValidationError) -> Iterator[str]:
    """Yields a phrase for each fault that pydantic found in a value, such as `it should be a valid integer`."""
    said = (fault["msg"].replace("Input should", "it should") for fault in error.errors())
    yield from dict.fromkeys(f"{text[:1].lower()}{text[1:]}" for text in said)
