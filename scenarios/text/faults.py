"""Errors of a scenario, which are reported all together, with their places and corrections."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from scenarios.text.dimensions import NUMBER, without_unit
from scenarios.text.yaml_source import Loc, Mark, YamlSource

MOST = 20  # faults that are shown
LONGEST = 300  # characters per line of a message; a longer line quotes a user's own long text
GAP = " [...] "
NOUNS = r"\b(an object|a valid (array|tuple|list|dictionary))\b"  # pydantic's
PATTERN = "it must begin with a letter or digit, and go on with letters, digits, dots, hyphens or underscores"
QUOTED = r'"([\w./-]+)"'  # a word that needs no quotes in YAML
SYNONYMS = {  # names used elsewhere -> names that may be meant here
    "lambda": ("strength", "mu"),
    "learning_rate": ("lr",),
    "batch_size": ("batch",),
    "local_epochs": ("epochs",),
    "3g": ("3g",),
    "4g": ("lte-walking", "lte-driving"),
    "lte": ("lte-walking", "lte-driving"),
    "5g": ("5g-low-band",),
}


@dataclass(frozen=True)
class Fault:
    """One fault of a scenario: its place (keys and indices) and its message."""

    loc: Loc
    message: str
    of_key: bool = False  # the key is wrong, not its value


class BadScenario(ValueError):  # noqa: N818  a state, and not an error
    """The error that a scenario cannot be run; its message gives the places of all faults, and corrections.

    Its lines are short and printable, whatever the scenario contains.  `loc` is the place of the wrong key; a message
    that already gives places in the text has none.
    """

    def __init__(self, message: str, loc: Loc = ()) -> None:
        self.fault = Fault(loc, message)
        whole = f"{'.'.join(map(str, loc))}: {message}" if loc else message
        super().__init__("\n".join(in_one_line(line) for line in whole.split("\n")))


def in_one_line(text: str, longest: int = LONGEST) -> str:
    """Returns the text on one line of at most `longest` characters, with control characters escaped; the middle of a
    longer text is left out."""
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    half = (longest - len(GAP)) // 2
    return line if len(line) <= longest else f"{line[:half]}{GAP}{line[-half:]}"


def listing(source: YamlSource, faults: Iterable[Fault]) -> BadScenario:
    """Returns the error that lists all faults, each with file:line:col, the line and a caret."""
    marked = [(source.mark(fault.loc, fault.of_key), fault) for fault in faults]
    # a value used in several places through an anchor has one fault
    once = {(mark or fault.loc, fault.message): (mark or (0, 0), fault) for mark, fault in reversed(marked)}
    shown = [_shown(source, fault) for _, fault in sorted(once.values(), key=lambda said: said[0])]
    more = [f"and {len(shown) - MOST} more"] if len(shown) > MOST else []
    return BadScenario("\n".join([*shown[:MOST], *more]))


@contextmanager
def placed(source: YamlSource | None) -> Iterator[None]:
    """A context in which a BadScenario with a `loc`, found when the scenario's data are read, gets the place in its
    text."""
    try:
        yield
    except BadScenario as error:
        raise (listing(source, [error.fault]) if source and error.fault.loc else error) from None


def unreadable(source: YamlSource, message: str, mark: Mark | None) -> BadScenario:
    """Returns the error for a text that cannot be read as a scenario."""
    return BadScenario(_placed(source, in_one_line(message), mark))


def did_you_mean(wrong: str, known: Collection[str], what: str = "one of") -> str:
    """Returns `did you mean x?`, or a list of all names if none is similar."""
    synonyms = [name for name in SYNONYMS.get(wrong.lower(), ()) if name in known]
    near = synonyms or get_close_matches(wrong, known, n=1, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"it must be {what} {', '.join(sorted(set(known)))}"


def faults_of(error: ValidationError, model: type[Any], loc: Loc = ()) -> list[Fault]:
    """Returns the errors that pydantic has found in values of the class `model`, as faults in plain words.  `loc` is
    the place of these values in the scenario."""
    told = error.errors(include_url=False)
    # pydantic also calls a list with wrong items too short
    places = [said["loc"] for said in told]
    said_twice = [
        said
        for said in told
        if said["type"] == "too_short"
        and any(len(place) > len(said["loc"]) and place[: len(said["loc"])] == said["loc"] for place in places)
    ]
    return [_fault(said, model, loc) for said in told if said not in said_twice]


def _fault(said: Any, model: type[Any], prefix: Loc) -> Fault:
    # pydantic's places contain tags of unions, which are not in the text: they are <in brackets>
    inner = tuple(part for part in said["loc"] if not str(part).startswith("<"))
    loc, name = (*prefix, *inner), str(inner[-1]) if inner else ""
    if said["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = did_you_mean(name, list(_fields(_part(model, inner[:-1]))))
        return Fault(loc, f"unknown key {name!r}; {hint}", of_key=True)
    if said["type"].startswith("missing"):
        return Fault(loc[:-1], f"{name!r} is missing", of_key=True)
    return Fault(loc, _of_value(said, name) + _as_mapping(said, model, inner))


def _of_value(said: Any, key: str) -> str:
    """Returns the message for a wrong value, with the correction."""
    given = said.get("input")
    if said["type"] == "value_error":  # our own message, which names the value
        return str(said["msg"]).removeprefix("Value error, ")
    if said["type"] == "literal_error":
        known = [word.strip("'") for word in re.split(" or |, ", said["ctx"]["expected"])]
        return f"{short(given)} is not known; {did_you_mean(str(given), known)}"
    message = re.sub(NOUNS, _in_yaml, _demand(said))
    return f"{message}{_given(given, message)}{_hint(said, key, given)}"


def _demand(said: Any) -> str:
    """Returns what a wrong value must be, from pydantic's error."""
    ctx = said.get("ctx", {})
    match said["type"]:
        case "string_pattern_mismatch":
            return PATTERN
        case "too_short" | "string_too_short" if ctx["min_length"] == 1:
            return "it must not be empty"
        case "too_short" | "string_too_short":
            return f"it has {ctx['actual_length']} items; it must have {ctx['min_length']}"
        case "too_long":
            return f"it has {ctx['actual_length'] or 'more'} items; it may have {ctx['max_length']}"
        case "string_too_long":
            return f"it may have at most {ctx['max_length']} characters"
    return re.sub("^Input should be", "it must be", said["msg"])


