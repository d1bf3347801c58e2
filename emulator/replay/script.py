"""Reads a run's record as a script for a replay: asked devices, bytes of messages, computed work, counted replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from emulator.record.call import Call, version
from emulator.record.events import (
    Asked,
    Closed,
    ComputeEnded,
    ComputeStarted,
    Event,
    OfDevice,
    Opened,
    Refused,
    ServerEnded,
    ServerStarted,
    TransferStarted,
    event_of,
)
from emulator.record.lines import Line, read_lines
from emulator.record.record import FILES
from emulator.record.run import AlgorithmFacts, Run, examples_of, read_run
from emulator.record.tally import Bill
from emulator.record.targets import Target, reached
from emulator.record.work import Duty, Pieces, Works

Sizes = Mapping[str, int]  # bytes per kind and "frame"


class Unsaid(Exception):  # noqa: N818  a state, and not an error
    """Something that a replay needs and the record does not have; the message continues "the record does not say"."""


@dataclass
class DeviceScript:
    """A device's part in a recorded round.  A field is None if the record does not have it."""

    down: Sizes | None = None
    bill: Bill | None = None
    update: str | None = None  # digest of the trained update; None: training did not end
    loss: float | None = None  # of the training, if the scenario's `selection` asked for it
    up: Sizes | None = None
    refused: Refused | None = None
    duty: Duty | None = None  # the requested work


@dataclass
class Served:
    """A recorded piece of the server's work."""

    bill: Bill
    model: str = ""  # digest of the model after the work


@dataclass
class RoundScript:
    """One round as recorded."""

    number: int
    asked: tuple[str, ...]
    model: str  # digest of the model that was sent
    counted: tuple[Call, ...] = ()
    closed: bool = False
    server: dict[str, Served] = field(default_factory=dict)  # request | combine
    parts: dict[str, DeviceScript] = field(default_factory=dict)  # by device
    row: Line = field(default_factory=dict)  # line of rounds.jsonl
    idle: str | None = None  # see emulator.record.events.Opened
    asks: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)  # asynchronous: (Call.round, devices) in turn

    @property
    def failed(self) -> bool:
        """True if too few replies came, so that the model did not change."""
        return bool(self.row.get("failed"))

    @property
    def cycle(self) -> int | None:
        """The number of the time slice of the data; None if the data do not drift over time."""
        cycle: int | None = self.row.get("numbers", {}).get("cycle")
        return cycle


@dataclass(frozen=True)
class Script:
    """The complete rounds of a recorded run."""

    run: Run
    facts: AlgorithmFacts  # properties of the algorithm, as recorded
    rounds: Sequence[RoundScript]
    examples: Mapping[str, int] = field(default_factory=dict)  # number of each device's examples, as far as recorded
    again: Mapping[int, RoundScript] = field(default_factory=dict)  # a version's further requests, by Call.round

    def at(self, round: int) -> RoundScript:
        """Returns the round, or the requests of a version, with this Call.round; if it did not ask as often, its
        first requests."""
        return self.again.get(round) or self.rounds[version(round)]

    @property
    def label(self) -> str:
        return self.run.label

    @property
    def seed(self) -> int:
        return self.run.seed

    @property
    def name(self) -> str:
        return self.run.name

    @cached_property
    def models(self) -> Sequence[str]:
        """The digests of the initial model, and of the model after each round with enough replies."""
        after = [each.model for each in self.rounds[1:]]
        after += [served.model for each in self.rounds[-1:] if (served := each.server.get("combine"))]
        made = [model for each, model in zip(self.rounds, after, strict=False) if not each.failed]
        return [*(each.model for each in self.rounds[:1]), *made]

    def after(self, steps: int, round: int) -> RoundScript | None:
        """Returns the round after which the model was the result of `steps` rounds with enough replies.

        Of several such rounds, returns `round` itself if it is one, otherwise the last.  None if there is none with
        data of the same time slice as `round`: its model was evaluated on other data.
        """
        done, found = 0, None
        for each in self.rounds:
            done += not each.failed
            if done == steps and each.cycle == self.rounds[round].cycle:
                if each.number == round:
                    return each
                found = each
        return found

    def until(self, target: Target) -> Script:
        """Returns the script up to the round that reached the target; with all rounds if none did."""
        row = reached([each.row for each in self.rounds], target)
        return self if row is None else replace(self, rounds=self.rounds[: row["round"] + 1])

    @property
    def cycles(self) -> bool:
        """True if the data drift, which means that they change from one time slice to the next."""
        return any(written.cycle is not None for written in self.rounds)


