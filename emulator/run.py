"""One run: an algorithm, a seed, a world.  It leaves a folder with the record and the final model."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from devices.device import UNKNOWN
from emulator.attend import Attendant, Notes
from emulator.bench import Bench
from emulator.caveats import Looped
from emulator.costs import Charges, Costs
from emulator.jobs import Run, State, Trained
from emulator.line import MemoryLine
from emulator.metrics import NAMES, Metrics, Schedule
from emulator.protocol import After, Play, RunFailed, Server
from emulator.record import Record
from emulator.rounds import Plan
from emulator.seeds import seed as derive
from emulator.study import Split, Study
from emulator.tally import Usage, bytes_by_kind, critical, seconds
from emulator.targets import Target, reached
from emulator.traffic import Traffic
from emulator.vetted import Faulty, Vetted
from emulator.virtual import VirtualWorld
from emulator.workshop import Executor
from emulator.world import Call, World
from network import payload
from scenarios import machines, parts, plugins, wiring
from scenarios.schema import Entry, Scenario

Row = Mapping[str, Any]
Progress = Callable[[Run, Row], None]
GoingOn = Callable[[], bool]


@dataclass(frozen=True)
class Conduct:
    """How runs of a scenario are played."""

    plan: Plan
    schedule: Schedule
    stop_at: Target | None = None

    @classmethod
    def of(cls, scenario: Scenario) -> Conduct:
        rounds, evaluate, stop = scenario.rounds, scenario.evaluate, scenario.rounds.stop_at
        often = None if evaluate.personalise_every == "never" else evaluate.personalise_every
        return cls(
            Plan(
                max=rounds.max,
                needed=scenario.needed,
                ask=rounds.ask or scenario.needed,
                deadline=rounds.deadline_s,
                min_replies=rounds.min_replies,
                cycle_seconds=rounds.cycle_s,
                finish_stragglers=rounds.stragglers == "finish",
                computing=rounds.when_off,
                transfers=rounds.transfers,
            ),
            Schedule(evaluate.every, often),
            Target(stop.metric, stop.value, stop.hold) if stop else None,
        )

    def evaluated(self, round: int) -> bool:
        """Whether the round's model is evaluated: when it is due, at the end, and beside `personalised`."""
        every, final = self.schedule.every, round + 1 == self.plan.max
        return every > 0 and (final or (round + 1) % every == 0 or self.personalised(round))

    def personalised(self, round: int) -> bool:
        """Whether all devices are trained for the report: every so many rounds, and at the end; or never."""
        often, final = self.schedule.personalise_every, round + 1 == self.plan.max
        if self.schedule.every == 0 or often is None:
            return False
        return final or (often > 0 and (round + 1) % often == 0)


@dataclass
class Outcome:
    """How a run ended."""

    run: Run
    rows: list[Row] = field(default_factory=list)
    failure: str | None = None  # why it could not go on
    fault: Faulty | None = None  # the algorithm's own, if that is why
    looped: Looped = (0, "")
    overruns: list[float] = field(default_factory=list)  # sockets: how long training outlasted its model, s
    advice: str = ""  # what would avoid them

    @property
    def length(self) -> float:
        """Virtual seconds."""
        return float(self.rows[-1]["time_s"]) if self.rows else 0.0


def study_of(scenario: Scenario) -> Study:
    """The scenario's objects, built once for all its runs.  Raises BadScenario."""
    data = parts.dataset(scenario)
    parts.check_model(scenario, data)
    parts.check_enough(scenario, data)
    fleet, links = machines.fleet(scenario)
    server, server_link = machines.server(scenario)
    splits = {}
    for root in scenario.seeds:
        rng = np.random.default_rng(derive(root, "split"))
        splits[root] = Split(**parts.split(scenario, data, fleet, rng))
    algorithms = {entry.name: _algorithm(entry, scenario) for entry in scenario.algorithms}
    encodings = {entry.name: plugins.encoding(entry, algorithms[entry.name]) for entry in scenario.algorithms}
    return Study(
        model=scenario.model,
        dataset=data,
        splits=splits,
        algorithms=algorithms,
        asked=scenario.rounds.ask or scenario.needed,
        up={label: encoding.up for label, encoding in encodings.items()},
        down={label: encoding.down for label, encoding in encodings.items()},
        fleet=fleet,
        links=links,
        server=server,
        server_link=server_link,
        topology=wiring.topology(scenario),
        always_on=machines.always_on(scenario),
    )


