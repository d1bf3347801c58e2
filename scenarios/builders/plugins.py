"""Finds a user's own algorithms, models and data sets, which a scenario names.

An algorithm may have a plain name: that of a module in `algorithms/`, or of an entry point in the group
`fedlapse.algorithms`.  Otherwise it is named by a dotted path, `package.module:Thing`, as own models and data sets are;
naming one imports it, which runs its code.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from importlib import import_module, resources
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

import devices.data.tv  # noqa: F401  what is imported here may import torchvision beside a CPU-only torch
from algorithms.algorithm import INTERFACE, Algorithm, Training
from network.wire.encoding import parse
from scenarios.builders import own_code, reads
from scenarios.builders.slips import NO_OPTIONS, annotated, slips
from scenarios.schema import training as schema
from scenarios.schema.entries import Encoding, Entry
from scenarios.schema.known import GROUP
from scenarios.text.faults import Fault, did_you_mean, faults_of, short
from scenarios.text.yaml_source import Loc

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
ANY_ROUNDS = schema.Rounds()
OF_ANY = ("training", "rounds", "encoding", "selection")  # options that any algorithm has, beside its own
ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}  # made on demand


class UnknownName(ValueError):  # noqa: N818  a state, and not an error
    """The error that a name does not exist, or is that of an object of the wrong kind; its message gives the
    correction."""


@cache
def kinds() -> dict[str, type[Any]]:
    """Returns the classes of all algorithms that have a name: those in `algorithms/`, and entry points of installed
    packages.

    A broken entry point is left out, because it must not stop a run that does not name it; `kind` reports its error.
    """
    known = {module: import_module(f"algorithms.{module}") for module in _modules()}
    found = {name: kind for name, module in known.items() if (kind := _class(module, name))}
    for point in entry_points(group=GROUP):
        try:
            found.setdefault(point.name, kind_at(point.value))  # algorithms of fedlapse keep their names
        except UnknownName:
            continue
    return dict(sorted(found.items()))


def kind(key: str) -> type[Any]:
    """Returns the class of an algorithm, by name or dotted path.  Raises UnknownName."""
    if ":" in key:
        return kind_at(key)
    if key in _modules() and (found := _class(import_module(f"algorithms.{key}"), key)):
        return found  # from one module, because importing all of them takes long
    for point in entry_points(group=GROUP, name=key):
        return kind_at(point.value)  # raises the entry point's error
    raise UnknownName(f"there is no algorithm {key!r}; {did_you_mean(key, kinds())}")


def kind_at(path: str) -> type[Any]:
    """Returns the algorithm's class at a dotted path.  Raises UnknownName."""
    found = thing(path)
    missing = _missing(found)
    if not isinstance(found, type) or not is_dataclass(found) or missing:
        lacks = f"; it lacks {', '.join(missing)}" if missing else ""
        raise UnknownName(f"{path} must be a frozen dataclass with both halves of an algorithm, as FedAvg is{lacks}")
    for slip in slips(found):
        raise UnknownName(f"{path} {slip}")
    return found


def _missing(kind: Any) -> list[str]:
    """Returns the members of an algorithm's interface that a class lacks.  A dataclass field counts as a member."""
    has = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    return [name for name in INTERFACE if name not in has]


def thing(path: str) -> Any:
    """Returns the object at `package.module:name`.  Raises UnknownName, also for any error of its import."""
    if path.partition(":")[0] == "__main__":
        raise UnknownName(f"{short(path)} lies in the program itself, which workers do not import; put it into a file")
    reads.watch(path)
    own_code.note(path.partition(":")[0])
    try:
        return resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"cannot find {short(path)}: {_words(error)}; {advice(path, error)}") from None
    except (Exception, SystemExit) as error:  # a user's code, maybe a script; its message helps the user
        said = f"importing {short(path)} failed: {type(error).__name__}: {_words(error)}"
        raise UnknownName(said + _hint(error)) from None


def _hint(error: BaseException) -> str:
    """Returns a hint if the error is one of dataclasses about the order of fields, which occurs if a class makes
    options of `downloads` and `uploads`; "" otherwise."""
    *_, last = traceback.walk_tb(error.__traceback__)
    if last[0].f_globals.get("__name__") != "dataclasses":
        return ""
    return f"; {' and '.join(NO_OPTIONS)} are no options: give them the type ClassVar[Collection[str]]"


