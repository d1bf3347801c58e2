"""Replays a finished run without training: the same rounds on other links or other devices.

Sizes, work, digests and accuracies come from the record.  The clock, links, presence and rules of a round are those of
a real run.  A replay is exact as long as every decision equals the recorded one: which devices are asked, which are
counted, and, if devices keep trained state, which trained.  An algorithm's own rule for choosing devices is not called:
it would choose the recorded ones as long as the same devices are online and idle.  On the record's own scenario a
replay reproduces the record, byte for byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from devices.generated_presence import Undrawn
from emulator.compute.batches import Job
from emulator.compute.executor import Executor
from emulator.compute.futures import ended
from emulator.conversation.channel import MemoryLine
from emulator.conversation.device import Attendant
from emulator.conversation.exchange import Refusal
from emulator.conversation.rounds import Round
from emulator.conversation.server import Server
from emulator.conversation.traffic import Flight, Traffic
from emulator.conversation.underway import Play, RunFailed
from emulator.conversation.versions import AsyncServer
from emulator.lab.jobs import Opening, State, combine, request, start
from emulator.lab.training import Trained, train
from emulator.messages.files import Memory
from emulator.messages.store import EMPTY, NOTHING, Ref, Stored
from emulator.play.conduct import Conduct
from emulator.play.metrics import NAMES, Schedule
from emulator.play.rows import Diary
from emulator.play.stage import Outcome, Row, Stage
from emulator.record.call import Call, version
from emulator.record.record import Record, digest_of
from emulator.record.seal import seal_run
from emulator.replay.bare import Setting, bare
from emulator.replay.prices import Prices
from emulator.replay.script import RoundScript, Script, Unsaid
from emulator.results.units import joined
from emulator.worlds.interface import Parcel, World
from emulator.worlds.virtual import VirtualWorld, at_once
from scenarios.schema.scenario import Scenario

# Phrases on devices whose part differs from the record: for one device, and for several.
ASKED = ("is {} selected", "are {} selected")
COUNTED = ("is {} aggregated", "are {} aggregated")
TRAINED = ("{} ends its training", "{} end their training")
OTHERS = "other devices are online and idle, and the algorithm has a rule of its own to select devices"
OTHERS_IDLE, OTHER_ORDER = "other devices are online and idle", "replies arrive in another order"
SEES = f"the choice looks at seconds and losses of earlier replies, or {OTHERS_IDLE}"
LEARNT = (*NAMES, "leverage")  # values of a row that depend on models: no replay recomputes them
NO_STATE = State(NOTHING, NOTHING)
KNOWN: dict[Job, Any] = {start: NO_STATE, combine: NO_STATE, request: Opening(EMPTY, {})}  # results that never change


@dataclass(frozen=True)
class Parting:
    """The first decision that differs from the record, from which on a replay is not exact."""

    round: int
    why: str


@dataclass(frozen=True)
class Replayed:
    """The outcome of a replay, which is how the run would have gone in the other setting."""

    label: str
    seed: int
    rows: Sequence[Row]  # as in rounds.jsonl; up to the parting unless the replay went on
    parting: Parting | None
    assumed: int  # messages and pieces of work that are not in the record, taken from similar ones
    failure: str | None  # reason why the conversation could not continue
    loops: int = 0  # repetitions of the most repeated recording
    unknown: int | None = None  # the first round whose accuracy even --anyway cannot tell; it may lie after the end
    pieces: int = 0  # all pieces: request, training and reply of each asked device, and the aggregation


class ReplayDiverged(RunFailed):
    """The exception that ends a replay at a decision that differs from the record."""


class Replayer:
    """The replayer of the runs of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.own = Setting.of(scenario)

    def replay(self, script: Script, setting: Setting, folder: Path | None = None, anyway: bool = False) -> Replayed:
        """Replays one run in one setting; writes its timeline and rounds to `folder`, if there is one.

        `anyway`: continues after a decision that differs from the record.  From there on, a model is assumed to be as
        good as the recorded one after equally many rounds with enough replies; other rounds do not change it.  If the
        record lacks something that the replay needs, the replay ends there, and `failure` has the reason.
        """
        return at_once(self._replay(script, setting, folder, anyway))

    async def _replay(self, script: Script, setting: Setting, folder: Path | None, anyway: bool) -> Replayed:
        scenario = self.scenario.under(script.label)
        lab, played = bare(scenario, script, setting), Conduct.of(scenario)
        rules = replace(played.rules, max=len(script.rounds))
        conduct = replace(played, rules=rules, schedule=Schedule(0, 0), stop_at=None, until=None)
        prices = Prices(lab, script, self.own)
        world, outcome = VirtualWorld(RecordedJobs(script, prices)), Outcome(script.run)
        check = Check(script, anyway)
        record = ReplayRecord(folder, world.now, script, check)
        record.about(script.run, script.facts)
        stage = Stage(world, lab, outcome.run, conduct, record, prices)
        line = cache(lambda name: ReplayLine(world, stage.traffic, stage.attendant(name), prices))
        kind = AsyncServer if rules.asynchronous else Server
        server = kind(world, lab, outcome.run, rules, record, prices, line, RecordedJudge(script))
        diary = Diary(stage, outcome, finish=check.row)

        async def after(play: Play, state: State) -> bool:
            if play.round.number >= 0:
                check.closed(play.round)
            return await diary.after(play, state)

        ended: str | None = None
        try:
            await world.run(server.serve(after))
            diary.write_settled()
        except ReplayDiverged:
            pass  # `check` knows the place and the reason
        except Unsaid as end:
            ended = outcome.failure = f"in round {check.number + 1} the record does not say {end}"
        except (RunFailed, Undrawn) as failed:
            ended = str(failed)
            if check.parting or len(outcome.rows) < len(script.rounds):  # otherwise it failed as the run did
                outcome.failure = str(failed)
        finally:
            record.shut()
        if folder:
            seal_run(folder, check.parting.why if check.parting else ended)
        looped, _ = stage.traffic.placed.loops.most(outcome.length)
        if check.parting and check.unknown is None and len(script.rounds) < played.rules.max:
            check.unknown = len(script.rounds)  # a run would have continued
        said = check.parting, len(prices.assumed), outcome.failure
        pieces = sum(3 * row["asked"] + 1 for row in outcome.rows)
        return Replayed(script.label, script.seed, outcome.rows, *said, looped, check.unknown, pieces)