def _algorithm(entry: Entry, scenario: Scenario) -> Any:
    return Vetted(entry.name, plugins.algorithm(entry, scenario.training, scenario.rounds.per_cycle))


class Stage:
    """What a run is played with, whatever the world: its record, its traffic, its devices."""

    def __init__(self, world: World, study: Study, run: Run, conduct: Conduct, record: Record, costs: Charges) -> None:
        self.world, self.study, self.run, self.conduct = world, study, run, conduct
        self.record, self.costs = record, costs
        self.traffic = Traffic(world, self.record, study.placed(run.seed), study.fleet, conduct.plan.transfers)
        self.notes: Notes = {}
        self.attendants: dict[str, Attendant] = {}  # those that were ever asked

    def attendant(self, name: str) -> Attendant:
        if name not in self.attendants:
            measured = self.conduct.evaluated
            profile = self.study.fleet[name].profile
            bench = Bench(self.world, self.record, profile, self.conduct.plan.computing)
            own = self.run, self.world, self.costs, bench, self.notes, measured
            self.attendants[name] = Attendant(name, *own)
        return self.attendants[name]


class Diary:
    """Writes a row for each round once its last straggler has ended, and says when it is enough."""

    def __init__(self, stage: Stage, outcome: Outcome, going_on: GoingOn, progress: Progress) -> None:
        self.stage, self.outcome = stage, outcome
        self.going_on, self.progress = going_on, progress
        self.metrics = Metrics(stage.world, stage.study, stage.run, stage.conduct.schedule, stage.attendants)
        self.unwritten: list[tuple[Play, dict[str, Any]]] = []
        self.measured: list[Row] = []
        self.cycles: dict[int, float] = {}  # time slice -> when its first round opened
        self.state: State | None = None

    async def after(self, play: Play, state: State) -> bool:
        """Looks at a round that has ended; False if it was the last."""
        self.state, number = state, play.round.number
        if number < 0:
            await self.metrics.start(state)
            return self.going_on()
        values: dict[str, Any] = dict.fromkeys(NAMES)
        further: Mapping[str, float | None] = {}
        conduct = self.stage.conduct
        if conduct.evaluated(number):
            found, further = await self.metrics.of(number, play.broadcast, state, self._trained(play))
            values |= found
        if conduct.personalised(number):
            values["personalised"] = await self._personalised(play)
        self.measured.append({"round": number, **values})
        enough = conduct.stop_at is not None and reached(self.measured, conduct.stop_at) is not None
        if enough and values["personalised"] is None and conduct.schedule.personalise_every is not None:
            values["personalised"] = await self._personalised(play)
        self.unwritten.append((play, {**values, "numbers": further}))
        self.write_settled()
        return self.going_on() and not enough

    async def _personalised(self, play: Play) -> float | None:
        return await self.metrics.personalised(play.round.number, play.broadcast, play.acknowledged)

    def write_settled(self) -> None:
        """Rows stay in the order of rounds; a round with stragglers waits for them."""
        while self.unwritten and self.unwritten[0][0].settled:
            play, values = self.unwritten.pop(0)
            row = self._row(play, values)
            self.outcome.rows.append(row)
            self.stage.record.row(row)
            self.progress(self.stage.run, row)

    def _trained(self, play: Play) -> list[Trained]:
        return [self.stage.notes[Call(name, play.round.number)] for name in sorted(play.replies)]

    def _timing(self, play: Play) -> dict[str, float]:
        """Where the data drift: the time slice, and how long ago its first round opened."""
        if self.stage.study.data.cycles == 1:
            return {}
        cycle = self.stage.study.cycle(self.stage.run.label, play.round.number)
        self.cycles.setdefault(cycle, play.round.opened)
        return {"cycle": cycle, "cycle_time_s": play.stamp - self.cycles[cycle]}

    def _row(self, play: Play, values: Mapping[str, Any]) -> dict[str, Any]:
        round, length = play.round, play.stamp - play.began
        leverages = [done.leverage for done in self._trained(play)]
        numbers = {**self._timing(play), **_means([done.numbers for done in self._trained(play)])}
        trips = {name: self.stage.record.trips.pop(Call(name, round.number)) for name in round.asked}
        for name in round.asked:
            self.stage.notes.pop(Call(name, round.number), None)
        useful = () if round.failed else play.replies  # of a failed round nothing is of use: the model stays
        used = {name: trip.usage(name in useful, play.opened, play.closed) for name, trip in trips.items()}
        closer = round.counted[-1] if round.counted else None
        return {
            "round": round.number,
            "time_s": play.stamp,
            **values,
            "numbers": {**numbers, **values["numbers"]},
            "bytes": bytes_by_kind(trips.values()),
            "flops": sum(trip.flops for trip in trips.values()) + sum(bill.total_flops for bill in play.bills),
            "asked": len(round.asked),
            "counted": len(round.counted),
            "late": len(round.late()),
            "lost": len(round.lost),
            "refused": len(round.refused),
            "failed": round.failed,
            "wasted_bytes": sum(trip.vain_bytes if name in useful else trip.nbytes for name, trip in trips.items()),
            "seconds": seconds(used),
            "joules": {name: self._joules(name, usage) for name, usage in used.items()},
            "watts": {name: self._watts(name) for name in trips},
            "leverage": _largest(leverages),
            "critical": critical(closer, trips.get(closer or ""), play.bills, length),
        }

    def _joules(self, name: str, usage: Usage) -> float | None:
        """None if nobody says what the device draws."""
        power = self.stage.study.fleet[name].profile.power
        return None if power == UNKNOWN else power.joules(usage.idle, usage.computing, usage.sending)

    def _watts(self, name: str) -> list[float] | None:
        """Idle, computing, and with the radio on."""
        power = self.stage.study.fleet[name].profile.power
        return None if power == UNKNOWN else [power.idle, power.compute, power.radio]