def advice(path: str, error: BaseException) -> str:
    """Returns advice on what to do if `package.module:name` cannot be found."""
    module = path.partition(":")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        root = error.name.partition(".")[0]
        lies = f"of {root}.py" if root == module else f"in which {root} lies"
        return f"looked in the folder where you started and in Python's path; start it in the folder {lies}"
    if isinstance(error, ModuleNotFoundError):
        return f"{short(module)} imports it; install it, or start in its folder"
    return "it must be package.module:name"


def algorithm(entry: Entry, shared: schema.Training, per_cycle: int = 0) -> Algorithm:
    """Returns the algorithm of an entry, with its options.  `shared`: the scenario's training, of which the entry's
    `training` overrides single values.

    Raises UnknownName for an unknown key, ValidationError for options that the algorithm does not accept.
    """
    options = {name: value for name, value in entry.options.items() if name not in OF_ANY}
    training = training_of(entry, shared).model_dump(exclude={"stack"}) | {"per_cycle": per_cycle}
    made: Algorithm = adapter(kind(entry.key)).validate_json(json.dumps({**options, "training": training}))
    return made


def training_of(entry: Entry, shared: schema.Training) -> schema.Training:
    """Returns the scenario's training (`shared`), overridden by the values of the entry's preset, if it names one, and
    then by those of the entry's own `training`.

    Raises UnknownName for a preset of an unknown key, ValidationError for invalid values.
    """
    preset: Mapping[str, Any] = {}
    if named := entry.options.get("preset"):  # otherwise the class is not needed: a report need not import torch
        preset = getattr(kind(entry.key), "trainings", {}).get(str(named), {})
    own = entry.options.get("training") or {}
    return schema.Training.model_validate({**shared.model_dump(), **preset, **own})


def encoding(entry: Entry, made: Algorithm) -> Encoding:
    """Returns the encodings of an algorithm's tensors on the network: the entry's, and otherwise the algorithm's own.
    The encoding float32 is left out, because it changes nothing.

    Raises ValidationError for something that is not an encoding, ValueError for an unknown kind of tensor or encoding.
    """
    said = Encoding.model_validate(entry.options.get("encoding") or {})
    # Squared gradients next to a lossy kind: bfloat16, unless the algorithm or the entry names an encoding.
    lossy = any(parse(how).lossy for how in said.up.values())
    squares = {name: "bfloat16" for name in made.squares if lossy and name not in made.encodings}
    return Encoding(
        up=_way("up", {**squares, **said.up}, made.uploads, entry, made),
        down=_way("down", said.down, made.downloads, entry, made),
    )


def _way(way: str, said: Mapping[str, str], kinds: Collection[str], entry: Entry, made: Algorithm) -> dict[str, str]:
    """Returns the encodings of tensors in this direction ("up" or "down"), by kind of tensor, without those that are
    float32.  `said`: the entry's encodings; `kinds`: the kinds that the algorithm sends in this direction."""
    chosen = {name: how for name, how in made.encodings.items() if name in kinds} | dict(said)
    found = {}
    for name, how in chosen.items():
        if name not in kinds:
            raise ValueError(f"encoding.{way}: {entry.key} sends no {name!r} {way}; {did_you_mean(name, kinds)}")
        parse(how)
        if how == "int8" and name in made.squares:
            how = "int8-sqrt"
        if how != "float32":
            found[name] = how
    return found


