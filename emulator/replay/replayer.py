"""A finished run, played again with no training: the same conversation on other links or other devices.

Sizes, work, digests and accuracies come from the record; clock, links, presence and the rules of a round are the
engine's own.  A replay is exact as long as every decision comes out as it did: who is asked, who counts, and, where
devices keep what they trained, who trained.  On the record's own scenario it is the record, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emulator.conversation.channel import MemoryLine
from emulator.conversation.rounds import RoundRules
from emulator.conversation.server import Play, RunFailed, Server
from emulator.conversation.traffic import Flight
from emulator.play.conduct import Conduct
from emulator.play.metrics import NAMES, Schedule
from emulator.play.rows import Diary
from emulator.play.stage import Outcome, Row, Stage
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.replay.bare import Bare, Setting, algorithms_of, bare, keeps
from emulator.replay.prices import Prices, Unsaid
from emulator.replay.script import Script
from emulator.study.jobs import Opening, Run, State, Trained, combine, request, start, train
from emulator.worlds.executors import Job
from emulator.worlds.interface import Parcel
from emulator.worlds.virtual import VirtualWorld
from network.wire.payload import NOTHING
from scenarios.schema.scenario import Scenario

LEARNT = (*NAMES, "leverage")  # what a row says of models: no replay makes it anew
NO_STATE = State(b"", b"")
KNOWN: dict[Job, Any] = {start: NO_STATE, combine: NO_STATE, request: Opening(NOTHING, {})}  # the same each time


@dataclass(frozen=True)
class Parting:
    """Where a replay stops being exact."""

    round: int
    why: str


@dataclass(frozen=True)
class Replayed:
    """A run as it would have been."""

    label: str
    seed: int
    # As in rounds.jsonl, accuracies as recorded; up to the parting, unless it went on.  No repr: asyncio makes two.
    rows: Sequence[Row] = field(repr=False)
    parting: Parting | None
    assumed: int  # messages and pieces of work that the record lacks, taken to be as their like
    failure: str | None  # why the conversation could not go on
    loops: int = 0  # how often the recording that was repeated most has started over


@dataclass(frozen=True)
class Replay:
    """What is read from and written to in a replay."""

    script: Script
    prices: Prices
    check: Check
    folder: Path | None


class Stopped(RunFailed):
    """The replay is no longer the run."""


class Replayer:
    """A scenario whose runs are replayed: what all replays share."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.own = Setting.of(scenario)
        self.algorithms = algorithms_of(scenario)
        self.conduct = Conduct.of(scenario)

    def replay(self, script: Script, setting: Setting, folder: Path | None = None, anyway: bool = False) -> Replayed:
        """One run in one setting; its timeline and rounds go to `folder`.

        `anyway`: it goes on where a decision comes out otherwise.  Raises ValueError for other hardware if the record
        does not say what work is.
        """
        return asyncio.run(self._replay(script, setting, folder, anyway))

    async def _replay(self, script: Script, setting: Setting, folder: Path | None, anyway: bool) -> Replayed:
        chosen = {script.label: self.algorithms[script.label]}
        study = bare(self.scenario, chosen, setting, cycles=2 if script.cycles else 1)
        rules = replace(self.conduct.rules, max=len(script.rounds))
        conduct = replace(self.conduct, rules=rules, schedule=Schedule(0, 0), stop_at=None)
        prices = Prices(study, script, self.own)
        world, outcome = VirtualWorld(RecordedJobs(script)), Outcome(Run(script.label, script.seed))
        check = Check(script, keeps(chosen[script.label]), anyway)
        stage = ReplayStage(world, study, outcome.run, conduct, Replay(script, prices, check, folder))
        diary = ReplayDiary(stage, outcome)
        server = ReplayServer(stage, rules)
        try:
            await world.run(server.serve(diary.after))
            diary.write_settled()
        except (Stopped, Unsaid) as end:
            check.part(server.number, str(end), stop=False)
        except RunFailed as failed:
            if len(outcome.rows) < len(script.rounds):  # else it failed as the run did
                outcome.failure = str(failed)
        finally:
            stage.record.shut()
        looped, _ = stage.traffic.placed.loops.most(outcome.length)
        assumed = len(prices.assumed)
        return Replayed(script.label, script.seed, outcome.rows, check.parting, assumed, outcome.failure, looped)


class Check:
    """Compares what is decided with what was."""

    def __init__(self, script: Script, keeps: bool, anyway: bool) -> None:
        self.script, self.keeps, self.anyway = script, keeps, anyway
        self.parting: Parting | None = None
        self.trained: defaultdict[int, set[str]] = defaultdict(set)  # by round: who came to the end of it

    def part(self, round: int, why: str, stop: bool = True) -> None:
        """Notes the first parting.  Raises Stopped unless the replay is to go on."""
        self.parting = self.parting or Parting(round, why)
        if stop and not self.anyway:
            raise Stopped(why)

    def asked(self, number: int, names: Sequence[str]) -> None:
        said = self.script.rounds[number].asked
        if tuple(names) != said:
            self.part(number, f"asks {_others(names, said)}: other devices are on line and idle")

    def closed(self, play: Play) -> None:
        written = self.script.rounds[play.round.number]
        if set(play.round.counted) != set(written.counted):
            self.part(written.number, f"counts {_others(play.round.counted, written.counted)}")

    def ended(self, number: int) -> None:
        """Looks at a round whose last straggler has ended."""
        parts = self.script.rounds[number].parts
        said = {name for name, part in parts.items() if part.update is not None}
        if self.keeps and self.trained[number] != said:
            self.part(number, f"trains {_others(self.trained[number], said)}, and devices keep what they trained")


