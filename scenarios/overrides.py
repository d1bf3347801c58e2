"""`path=value` on the command line: changes of single values of a scenario, applied before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenarios.schema.entries import entry_of
from scenarios.text.faults import BadScenario, did_you_mean, in_one_line, short
from scenarios.text.yaml_source import DEEPEST, Loc, Unreadable, YamlSource, read

LONGEST_SAID = 100  # characters of a change that errors show
NAMED = ("model", "task")  # parts that may be given by their name alone


def change(source: YamlSource, changes: Sequence[str]) -> None:
    """Applies changes like `rounds.max=3`, `fleet.0.count=30`, `algorithms.fedcl.strength=1` to the plain values in
    `source`.

    Items of a list are named by their number from 0; groups also by their name or profile, algorithms by their label.
    Unknown keys are reported when the scenario is checked.  Raises BadScenario.
    """
    for typed in changes:
        path, equals, text = typed.partition("=")
        said = in_one_line(typed, LONGEST_SAID)
        if not equals or not all(map(str.strip, path.split("."))) or not path.isprintable():
            raise BadScenario(f"{said}: a change is PATH=VALUE, as rounds.max=3")
        if path.count(".") >= DEEPEST:
            raise BadScenario(f"{said}: a path of {path.count('.') + 1} names; a scenario is at most {DEEPEST} deep")
        try:
            value = read(text, said).plain
        except Unreadable as error:
            raise BadScenario(f"{said}: the value is {error}") from None
        loc = _put(source.plain, path.split("."), value, said)
        source.said[_as_written(source.plain, loc)] = said


def _put(whole: dict[str, Any], path: list[str], value: Any, said: str) -> Loc:
    """Writes the value at the path into the scenario's plain values; returns the path as keys and indices.  `said`: the
    change as typed, for errors."""
    where, loc = whole, ()  # type: Any, Loc
    if path[0] == "algorithms" and len(path) > 2:
        _write_out_entries(whole, path, said)
    if path[0] in NAMED and len(path) > 1 and isinstance(whole.get(path[0]), str):
        whole[path[0]] = {"name": whole[path[0]]}
    for number, part in enumerate(path):
        step = _index(where, part, said, ".".join(path[:number])) if isinstance(where, list) else part
        loc = (*loc, step)
        if number == len(path) - 1:
            where[step] = value
        else:
            if isinstance(where, dict) and where.get(str(step)) is None:
                where[step] = {}
            where = where[step]
            if not isinstance(where, (dict, list)):
                raise BadScenario(f"{said}: {step} is {short(where)}; it has nothing inside that could be changed")
    return loc


def _as_written(whole: dict[str, Any], loc: Loc) -> Loc:
    """Returns the place under which later errors report the value at `loc`.  For an algorithm's option, that is the
    place as in the scenario's file: under the algorithm's name, not under `options`."""
    if loc[0] == "algorithms" and len(loc) > 2 and loc[2] == "options":
        return (*loc[:2], str(whole["algorithms"][loc[1]]["key"]), *loc[3:])
    return loc


def _index(items: list[Any], part: str, said: str, inside: str) -> int:
    """Returns the index of the item that `part` of a path names, by number, name, profile or label."""
    if part.isascii() and part.isdigit() and int(part) < len(items):
        return int(part)
    found = [number for number, item in enumerate(items) if part in _names(item)]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadScenario(f"{said}: {inside} has {len(found)} items called {part}; give its number, from 0")
    raise BadScenario(f"{said}: {inside} has no item {part!r}; {_items_hint(items, part)}")


def _items_hint(items: list[Any], part: str) -> str:
    """Returns a hint with the items that exist, for the error that an item is unknown."""
    numbers = f"a number from 0 to {len(items) - 1}" if items else "nothing: it is empty"
    known = [name for item in items for name in _names(item)]
    if not known:
        return f"it takes {numbers}"
    return f"{did_you_mean(part, known)} It may also be {numbers}"


def _names(item: Any) -> list[str]:
    if not isinstance(item, dict):
        return []
    name = item.get("name") or item.get("profile") or item.get("label")
    return [name] if isinstance(name, str) else []


def _write_out_entries(whole: dict[str, Any], path: list[str], said: str) -> None:
    """Expands the short forms of all entries of `algorithms:`, because `algorithms.fedcl.strength` names an option
    inside an entry.  `said`: the change as typed, for errors."""
    entries = whole.get("algorithms")
    if not isinstance(entries, list):
        raise BadScenario(f"{said}: the scenario lists no algorithms")
    try:
        whole["algorithms"] = [entry_of(entry) for entry in entries]
    except ValueError as error:
        raise BadScenario(f"{said}: algorithms: {error}") from None
    if path[2] not in ("name", "key", "options"):
        path.insert(2, "options")