def read_script(folder: Path) -> Script:
    """Reads the run in a folder.  Raises ValueError, in one sentence, if there is no run or its record is damaged."""
    run, facts = read_run(folder)
    for name in FILES:
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has no {name}; a run without it cannot be replayed")
    rows = list(read_lines(folder / "rounds.jsonl"))
    path = folder / "work.jsonl"
    reader = _Reader(folder, Works(path, read_lines(path)))
    rounds = reader.read(read_lines(folder / "events.jsonl"))
    for written, row in zip(rounds, rows, strict=False):
        if row.get("round") != written.number or not written.closed:
            raise ValueError(f"{folder}: rounds.jsonl and events.jsonl are not of the same run; run it again")
        written.row = row
    if not rows or len(rows) > len(rounds):
        raise ValueError(f"{folder} holds {len(rows)} whole rounds in rounds.jsonl, {len(rounds)} in events.jsonl")
    if facts.cohort == "own" and any(written.idle is None for written in rounds):
        raise ValueError(f"{folder} does not say which devices were idle as each round opened; run it again")
    examples = examples_of(folder.resolve().parent, run.seed)
    return Script(run, facts, rounds[: len(rows)], examples, reader.again)


class _Reader:
    """The reader of the timeline of a run (events.jsonl), line by line."""

    def __init__(self, folder: Path, works: Works) -> None:
        self.folder, self.works = folder, works
        self.rounds: list[RoundScript] = []
        self.again: dict[int, RoundScript] = {}

    def read(self, lines: Iterable[Line]) -> list[RoundScript]:
        for number, line in enumerate(lines, 1):
            try:
                self._take(event_of(line))
            except (KeyError, IndexError, TypeError, AttributeError, ValueError):
                raise ValueError(
                    f"{self.folder / 'events.jsonl'}:{number} is not as `fedlapse run` writes it"
                ) from None
        return self.rounds

    def _take(self, event: Event) -> None:
        if isinstance(event, Opened):
            if event.round != len(self.rounds):
                raise ValueError("rounds follow one another")
            asked = tuple(event.asked)
            parts = {name: DeviceScript() for name in asked}
            self.rounds.append(RoundScript(event.round, asked, event.model, parts=parts, idle=event.idle))
            return
        written = self.rounds[version(event.round)]
        match event:
            case Asked():
                names = tuple(event.asked)
                written.asked += names
                written.asks.append((event.round, names))
                if event.round != written.number:
                    written = self.again.setdefault(event.round, RoundScript(event.round, (), written.model))
                written.parts.update({name: DeviceScript() for name in names})
            case Closed():
                written.counted, written.closed = tuple(event.calls), True
            case ServerStarted():
                written.server[event.what] = Served(_bill(event, self.works.server(event.what, written.number)))
            case ServerEnded():
                written.server[event.what].model = event.model
            case _:
                written = self.again.get(event.round, written)
                self._device(written, written.parts[event.device], event)

    def _device(self, written: RoundScript, part: DeviceScript, event: OfDevice) -> None:
        match event:
            case TransferStarted(way="down"):
                part.down = event.sizes
                part.duty = self.works.device(event.device, written.number)
            case TransferStarted():
                part.up = event.sizes
            case ComputeStarted() if part.bill is None:  # otherwise the device continues earlier work
                bill = _bill(event, part.duty.pieces if part.duty else ())
                part.bill = replace(bill, jitter=dict(event.jitter), throttled=event.throttled)
            case ComputeEnded():
                part.update, part.loss = event.update, event.loss
            case Refused():
                part.refused = event


def _bill(start: ComputeStarted | ServerStarted, pieces: Pieces) -> Bill:
    """Returns the recorded bill, with its phases in the order in which the run added them, so that the sum is equal
    to the last bit."""
    order = dict.fromkeys(piece.phase for piece in pieces)
    if order.keys() != start.seconds.keys():  # the work of an earlier round: this round has none of its own
        order, pieces = dict.fromkeys(start.seconds), ()
    return Bill({name: start.phases[name] for name in order}, {name: start.seconds[name] for name in order}, pieces)