class Check:
    """The comparison of the decisions of a replay with the recorded ones."""

    def __init__(self, script: Script, anyway: bool) -> None:
        self.script, self.anyway = script, anyway
        self.parting: Parting | None = None
        self.number = 0  # number of the current round
        self.steps: list[int] = []  # by round: the number of rounds with enough replies so far; each changed the model
        self.unknown: int | None = None  # the first round whose model is not in the record
        self.trained: defaultdict[int, set[Call]] = defaultdict(set)  # by round: what devices completed of it
        self.asks = 0  # how often the current version has asked

    def part(self, round: int, why: str) -> None:
        """Notes the decision that differs from the record, if it is the first.  Raises ReplayDiverged, unless the
        replay goes on anyway."""
        self.parting = self.parting or Parting(round, why)
        if not self.anyway:
            raise ReplayDiverged(why)

    def asked(self, number: int, names: Sequence[str], idle: Sequence[str]) -> None:
        """Compares the devices that a round asks with the recorded ones.

        Raises ReplayDiverged if they differ and the replay does not go on anyway.  Raises Unsaid if it does, but the
        algorithm chooses devices by a rule of its own and other devices are idle than in the record.
        """
        self.number, written, self.asks = number, self.script.rounds[number], 0
        if self.script.facts.cohort == "own" and digest_of(idle) != written.idle:
            self.part(number, OTHERS)
            raise Unsaid("which devices it selects from others than those that were online and idle")
        if not written.asks and tuple(names) != written.asked:
            self.part(number, f"{_moved(names, written.asked, ASKED)}, because {self.why(OTHERS_IDLE)}")

    def ask(self, round: int, names: Sequence[str]) -> None:
        """Compares the devices that an asynchronous version asks with those that it asked in its turn in the record."""
        asks = self.script.rounds[version(round)].asks
        said = asks[self.asks] if self.asks < len(asks) else (round, ())
        self.asks += 1
        if (round, tuple(names)) != said:
            self.part(version(round), f"{_moved(names, said[1], ASKED)}, because {self.why(OTHER_ORDER)}")

    def why(self, otherwise: str) -> str:
        """Returns the reason why other devices are asked than in the record."""
        return SEES if self.script.facts.cohort == "chosen" else otherwise

    @property
    def model(self) -> int:
        """The number of the current model, which is the count of rounds with enough replies so far."""
        return self.steps[-1] if self.steps else 0

    def closed(self, round: Round) -> None:
        """Compares the replies that count in a round that has just closed with the recorded ones."""
        written = self.script.rounds[round.number]
        self.steps.append(self.model + (not round.failed))
        if set(round.calls) != set(written.counted):
            now, before = ([call.device for call in calls] for calls in (round.calls, written.counted))
            self.part(written.number, _moved(now, before, COUNTED))

    def row(self, made: Row) -> Row:
        """Compares the trainings of a round whose last straggler has ended, and returns its row with the accuracies
        of the record."""
        number = made["round"]
        requests = {number, *(asked for asked, _ in self.script.rounds[number].asks)}
        parts = [(Call(name, at), part) for at in requests for name, part in self.script.at(at).parts.items()]
        said, done = {call for call, part in parts if part.update is not None}, self.trained[number]
        if self.script.facts.keeps_uncounted and done != said:
            now, before = ([call.device for call in calls] for calls in (done, said))
            self.part(number, f"{_moved(now, before, TRAINED)}, and devices keep what they trained")
        like = self._like(number)
        if like is None:
            return made
        learnt = {key: like.row[key] for key in LEARNT if key in like.row}
        if made["failed"] and not like.failed:  # the model is that of `like`, but no training changed it
            return {**made, **learnt, "leverage": {}}
        return {**made, **learnt, "numbers": {**like.row["numbers"], **made["numbers"]}}

    def _like(self, number: int) -> RoundScript | None:
        """Returns the recorded round whose model equals the one after this round, or is assumed to be as good; None
        if there is none."""
        if self.parting is None or number < self.parting.round:
            return self.script.rounds[number]
        found = self.script.after(self.steps[number], number)
        if found is None and self.steps[number] and self.unknown is None:
            self.unknown = number
        return found


