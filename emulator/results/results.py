"""Reads a folder of results: the scenario, the rounds of every run, and the summary.  Events are read only when asked
for."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

from emulator.record.events import Event
from emulator.record.folders import study_in
from emulator.record.lines import object_of, read_events, read_lines
from emulator.record.run import Run
from emulator.record.targets import Target
from emulator.results.papers import beside
from emulator.results.settings import how_sure, settings
from emulator.results.standings import with_means
from emulator.results.summary import summarise
from emulator.results.units import counted
from scenarios.builders.machines import roster
from scenarios.builders.plugins import training_of
from scenarios.load import load
from scenarios.schema.entries import Entry
from scenarios.schema.known import algorithms as shipped
from scenarios.schema.scenario import Scenario
from scenarios.schema.training import Training

Row = Mapping[str, Any]
Runs = Mapping[str, Mapping[int, Sequence[Row]]]  # {label: {seed: rows}}

NEEDED = (
    *("round", "time_s", "accuracy", "initial", "personalised", "bytes", "wasted_bytes"),
    *("asked", "counted", "late", "lost", "refused", "leverage", "critical"),
)
SAID = ("digest", "reserved", "verdict", "why", "hints", "expect", "interrupted", "failures", "links", "data")
FOUND = ("holds", "chance", "overtime")  # by replays
UNREAD = ("watts", "flops", "personalised_participants")  # in no summary, table or chart


@dataclass(frozen=True)
class Results:
    """The results that a command wrote to a folder."""

    folder: Path
    scenario: Scenario
    text: str  # scenario.yaml
    host: Mapping[str, Any]  # {} if it was never written
    summary: Mapping[str, Any]
    split: Mapping[str, Any] | None
    runs: Runs  # without UNREAD and each device's seconds
    notes: Sequence[str] = ()  # reasons not to rely on these results as they are
    shared: int | None = None  # rounds after which final values are compared; None: after each run's own last round

    @property
    def name(self) -> str:
        return self.scenario.name

    def events(self, label: str, seed: int) -> Iterator[Event]:
        """Yields the events of one run; none if it has not begun.  Raises ValueError if their file is damaged."""
        path = self.folder / Run(label, seed).name / "events.jsonl"
        return read_events(path) if path.is_file() else iter(())

    def rows(self, label: str, seed: int) -> Iterator[Row]:
        """Yields the rows of one run as they are in its file; none if it has not begun.  Raises ValueError if the file
        is damaged."""
        path = _rounds(self.folder, label, seed)
        return _rows(path) if path.is_file() else iter(())


def read(out: Path) -> Results:
    """Returns the results in a folder.  The summary is computed from the rounds, and not taken from summary.json.

    Raises ValueError, in one sentence, if the folder holds no results or is damaged.
    """
    if not (out / "scenario.yaml").is_file():
        missing = f"{out} holds no results: scenario.yaml is missing; give the folder that `compare` wrote"
        raise ValueError(study_in(out) or missing)
    return results_of(out, load(str(out / "scenario.yaml"), algorithms=False))  # checked before the runs


def results_of(out: Path, scenario: Scenario) -> Results:
    """Returns the results in the folder `out`, of a scenario that has already been read.  Raises ValueError as `read`
    does."""
    split = _object(out / "split.json")
    runs = {entry.name: dict(_seeds(out, entry.name, scenario.seeds)) for entry in scenario.algorithms}
    if not any(runs.values()):
        labels = ", ".join(Run(label, seed).name for label in runs for seed in scenario.seeds[:1])
        raise ValueError(f"{out} holds no runs: expected folders like {labels}")
    return Results(
        folder=out,
        scenario=scenario,
        text=(out / "scenario.yaml").read_text(encoding="utf-8"),
        host=_object(out / "host.json") or {},
        summary=_summary(scenario, runs, split, _object(out / "summary.json") or {}),
        split=split,
        runs=runs,
    )


def _summary(
    scenario: Scenario, runs: Runs, split: Mapping[str, Any] | None, said: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the summary.  It is computed from the rounds, because another version may have summed them differently;
    facts that cannot be computed from them are taken from summary.json (`said`)."""
    begun = {label: seeds for label, seeds in runs.items() if seeds}
    known = dict.fromkeys(begun, classes(split) if scenario.task.name == "classification" else 0)
    aims = targets(scenario)
    made = with_means(summarise(begun, aims, momentum(scenario), known, scenario.metrics), begun, aims)
    made["published"] = beside(scenario.published, begun, task=scenario.task)
    made["network"] = scenario.network_model
    made["unmetered"] = _unmetered(scenario, made)
    chosen = settings(scenario)
    made["settings"] = [dict(zip(chosen.headings, row, strict=True)) for row in chosen.rows]
    made["how_sure"] = how_sure(scenario, said.get("chance"))
    return {**made, **{key: said[key] for key in (*SAID, *FOUND) if key in said}}


