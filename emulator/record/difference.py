"""Finds the first differences between two records of runs, from their files alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from json import dumps
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from emulator.record.folders import is_run, run_folders
from emulator.record.lines import object_of
from emulator.record.repeated import SUBJECT, subject

LONG = 60  # characters of a shown value
MANY = 4  # shown keys of a line
ABSENT = "(absent)"


@dataclass(frozen=True)
class Change:
    """A key with different values in two scenarios.  A missing value reads `(absent)`."""

    key: str  # dotted; entries of a list by number, or by their name if they have one
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.key}: {_short(self.a)} -> {_short(self.b)}"


@dataclass(frozen=True)
class FirstDifference:
    """The first line in which two files differ."""

    file: str
    line: int  # from 1
    time_s: float | None  # simulated: the earlier of both lines
    a: str  # abbreviated; "the end" if the file has no such line
    b: str


@dataclass(frozen=True)
class Pair:
    """The differences between two records of the same run."""

    name: str
    differences: tuple[FirstDifference, ...]
    model: str  # equal | different | only in A | only in B | in neither

    @property
    def identical(self) -> bool:
        return not self.differences and self.model in ("equal", "in neither")


@dataclass(frozen=True)
class Difference:
    """The differences between two folders of results or of runs."""

    scenario: tuple[Change, ...] = ()
    only_a: tuple[str, ...] = ()  # runs
    only_b: tuple[str, ...] = ()
    runs: tuple[Pair, ...] = field(default=())

    @property
    def identical(self) -> bool:
        return not (self.scenario or self.only_a or self.only_b) and all(run.identical for run in self.runs)


def difference(a: Path, b: Path) -> Difference:
    """Compares two folders of results, or two folders of runs (LABEL-sSEED), whose names may differ.

    Raises ValueError if they are neither or are damaged, and OSError if they cannot be read.
    """
    single = [is_run(path) for path in (a, b)]
    if single[0] != single[1]:
        raise ValueError(f"{a} and {b}: one is a run, the other is not; give two runs, or two folders that hold runs")
    if single[0]:
        name = a.resolve().name if a.resolve().name == b.resolve().name else f"{a.resolve().name} | {b.resolve().name}"
        return Difference(changes(a.resolve().parent, b.resolve().parent), runs=(pair(name, a, b),))
    ours, theirs = ({run.name: run for run in run_folders(path)} for path in (a, b))
    return Difference(
        scenario=changes(a, b),
        only_a=tuple(sorted(ours.keys() - theirs.keys())),
        only_b=tuple(sorted(theirs.keys() - ours.keys())),
        runs=tuple(pair(name, ours[name], theirs[name]) for name in sorted(ours.keys() & theirs.keys())),
    )


def pair(name: str, a: Path, b: Path) -> Pair:
    """Compares two folders of one run: events and rows line by line, and final models byte by byte."""
    differences = (first_difference(a / file, b / file) for file in ("events.jsonl", "rounds.jsonl"))
    return Pair(name, tuple(filter(None, differences)), _models(a, b))


def first_difference(a: Path, b: Path) -> FirstDifference | None:
    """Returns the first line in which two files of JSON lines differ; None if all complete lines are equal."""
    for number, (one, other) in enumerate(zip_longest(_lines(a), _lines(b)), 1):
        if one != other:
            both = ((a, one), (b, other))
            lines = [None if text is None else object_of(text, f"{path}:{number}") for path, text in both]
            times = [t for line in lines if line and (t := _time(line)) is not None]
            texts = [_line(line, lines[1 - side]) for side, line in enumerate(lines)]
            return FirstDifference(a.name, number, min(times, default=None), *texts)
    return None


def changes(a: Path, b: Path) -> tuple[Change, ...]:
    """Returns the keys with different values in the scenarios of two folders; a folder without a scenario counts as one
    with an empty scenario."""
    return tuple(unlike(*(_scenario(path / "scenario.yaml") for path in (a, b))))


def unlike(a: Any, b: Any, key: str = "") -> Iterator[Change]:
    """Yields the differences between two objects, at any depth; `key` is the objects' own key, to which inner keys are
    appended."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        yield from _unlike_by_key(a, b, key)
    elif _has_parts(a) and _has_parts(b):
        ours, theirs = _parts(a), _parts(b)
        yield from _unlike_by_key(ours, theirs, key)
        if ours.keys() == theirs.keys() and [*ours] != [*theirs]:
            yield Change(f"{key} (order)", [*ours], [*theirs])
    elif a != b or type(a) is not type(b):
        yield Change(key, a, b)


def _unlike_by_key(a: Mapping[Any, Any], b: Mapping[Any, Any], key: str) -> Iterator[Change]:
    for name in {**a, **b}:
        inner = f"{key}.{name}" if key else str(name)
        yield from unlike(a.get(name, ABSENT), b.get(name, ABSENT), inner)


def _has_parts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _parts(entries: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Returns the entries of a list by their names, if all have different ones, otherwise by their numbers.  By name,
    an added entry does not make those after it different."""
    names = [str(entry["name"]) for entry in entries if "name" in entry]
    keys = names if len(set(names)) == len(entries) else [str(number) for number in range(len(entries))]
    return dict(zip(keys, entries, strict=True))


def _scenario(path: Path) -> Any:
    if not path.is_file():
        return {}
    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")) or {}
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the whole lines of a file; none if it does not exist.  Text after the last newline is left out, because
    its writing was interrupted."""
    if path.is_file():
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))


def _time(line: Mapping[str, Any]) -> float | None:
    time = line.get("t", line.get("time_s"))
    return float(time) if isinstance(time, (int, float)) else None


def _line(line: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> str:
    """Returns the subject of a line in words, with the values that differ from the `other` line: `down.start pi-4-0
    round 3, bytes.weights = 80`.  Returns "the end" for a file that has no such line."""
    if line is None:
        return "the end"
    if other is None or any(line.get(key) != other.get(key) for key in SUBJECT):
        time = _time(line)
        return subject(line) if time is None else f"{subject(line)}, at {time:.9g} s"
    differ = list(unlike(line, other))
    values = [f"{change.key} = {_short(change.a)}" for change in differ[:MANY]]
    more = f" and {len(differ) - MANY} more" if len(differ) > MANY else ""
    return ", ".join([subject(line), *values]) + more


def _models(a: Path, b: Path) -> str:
    one, other = (path / "final.safetensors" for path in (a, b))
    if one.is_file() and other.is_file():
        return "equal" if one.read_bytes() == other.read_bytes() else "different"
    return "only in A" if one.is_file() else "only in B" if other.is_file() else "in neither"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value, sort_keys=True, default=str)
    return text if len(text) <= LONG else text[: LONG - 1] + "…"
