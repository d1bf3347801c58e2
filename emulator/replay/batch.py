"""Makes many replays of the runs in a folder, in this process or in several workers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from emulator.compute.garbage import let_stay
from emulator.compute.workers import WorkerPool, why_broken
from emulator.record.folders import REPLAY, home, run_folders
from emulator.record.run import Run, read_run
from emulator.record.targets import Target
from emulator.replay.conditions import Condition, onto
from emulator.replay.findings import Finding, ReplayResult, finding, no_result, result_of
from emulator.replay.replayer import Replayed, Replayer
from emulator.replay.script import Script, read_script
from emulator.results.results import targets
from emulator.results.soundness import soundness
from scenarios.load import recorded
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import did_you_mean

IMPORTED = ("emulator.replay.batch", "emulator.__main__")  # imported by all workers
OWN = "as recorded"
MANY = 40_000  # device-rounds, some ten seconds: from this number on starting workers pays


@dataclass(frozen=True)
class Order:
    """The order for one replay."""

    run: int  # index of the run
    condition: Condition
    folder: Path | None = None  # for its timeline and rounds


@dataclass(frozen=True)
class Source:
    """The runs to replay, which are one run or a folder of runs, and what replaces parts of their scenario."""

    path: Path
    fleet: Scenario | None = None
    anyway: bool = False
    train: bool = False  # the runs are played with training in each setting
    only: tuple[str, ...] = ()  # labels; empty: all
    targets: tuple[Target, ...] | None = None  # instead of the scenario's
    until: Target | None = None  # replays may end where a run reached this target


class Batch:
    """The runs of a source, and the replayer for them.

    The constructor raises ValueError or BadScenario if there is nothing to replay.
    """

    def __init__(self, source: Source) -> None:
        if (home(source.path) / REPLAY).is_file():  # timelines of replays do not match the scenario in the folder
            raise ValueError(f"{source.path} holds replays; give the folder of the runs that were replayed")
        folders = run_folders(source.path)
        here = folders[0].resolve().parent
        if not (here / "scenario.yaml").is_file():
            raise ValueError(f"{here} has no scenario.yaml; give the folder that `compare` or `run` wrote")
        self.source, self.home = source, here
        self.scenario = recorded(here)
        labels = [entry.name for entry in self.scenario.algorithms]
        for label in source.only:
            if label not in labels:
                raise ValueError(f"--algorithm {label}: the scenario has none; {did_you_mean(label, labels)}")
        if source.only:
            folders = [folder for folder in folders if read_run(folder)[0].label in source.only]
        scripts = [read_script(folder) for folder in folders]
        for folder, script in zip(folders, scripts, strict=True):
            if script.label not in labels:
                where = f"{folder.resolve().parent} holds {script.name}"
                raise ValueError(f"{where}, and its scenario.yaml names no such algorithm")
        self.scripts = sorted(scripts, key=lambda script: (labels.index(script.label), script.seed))
        if not self.scripts:
            raise ValueError(f"{source.path} holds no run of {', '.join(source.only)}")
        if until := source.until:
            self.scripts = [
                script if self.scenario.under(script.label).rounds.stragglers == "finish" else script.until(until)
                for script in self.scripts  # those of stragglers that finish end in a later round
            ]
        self.replayer = Replayer(self.scenario)
        self.targets = targets(self.scenario) if source.targets is None else list(source.targets)
        self.base, self.match = self.replayer.own, ""
        if source.fleet is not None:
            self.base, self.match = onto(self.replayer.own, source.fleet)

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(script.label for script in self.scripts))

    @property
    def network(self) -> str:
        """The name of the network model, which determines the seconds of transfers."""
        return (self.source.fleet or self.scenario).network_model

    @property
    def notes(self) -> list[str]:
        """Sentences on reasons not to rely on the replayed runs."""
        said = list(soundness(self.home).notes)
        if missing := self._missing:
            said.append(f"These runs are missing: {', '.join(missing)}.")
        longest = max(map(self._length, self.scripts))
        if longest > self.shared:
            only = f"only the first {f'{self.shared} are' if self.shared > 1 else 'round is'} compared"
            said.append(f"The runs have {self.shared} to {longest} rounds; {only}.")
        if parts := [label for label, (replies, of) in self._sizes.items() if replies < of]:
            said.append(f"Versions of {' and '.join(parts)} are parts of a round: as many replies as devices at work.")
        return said

    @property
    def _missing(self) -> list[str]:
        """The names of runs that the scenario has and the folder lacks; empty if the source is a single run."""
        if self.source.path.resolve() != self.home:
            return []
        there = {script.name for script in self.scripts}
        return [name for name in self._due if name not in there]

    @property
    def _due(self) -> list[str]:
        """The names of all the scenario's runs whose labels are to be replayed."""
        labels = [entry.name for entry in self.scenario.algorithms]
        if self.source.only:
            labels = [label for label in labels if label in self.source.only]
        return [Run(label, seed).name for label in labels for seed in self.scenario.seeds]

    @property
    def shared(self) -> int:
        """The number of rounds of the shortest run, up to which all runs can be compared."""
        return min(map(self._length, self.scripts))

    @cached_property
    def _sizes(self) -> dict[str, tuple[int, int]]:
        """By label: the replies that close a round of its runs, and those that are compared as one round.  Asynchronous
        versions are parts of a round, unless all runs have versions of one size."""
        rules = {label: self.scenario.under(label) for label in self.labels}
        sizes = {label: (of.needed, of.asked) if of.rounds.mode == "async" else (1, 1) for label, of in rules.items()}
        return sizes if len(set(sizes.values())) > 1 else dict.fromkeys(sizes, (1, 1))

    def _length(self, script: Script) -> int:
        """Returns the number of whole rounds of a run, as they are compared."""
        replies, of = self._sizes[script.label]
        return len(script.rounds) * replies // of

    def compared(self, label: str) -> int:
        """Returns how many rounds, or versions, of the runs of an algorithm are compared with the others'."""
        replies, of = self._sizes[label]
        return -(-self.shared * of // replies)

    @property
    def every(self) -> str:
        """A phrase for the rounds that are compared: `all 8 rounds`, or `the first 3 rounds` if the runs differ in
        length."""
        alike = all(self._length(script) == self.shared for script in self.scripts)
        which = "all" if alike else "the first"
        return f"{which} {self.shared} rounds" if self.shared > 1 else "the only round" if alike else "the first round"

    def play(self, order: Order) -> ReplayResult:
        script = self.scripts[order.run]
        setting = order.condition.setting(self.base)
        replayed = self.replayer.replay(script, setting, order.folder, self.source.anyway)
        return result_of(replayed, self.targets, len(script.rounds), self.compared(script.label))

    @property
    def recorded(self) -> Finding:
        """The results of all runs as they were recorded, without a replay."""
        return finding(OWN, (), [self.as_recorded(number) for number in range(len(self.scripts))])

    def as_recorded(self, run: int) -> ReplayResult:
        """Returns the result of one run, by its index, as it was recorded, without a replay."""
        script = self.scripts[run]
        rows = [written.row for written in script.rounds]
        played = Replayed(script.label, script.seed, rows, None, 0, None)
        return result_of(played, self.targets, len(rows), self.compared(script.label))

    def _machine_code(self) -> list[str]:
        """Returns the names of modules that load compiled code of the network model in workers; empty if none is
        ready."""
        if self.network != "windows":
            return []
        from network.windows.compiled import ready  # numba takes half a second to import

        return ["network.windows.preloaded"] if ready() else []

    def unplayed(self, run: int) -> ReplayResult:
        """Returns an empty result, in which no time is known, for a replay that was not made; `run`: index of the
        run."""
        script = self.scripts[run]
        return no_result(script.label, script.seed, self.targets)

    def all(self, orders: Sequence[Order], count: int | None) -> Generator[ReplayResult, None, None]:
        """Plays all orders, and yields their results in the order given.

        `count`: the number of worker processes; None for one on each core if the replays are long enough for that to
        pay.  Raises ChildProcessError if a worker process is killed.
        """
        size = sum(len(written.asked) for order in orders for written in self.scripts[order.run].rounds)
        many = (os.cpu_count() or 1 if size > MANY else 0) if count is None else count
        if min(many, len(orders)) < 2:
            yield from map(self.play, orders)
            return
        try:
            modules = [*IMPORTED, *self._machine_code()]
            with closing(WorkerPool(min(many, len(orders)), modules, _arrive, self.source, orders)) as workers:
                coming = deque(workers.submit(_play, number) for number in range(len(orders)))
                while coming:  # not `map`, which cancels the rest and then fails if the pool breaks
                    yield coming.popleft().result()
        except BrokenExecutor as error:
            raise ChildProcessError(why_broken(error)) from None


_handed: tuple[Source, Sequence[Order]] | None = None  # in a worker: its input, set once at its start
_batch: Batch | None = None  # in a worker: set by its first job


def _arrive(_: str, source: Source, orders: Sequence[Order]) -> None:
    global _handed
    _handed = source, orders


def _play(number: int) -> ReplayResult:
    """Returns the result of the order with this number, in a worker process.

    The first call in a process reads the runs, so errors in them are raised here.
    """
    global _batch
    assert _handed is not None
    source, orders = _handed
    if _batch is None:
        _batch = Batch(source)
        let_stay()
    return _batch.play(orders[number])
