"""Reads from the scenario.yaml of a folder of results which devices, links and rules a record must show.

It imports no algorithm, model or data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from algorithms.selection.past import Selection
from devices.device import Device
from emulator.record.call import turn
from emulator.record.folders import REPLAY
from emulator.record.lines import read_lines
from emulator.record.run import AlgorithmFacts, examples_of, read_run
from emulator.record.work import Works
from network.foreign_files import unique
from network.links.link import Link
from scenarios.builders import machines, selections
from scenarios.load import recorded
from scenarios.schema.scenario import Scenario
from scenarios.schema.task import Task
from scenarios.schema.training import Evaluate, Rounds

DRAW = ("fedlapse", "numpy")  # packages whose other versions may draw another fleet


@dataclass(frozen=True)
class Declared:
    """The statements of the scenario and of run.json about a run, with which the audit compares the record."""

    rounds: Rounds
    evaluate: Evaluate
    task: Task
    needed: int  # replies that close a round
    always_on: bool  # no group of devices ever goes offline
    devices: Mapping[str, Device]
    links: Mapping[str, Link]
    server: Device
    server_link: Link
    works: Works  # declared work, from the record
    seed: int  # seed of the run
    facts: AlgorithmFacts  # properties of the algorithm, from run.json
    chosen: bool  # the scenario has a `selection`, so devices are not drawn at random
    selection: Selection | None  # that choice, if it is fedlapse's own
    examples: Mapping[str, int]  # number of each device's training examples; of a large fleet only of some
    virtual: bool  # True: events happen when they are due; False: they may be late, never early

    @property
    def asked(self) -> int:
        """The number of devices that a round asks, if so many are online and idle."""
        return self.rounds.in_flight or self.rounds.ask or self.needed

    @property
    def asynchronous(self) -> bool:
        return self.rounds.mode == "async"

    @property
    def last(self) -> int:
        """The number of rounds, or versions, that a run has at most."""
        return -(-self.rounds.max * self.asked // self.needed) if self.asynchronous else self.rounds.max

    def falls(self, every: int, round: int) -> bool:
        """Returns true if something that happens every `every` rounds happens after this one; `every` = 0 means never.
        As many replies as devices are at work make an asynchronous round."""
        buffer = self.needed if self.asynchronous else 0
        before, after = (turn(each, buffer, self.asked) for each in (round, round + 1))
        return every > 0 and after // every > before // every

    @property
    def finish(self) -> bool:
        """True if devices may finish their work after the close of the round."""
        return self.rounds.stragglers != "stop" or self.asynchronous


def declared(folder: Path) -> Declared:
    """Reads from the folder of results around the run's `folder` what its scenario declares.  Raises ValueError or
    OSError if that is impossible."""
    out = folder.resolve().parent
    if (out / REPLAY).is_file():
        raise ValueError("it is a replay, whose devices and links may be others than the scenario's")
    host = host_of(out)
    run, facts = read_run(folder)
    scenario = recorded(out).under(run.label)
    chosen, selection = _selection(scenario, run.label)
    return Declared(
        scenario.rounds,
        scenario.evaluate,
        scenario.task,
        scenario.needed,
        machines.always_on(scenario),
        *machines.unseen(scenario),
        *machines.server(scenario),
        works_of(folder),
        run.seed,
        facts,
        chosen,
        selection,
        examples_of(out, run.seed) if chosen else {},
        host.get("world") == "virtual",
    )


def _selection(scenario: Scenario, label: str) -> tuple[bool, Selection | None]:
    """Returns true if the algorithm `label` has a `selection`, and that choice; None for a user's own, which is not
    imported."""
    entry = next((entry for entry in scenario.algorithms if entry.name == label), None)
    name = selections.named(entry, scenario)[0] if entry else selections.RANDOM
    return name != selections.RANDOM, selections.selection(entry, scenario) if entry and ":" not in name else None


def works_of(folder: Path) -> Works:
    """Reads the run's work.jsonl, as empty if there is none.  Raises ValueError for a line that no run writes."""
    path = folder / "work.jsonl"
    return Works(path, read_lines(path, repeated_keys=False) if path.is_file() else ())


def host_of(out: Path) -> Mapping[str, Any]:
    """Returns the object in host.json; {} if there is no such file.  Raises ValueError if the fleet was drawn with
    other versions of packages, which may draw another fleet."""
    path = out / "host.json"
    try:
        host = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique) if path.is_file() else {}
        versions = dict(host.get("versions", {}))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path.name} is not as `fedlapse compare` writes it") from None
    for package in DRAW:
        if (then := versions.get(package, here := version(package))) != here:
            raise ValueError(f"it was played with {package} {then}, and this is {here}: the fleet may be another")
    return host