def _as_mapping(said: Any, model: type[Any], loc: Loc) -> str:
    """Returns how to write a value as a mapping: under the key for which it is a possible value, or as in an example;
    "" if no mapping is expected."""
    if said["type"] != "model_type":
        return ""
    given, known = said["input"], _fields(_part(model, loc))
    if isinstance(given, list) and known.keys() >= {"low", "high"} and len(given) == 2:
        return f"; write {{low: {short(given[0])}, high: {short(given[1])}}}"
    for name, kind in known.items():
        if get_origin(kind) is Literal and given in get_args(kind):
            return f"; write {{{name}: {given}}}"
    return _example(model, loc)


def _example(model: type[Any], loc: Loc) -> str:
    """Returns the first example of a key whose value is a mapping, as it is written in a scenario; "" if there is
    none."""
    around = _part(model, loc[:-1])
    info = around.model_fields.get(str(loc[-1])) if loc and issubclass(around, BaseModel) else None
    mappings = [each for each in (info.examples if info and info.examples else ()) if isinstance(each, dict)]
    return "; as " + re.sub(QUOTED, r"\1", json.dumps(mappings[0])) if mappings else ""


def _hint(said: Any, key: str, given: Any) -> str:
    """Returns a suggestion of the value or key that the user may have meant; "" if there is none."""
    if isinstance(given, str) and (meant := _number(key, given)):
        return meant
    if "<number>" in said["loc"] and isinstance(given, (list, str)):
        return "; a range is {uniform: {low: 0.5, high: 2}}"
    if "off" in said["loc"]:
        return "; absences are pairs, as [[30, 60]]"
    if said["type"] == "tuple_type" and isinstance(given, (int, float, str)):
        return f"; as [{given}]"
    if given == 0 and "fleet" in said["loc"] and key.endswith("_mbit_s"):
        return "; a device that is off is written `presence: {off: [[0, .inf]]}`"
    return as_share(given) if isinstance(given, (int, float)) and said.get("ctx", {}).get("le") == 1 else ""