def _unmetered(scenario: Scenario, summary: Mapping[str, Any]) -> list[str]:
    """Returns the groups of those devices that were asked in a round and whose energy is not known."""
    spent = [said.get("joules_of_devices") or {} for said in summary["labels"].values()]
    names = {name for of in spent for name, joules in of.items() if joules is None}
    fleet = roster(scenario)
    return sorted({fleet.group(name) if name in fleet else name for name in names})


def targets(scenario: Scenario) -> list[Target]:
    return [Target.of(said, scenario.task) for said in scenario.rounds.targets]


def facts(scenario: Scenario) -> str:
    """Returns one line on the size and the set-up of the runs: devices, algorithms, seeds, rounds, data, model,
    network."""
    parts = [
        counted(scenario.devices, "device"),
        counted(len(scenario.algorithms), "algorithm"),
        counted(len(scenario.seeds), "seed"),
        f"at most {counted(scenario.rounds.max, 'round')}",
        f"{scenario.data.set}, {scenario.data.split.kind} split",
        scenario.model.name,
        f"network model {scenario.network_model}",
    ]
    return " · ".join(parts)


def momentum(scenario: Scenario) -> dict[str, float | None]:
    """Returns SGD's momentum of each algorithm, by label.  None if only a user's own code knows it, because results are
    read without running such code."""
    return {entry.name: _momentum(entry, scenario.training) for entry in scenario.algorithms}


def _momentum(entry: Entry, shared: Training) -> float | None:
    if entry.key in shipped() or not entry.options.get("preset"):
        return training_of(entry, shared).momentum
    own = entry.options.get("training") or {}
    return Training.model_validate({**shared.model_dump(), **own}).momentum if "momentum" in own else None


def classes(split: Mapping[str, Any] | None) -> int:
    """Returns the number of classes in the data set, as the content of split.json states it; 0 if unknown."""
    return int((split or {}).get("classes", 0))


def _seeds(out: Path, label: str, seeds: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
    for seed in seeds:
        path = _rounds(out, label, seed)
        if path.is_file():
            known: dict[bytes, Row] = {}
            yield seed, [_light(row, known) for row in _rows(path)]


def _rounds(out: Path, label: str, seed: int) -> Path:
    return out / Run(label, seed).name / "rounds.jsonl"


def _rows(path: Path) -> Iterator[Row]:
    return (_row(row, path, number) for number, row in enumerate(read_lines(path), 1))


def _light(row: Row, known: dict[bytes, Row]) -> Row:
    """Returns a row without UNREAD and the seconds of each device, because a report holds the rows of all runs.

    `known`: parts of the run's earlier rows; equal ones are not stored again.  Raises ValueError for a row that no run
    writes, because it is nested too deeply.
    """
    seconds = {use: of for use, of in row.get("seconds", {}).items() if use != "devices"}
    try:
        return _shared({key: value for key, value in row.items() if key not in UNREAD} | {"seconds": seconds}, known)
    except RecursionError:
        raise ValueError("a row of rounds.jsonl is nested too deeply") from None


def _shared(part: Row, known: dict[bytes, Row]) -> Row:
    made = {intern(key): _shared(of, known) if isinstance(of, dict) else of for key, of in part.items()}
    return known.setdefault(marshal.dumps(made, 2), made)  # unlike ==, it tells 0 from 0.0 and -0.0


def _row(row: Row, path: Path, number: int) -> Row:
    missing = [key for key in NEEDED if key not in row]
    if missing:
        raise ValueError(f"{path}:{number} lacks {', '.join(missing)}; was it written by another version?")
    return row


def _object(path: Path) -> dict[str, Any] | None:
    """Returns the object in a JSON file; None if there is no such file.  Raises ValueError for anything else in it."""
    return object_of(path.read_bytes(), str(path)) if path.is_file() else None