def _means(each: list[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each number over the devices that tell it."""
    told = {key: [numbers[key] for numbers in each if key in numbers] for numbers in each for key in numbers}
    return {key: math.fsum(values) / len(values) for key, values in sorted(told.items())}


def _largest(leverages: list[Mapping[str, float]]) -> dict[str, float]:
    return {key: max(each[key] for each in leverages if key in each) for each in leverages for key in each}


async def play(
    stage: Stage, outcome: Outcome, going_on: GoingOn, progress: Progress, serve: Callable[[After], Awaitable[None]]
) -> None:
    """Plays a run to its end; `serve` lets the server play in its world.  The record is complete however it ends.

    An algorithm's own mistake ends this run and no other, wherever in the world it came up.
    """
    diary = Diary(stage, outcome, going_on, progress)
    try:
        await serve(diary.after)
    except RunFailed as failed:
        outcome.failure = str(failed)
    except Faulty as fault:
        outcome.fault = fault.under(stage.run.seed)
        outcome.failure = str(outcome.fault)
    diary.write_settled()
    outcome.looped = stage.traffic.placed.loops.most(outcome.length)
    if diary.state and stage.record.folder:
        save_model(stage.record.folder, diary.state)


def save_model(folder: Path, state: State) -> None:
    draft = folder / "final.safetensors.partial"
    save_file(payload.decode(state.weights)["weights"], draft)
    draft.replace(folder / "final.safetensors")


async def run_virtual(
    study: Study,
    run: Run,
    conduct: Conduct,
    executor: Executor,
    folder: Path,
    going_on: GoingOn = lambda: True,
    progress: Progress = lambda _run, _row: None,
) -> Outcome:
    """One run in virtual time; its folder is `folder`."""
    world, outcome = VirtualWorld(executor), Outcome(run)
    stage = Stage(world, study, run, conduct, Record(folder, world.now), Costs(study, run.label, run.seed))
    lines: dict[str, MemoryLine] = {}

    def line(name: str) -> MemoryLine:
        if name not in lines:  # a device that is never asked costs nothing
            lines[name] = MemoryLine(world, stage.traffic, stage.attendant(name))
            world.start(lines[name].attendant.attend(lines[name].device))
        return lines[name]

    server = Server(world, study, run, conduct.plan, stage.record, stage.costs, line)
    try:
        await play(stage, outcome, going_on, progress, lambda after: world.run(server.serve(after)))
    finally:
        stage.record.shut()
    return outcome