def as_share(given: float) -> str:
    """Returns how to write a share that was given in percent; "" for a number that is not a percentage."""
    return f"; {given:g} % is {given / 100:g}" if 1 < given <= 100 else ""


def _number(key: str, given: str) -> str:
    """Returns how to write a number that was given with a unit or in %; "" for another text."""
    if number := without_unit(key, given):
        return f"; the unit is in the key: write {number}"
    percent = re.fullmatch(rf"({NUMBER})\s*%", given)
    return f"; {given} is {float(percent[1]) / 100:g}" if percent else ""


def _in_yaml(match: re.Match[str]) -> str:
    return "a mapping" if match[0] in ("an object", "a valid dictionary") else "a list"


def _given(value: Any, message: str) -> str:
    if not isinstance(value, (dict, list, tuple, BaseModel)):
        return f", not {short(value)}"
    kind = "a list" if isinstance(value, (list, tuple)) else "a mapping"
    return "" if kind in message or not message.startswith("it must be") else f", not {kind}"


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _part(model: type[Any], loc: Sequence[str | int]) -> type[Any]:
    """Returns the class of the part of a scenario at the place `loc`; `model` is that of the whole."""
    for part in loc:
        if isinstance(part, str):
            model = _model(_fields(model).get(part)) or model
    return model


def _fields(model: type[Any]) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {name: info.annotation for name, info in model.model_fields.items()}
    if not is_dataclass(model):
        return {}
    of_any = dict.fromkeys(("encoding", "rounds", "selection"), dict)  # options of any algorithm
    return {field.name: field.type for field in fields(model) if field.init} | of_any


def _model(annotation: Any) -> type[BaseModel] | None:
    """Returns the class of the part inside an annotation like `tuple[Group, ...]`, `dict[Name, Shared]` or `Link |
    None`; None if there is none."""
    if isinstance(annotation, type) and not get_origin(annotation) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, tuple, dict) or hasattr(annotation, "__metadata__"):
        return next((found for inner in get_args(annotation) if (found := _model(inner))), None)
    return None


def _shown(source: YamlSource, fault: Fault) -> str:
    path, said = ".".join(map(str, fault.loc)), in_one_line(fault.message)
    typed = source.typed(fault.loc)
    if typed is not None:
        return in_one_line(f"{typed}: {path}: {said}")
    message = in_one_line(f"{path}: {said}" if path else said)
    return _placed(source, message, source.mark(fault.loc, fault.of_key))


def _placed(source: YamlSource, message: str, mark: Mark | None) -> str:
    """Returns `file:line:col: message`, and below it the line of the scenario with a caret under the place."""
    lines, name = source.text.splitlines(), in_one_line(source.name)
    if mark is None or mark[0] >= len(lines):
        return f"{name}: {message}"
    line, column = mark
    text, indent = lines[line], ""
    if column > 100:  # only the surroundings of a long line are shown
        text, column, indent = text[column - 40 :], 40, "..."
    text = "".join(letter if letter.isprintable() else " " for letter in text[:140])
    caret = " " * (len(indent) + column) + "^"
    return f"{name}:{line + 1}:{mark[1] + 1}: {message}\n{line + 1:>6} | {indent}{text}\n       | {caret}"