def faults(entry: Entry, shared: schema.Training, loc: Loc, rounds: schema.Rounds = ANY_ROUNDS) -> list[Fault]:
    """Returns the faults of an entry; `loc` is its place in the scenario."""
    inside = (*loc, entry.key)
    own = entry.options.get("training") or {}
    if not isinstance(own, dict):
        return [Fault((*inside, "training"), f"it must be a mapping, for example {{lr: 0.1}}, not {own!r}")]
    found: list[Fault] = []
    try:
        found += _unusable(training_of(entry, shared), (*inside, "training") if "optimizer" in own else ("training",))
        rounds = schema.own_rounds(rounds, entry.options.get("rounds") or {})
        made = algorithm(entry, shared, rounds.per_cycle)
        encoding(entry, made)
        found += [Fault(inside, reason) for reason in _stale(entry.key, made, rounds)]
    except UnknownName as error:
        found.append(Fault(inside, str(error), of_key=True))
    except ValidationError as error:
        parts = {part.__name__: part for part in (schema.Training, schema.Rounds, Encoding)}
        part = parts.get(error.title)
        model, where = (part, (*inside, part.__name__.lower())) if part else (kind(entry.key), inside)
        found.extend(_hinted(fault, model) for fault in faults_of(error, model, where))
    except (ValueError, TypeError) as error:
        found.append(Fault(inside, str(error)))
    except (Exception, SystemExit):  # a failure of its own code is no fault of the scenario: its runs tell it
        return found
    return found


def _unusable(training: schema.Training, loc: Loc) -> Iterator[Fault]:
    """Yields a fault if a user's own optimiser does not exist or cannot take a step."""
    if ":" not in training.optimizer:
        return
    from algorithms.training.optimizers import state_floats  # imports torch, which a report need not

    try:
        thing(training.optimizer)
        state_floats(Training(**training.model_dump(exclude={"stack"})))
    except UnknownName as error:
        yield Fault((*loc, "optimizer"), str(error))
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        said = f"{type(error).__name__}: {_words(error)}"
        yield Fault((*loc, "optimizer"), f"{training.optimizer} takes no step on a matrix: {said}")


def _stale(key: str, made: Algorithm, rounds: schema.Rounds) -> Iterator[str]:
    """Yields the reason why the algorithm cannot combine stale replies, if the rounds have some."""
    asynchronous = rounds.mode == "async"
    own = "it selects devices by a rule of its own" if made.cohort_rule == "own" and asynchronous else ""
    if (asynchronous or rounds.stragglers == "count") and (why := made.synchronous or own):
        right = "mode: sync" if asynchronous else "stragglers: stop or finish"
        yield f"{key} combines no stale replies: {why}; with it, rounds need {right}"


def _hinted(fault: Fault, kind: type[Any]) -> Fault:
    """Returns the fault of an unknown option; if the class has an attribute of that name without a type, the message
    says how to make it an option."""
    name = str(fault.loc[-1])
    value = inspect.getattr_static(kind, name, None)
    if not fault.of_key or not isinstance(value, (bool, int, float, str)):
        return fault
    words = f"{kind.__name__} has it without a type, so it is no option; {annotated(name, value)}"
    return replace(fault, message=f"unknown key {name!r}: {words}")


def options(kind: type[Any]) -> dict[str, Any]:
    """Returns the JSON schema of an algorithm's options (an object).  An inherited option has the description of the
    base class, unless the class has its own."""
    schema = adapter(kind).json_schema()
    for base in filter(is_dataclass, kind.__mro__[1:]):
        for name, said in adapter(base).json_schema()["properties"].items():
            if "description" in said:
                schema["properties"][name].setdefault("description", said["description"])
    return schema


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())


@cache
def _modules() -> list[str]:
    return sorted(
        Path(file.name).stem
        for file in resources.files("algorithms").iterdir()
        if file.name.endswith(".py") and not file.name.startswith("_")
    )


def _class(module: ModuleType, key: str) -> type[Any] | None:
    for name, found in inspect.getmembers(module, inspect.isclass):
        if name.lower() == key and found.__module__ == module.__name__ and not _missing(found):
            return found
    return None


def adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Returns the validator of the options of an algorithm or of a choice of devices.  It is cached, because pydantic
    reads the source file of the class to make it."""
    if kind not in ADAPTERS:
        ADAPTERS[kind] = TypeAdapter(_strict(kind))
    return ADAPTERS[kind]


def _strict(kind: type[Any]) -> type[Any]:
    """Sets pydantic's strict options for the class, so that it accepts no unknown option and no silent conversion;
    returns the class."""
    for owner in (kind, Training):
        if "__pydantic_config__" not in vars(owner):
            setattr(owner, "__pydantic_config__", STRICT)  # noqa: B010  pydantic's own hook
    return kind