def _others(now: Collection[str], before: Collection[str]) -> str:
    """`a and b, not c`"""
    more, less = sorted(set(now) - set(before)), sorted(set(before) - set(now))
    said = [_some(more)] if more else []
    return ", ".join([*said, *([f"not {_some(less)}"] if less else [])]) or "the same devices in another order"


def _some(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 4 else f"{names[0]}, {names[1]} and {len(names) - 2} others"


class RecordedJobs:
    """An executor (see workshop.Executor) whose jobs have been done before."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._done(job, args))
        return future

    def _done(self, job: Job, args: Sequence[Any]) -> Any:
        if job is train:
            _, device, round = args[:3]
            part = self.script.rounds[round].parts.get(device)
            update = part.update if part and part.update is not None else ""
            return Trained(NOTHING, update, 1, NOTHING, None, {}, {}, ())
        return KNOWN[job]


class ReplayRecord(Record):
    """A record with the digests of another one."""

    def __init__(self, folder: Path | None, now: Callable[[], float], script: Script, check: Check) -> None:
        super().__init__(folder, now)
        self.script, self.check = script, check

    def open(self, round: int, asked: Sequence[str], model: str) -> float:
        return super().open(round, asked, self.script.rounds[round].model or model)

    def server_end(self, round: int, what: str, model: str) -> float:
        said = self.script.rounds[round].server.get(what)
        return super().server_end(round, what, said.model if said else model)

    def compute_end(self, call: Call, update: str) -> None:
        self.check.trained[call.round].add(call.device)
        super().compute_end(call, update)


class ReplayStage(Stage):
    """What a replay is played with."""

    def __init__(self, world: VirtualWorld, study: Bare, run: Run, conduct: Conduct, replay: Replay) -> None:
        record = ReplayRecord(replay.folder, world.now, replay.script, replay.check)
        super().__init__(world, study, run, conduct, record, replay.prices)
        self.script, self.prices, self.check = replay.script, replay.prices, replay.check
        self.lines: dict[str, ReplayLine] = {}

    def line(self, name: str) -> ReplayLine:
        if name not in self.lines:
            self.lines[name] = ReplayLine(self, name)
            self.world.start(self.lines[name].attendant.attend(self.lines[name].device))
        return self.lines[name]


class ReplayLine(MemoryLine):
    """The way to a device, on which messages weigh what they weighed."""

    def __init__(self, stage: ReplayStage, name: str) -> None:
        super().__init__(stage.world, stage.traffic, stage.attendant(name))
        self.prices = stage.prices

    def launch(self, direction: Any, parcel: Parcel) -> Flight:
        number = parcel.header["round"]
        assert isinstance(number, int)
        if "refusal" not in parcel.header:  # which is what it is
            sizes = self.prices.down(self.name, number) if direction == "down" else self.prices.up(self.name, number)
            parcel = Parcel(parcel.header, parcel.body, sizes)
        return super().launch(direction, parcel)


class ReplayServer(Server):
    """A server that checks whether it decides what it decided before."""

    def __init__(self, stage: ReplayStage, rules: RoundRules) -> None:
        super().__init__(stage.world, stage.study, stage.run, rules, stage.record, stage.prices, stage.line)
        self.script, self.check = stage.script, stage.check
        self.number = 0  # of the round under way

    async def _cohort(self, number: int) -> Sequence[str]:
        self.number = number
        names = await super()._cohort(number)
        self.check.asked(number, names)
        return names

    def _fault(self, play: Play, name: str, reply: Parcel, examples: object) -> str | None:  # noqa: ARG002
        if refusal := reply.header.get("refusal"):
            return f"{name} refuses: {refusal}"
        part = self.script.rounds[play.round.number].parts.get(name)
        return part.refused if part and part.bill is not None else None


class ReplayDiary(Diary):
    """Rows with the accuracies of the record."""

    def __init__(self, stage: ReplayStage, outcome: Outcome) -> None:
        super().__init__(stage, outcome, lambda: True, lambda _run, _row: None)
        self.script, self.check = stage.script, stage.check

    async def after(self, play: Play, state: State) -> bool:
        if play.round.number >= 0:
            self.check.closed(play)
        return await super().after(play, state)

    def _row(self, play: Play, values: Mapping[str, Any]) -> dict[str, Any]:
        number = play.round.number
        self.check.ended(number)
        made, said = super()._row(play, values), self.script.rounds[number].row
        learnt = {key: said[key] for key in LEARNT if key in said}
        return {**made, **learnt, "numbers": {**said["numbers"], **made["numbers"]}}
