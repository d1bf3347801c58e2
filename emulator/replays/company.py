"""Many replays of the runs in a folder: here, or spread over worker processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from emulator.record import run_folders
from emulator.replay import Replayed, Theatre
from emulator.replays.bare import Setting
from emulator.replays.conditions import Condition, onto
from emulator.replays.findings import Told, told
from emulator.replays.script import Script, read_script
from emulator.results import targets
from emulator.workshop import quiet_torch
from scenarios.faults import did_you_mean
from scenarios.load import load
from scenarios.schema import Scenario

MANY = 40_000  # device-rounds, some ten seconds: from there on workers are worth their start


@dataclass(frozen=True)
class Order:
    """One replay to be made."""

    run: int  # number of the run
    condition: Condition
    folder: Path | None = None  # for its timeline and rounds


@dataclass(frozen=True)
class Source:
    """What is replayed: a folder of runs, or one run, perhaps on another fleet."""

    path: Path
    fleet: Scenario | None = None
    anyway: bool = False
    only: tuple[str, ...] = ()  # labels; none: all


class Company:
    """The runs, read, and their theatre.  Raises ValueError or BadScenario if there is nothing to replay."""

    def __init__(self, source: Source) -> None:
        folders = run_folders(source.path)
        here = folders[0].resolve().parent
        if not (here / "scenario.yaml").is_file():
            raise ValueError(f"{here} has no scenario.yaml; give the folder that `compare` or `run` wrote")
        self.source, self.home = source, here
        self.scenario = load(str(here / "scenario.yaml"))
        labels = [entry.name for entry in self.scenario.algorithms]
        for label in source.only:
            if label not in labels:
                raise ValueError(f"--algorithm {label}: the scenario has none; {did_you_mean(label, labels)}")
        self.scripts: Sequence[Script] = sorted(
            (read_script(folder) for folder in folders if not source.only or _label(folder) in source.only),
            key=lambda script: (labels.index(script.label) if script.label in labels else 0, script.seed),
        )
        if strange := [script.name for script in self.scripts if script.label not in labels]:
            raise ValueError(f"{here} holds {strange[0]}, and its scenario.yaml names no such algorithm")
        if not self.scripts:
            raise ValueError(f"{source.path} holds no run of {', '.join(source.only)}")
        self.theatre = Theatre(self.scenario)
        self.targets = targets(self.scenario)
        self.base, self.match = self.theatre.own, ""
        if source.fleet is not None:
            self.base, self.match = onto(self.theatre.own, source.fleet)

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(script.label for script in self.scripts))

    @property
    def own(self) -> Setting:
        """The recorded one."""
        return self.theatre.own

    def play(self, order: Order) -> Told:
        script = self.scripts[order.run]
        setting = order.condition.setting(self.base)
        replayed = self.theatre.replay(script, setting, order.folder, self.source.anyway)
        return told(replayed, self.targets, self.source.anyway)

    def as_recorded(self, run: int) -> Told:
        """What the record itself says."""
        script = self.scripts[run]
        rows = [written.row for written in script.rounds]
        return told(Replayed(script.label, script.seed, rows, None, 0, None), self.targets, anyway=False)

    def all(self, orders: Sequence[Order], workers: int | None) -> Iterator[Told]:
        """In the order given; `workers` None: as many as there are cores, if that pays."""
        size = sum(len(written.asked) for order in orders for written in self.scripts[order.run].rounds)
        many = (os.cpu_count() or 1 if size > MANY else 0) if workers is None else workers
        if many < 2 or len(orders) < 2:
            yield from map(self.play, orders)
            return
        context = get_context("spawn")
        with ProcessPoolExecutor(many, mp_context=context, initializer=_arrive, initargs=(self.source,)) as pool:
            yield from pool.map(_play, orders)


def _label(folder: Path) -> str:
    return folder.resolve().name.rpartition("-s")[0]


_company: Company | None = None  # in a worker


def _arrive(source: Source) -> None:
    global _company
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quiet_torch()
    _company = Company(source)


def _play(order: Order) -> Told:
    assert _company is not None
    return _company.play(order)