def _moved(now: Collection[str], before: Collection[str], verb: tuple[str, str]) -> str:
    """Returns a phrase on the devices whose part has changed: `a is now aggregated and c is no longer aggregated`.

    `verb`: the phrase for one device, and that for several.
    """
    more, less = sorted(set(now) - set(before)), sorted(set(before) - set(now))
    said = [(more, "now"), (less, "no longer")]
    parts = [f"{_some(names)} {verb[len(names) > 1].format(adverb)}" for names, adverb in said if names]
    return " and ".join(parts) or "the same devices are selected in another order"


def _some(names: Sequence[str]) -> str:
    return joined(names) if len(names) < 4 else f"{names[0]}, {names[1]} and {len(names) - 2} others"


class RecordedJobs(Executor):
    """An executor that returns the recorded results of jobs instead of computing."""

    immediate = True

    def __init__(self, script: Script, prices: Prices) -> None:
        self.script, self.prices, self.store = script, prices, Memory()

    def submit(self, job: Job, *args: Any) -> Future[Any]:
        return ended(self._done(job, args))

    def _done(self, job: Job, args: Sequence[Any]) -> Any:
        if job is train:
            _, device, round = args[:3]
            part = self.script.at(round).parts.get(device)
            update = part.update if part and part.update is not None else ""
            loss = self.prices.loss(device, round)
            return Trained(Stored(Ref(update, 0), EMPTY.sizes), 1, EMPTY, None, loss=loss)
        return KNOWN[job]


class ReplayRecord(Record):
    """The record of a replay, which copies the digests of models from the record of the run."""

    def __init__(self, folder: Path | None, now: Callable[[], float], script: Script, check: Check) -> None:
        super().__init__(folder, now)
        self.script, self.check = script, check

    def open(self, round: int, asked: Sequence[str], model: str, idle: Sequence[str] = ()) -> float:
        self.check.asked(round, asked, idle)
        return super().open(round, asked, self._digest(self.check.model) or model, idle)

    def ask(self, round: int, asked: Sequence[str], idle: Sequence[str] = ()) -> None:
        self.check.ask(round, asked)
        super().ask(round, asked, idle)

    def server_end(self, round: int, what: str, model: str) -> float:
        return super().server_end(round, what, self._digest(self.check.model + (what == "combine")) or model)

    def _digest(self, steps: int) -> str:
        return self.script.models[steps] if steps < len(self.script.models) else ""

    def compute_end(self, call: Call, update: str, loss: float | None = None) -> None:
        self.check.trained[call.version].add(call)
        super().compute_end(call, update, loss)


class ReplayLine(MemoryLine):
    """The line to a device in a replay, on which messages have the sizes of the recorded ones."""

    def __init__(self, world: World, traffic: Traffic, attendant: Attendant, prices: Prices) -> None:
        super().__init__(world, traffic, attendant)
        self.prices = prices

    def launch(self, direction: Any, parcel: Parcel) -> Flight:
        number = parcel.header["round"]
        assert isinstance(number, int)
        if "refusal" not in parcel.header:  # a refusal keeps its size
            sizes = self.prices.down(self.name, number) if direction == "down" else self.prices.up(self.name, number)
            parcel = Parcel(parcel.header, parcel.message, sizes)
        return super().launch(direction, parcel)


class RecordedJudge:
    """A judge (conversation/exchange.py, Judge) that refuses the replies that were refused in the record."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def refusal(self, play: Play, name: str, reply: Parcel) -> Refusal | None:  # noqa: ARG002
        part = self.script.at(play.round.number).parts.get(name)
        said = part.refused if part else None
        return Refusal(said.kind, said.why) if said and said.kind != "device" else None
