"""A run's record, read as a script: who was asked, what each message weighed, what was computed, who counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from emulator.record.record import Line, read_lines
from emulator.record.tally import Bill
from emulator.record.work import Duty, Pieces, Works

Sizes = Mapping[str, int]  # bytes per kind and "frame"


@dataclass
class Part:
    """A device's half of a round, as far as the record goes: None where it does not."""

    down: Sizes | None = None
    bill: Bill | None = None
    update: str | None = None  # digest of what it trained; None: it did not get so far
    up: Sizes | None = None
    refused: str | None = None
    duty: Duty | None = None  # what was asked of it


@dataclass
class Served:
    """A piece of the server's work."""

    bill: Bill
    model: str = ""  # digest of the model after it


@dataclass
class Written:
    """One round."""

    number: int
    asked: tuple[str, ...]
    model: str  # digest of what went down
    counted: tuple[str, ...] = ()
    closed: bool = False
    server: dict[str, Served] = field(default_factory=dict)  # request | combine
    parts: dict[str, Part] = field(default_factory=dict)  # by device
    row: Line = field(default_factory=dict)  # of rounds.jsonl


@dataclass(frozen=True)
class Script:
    """All whole rounds of a run."""

    label: str
    seed: int
    rounds: Sequence[Written]
    tells_starts: bool = True  # whether its work says how many operators it starts

    @property
    def name(self) -> str:
        return f"{self.label}-s{self.seed}"

    @cached_property
    def tells_work(self) -> bool:
        """Whether it says what work is, and not only what it took."""
        return any(part.duty for written in self.rounds for part in written.parts.values())

    @property
    def cycles(self) -> bool:
        """Whether its data drift."""
        return any("cycle" in written.row.get("numbers", {}) for written in self.rounds)


def read_script(folder: Path) -> Script:
    """The run in a folder named LABEL-sSEED.  Raises ValueError, in one sentence, if it is damaged or holds none."""
    label, _, seed = folder.resolve().name.rpartition("-s")
    if not label or not seed.isdecimal():
        raise ValueError(f"{folder} is no run's folder; its name must be LABEL-sSEED, as fedavg-s1")
    rows = list(read_lines(folder / "rounds.jsonl"))
    path = folder / "work.jsonl"
    works = Works(path, read_lines(path) if path.exists() else ())
    rounds = _Reader(folder, works).read(read_lines(folder / "events.jsonl"))
    for written, row in zip(rounds, rows, strict=False):
        if row.get("round") != written.number or not written.closed:
            raise ValueError(f"{folder}: rounds.jsonl and events.jsonl are not of the same run; play it again")
        written.row = row
    if not rows or len(rows) > len(rounds):
        raise ValueError(f"{folder} holds {len(rows)} whole rounds in rounds.jsonl, {len(rounds)} in events.jsonl")
    return Script(label, int(seed), rounds[: len(rows)], works.tells_starts)


class _Reader:
    """Takes one line of the timeline after the other."""

    def __init__(self, folder: Path, works: Works) -> None:
        self.folder, self.works = folder, works
        self.rounds: list[Written] = []

    def read(self, lines: Iterable[Line]) -> list[Written]:
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (KeyError, IndexError, TypeError, AttributeError, ValueError):
                raise ValueError(
                    f"{self.folder / 'events.jsonl'}:{number} is not as `fedlapse run` writes it"
                ) from None
        return self.rounds

    def _take(self, line: Line) -> None:
        event, number = line["event"], int(line["round"])
        if event == "open":
            if number != len(self.rounds):
                raise ValueError("rounds follow one another")
            asked = tuple(line["asked"])
            self.rounds.append(Written(number, asked, line["model"], parts={name: Part() for name in asked}))
            return
        written = self.rounds[number]
        if event == "close":
            written.counted, written.closed = tuple(line["counted"]), True
        elif event.startswith("server"):
            self._server(written, line)
        else:
            self._device(written, written.parts[line["device"]], line)

    def _server(self, written: Written, line: Line) -> None:
        what = line["what"]
        if line["event"] == "server.start":
            written.server[what] = Served(_bill(line, self.works.server(what, written.number)))
        else:
            written.server[what].model = line["model"]

    def _device(self, written: Written, part: Part, line: Line) -> None:
        match line["event"]:
            case "down.start":
                part.down = line["bytes"]
                part.duty = self.works.device(line["device"], written.number)
            case "up.start":
                part.up = line["bytes"]
            case "compute.start" if part.bill is None:  # else it goes on with what it began
                part.bill = _bill(line, part.duty.pieces if part.duty else ())
            case "compute.end":
                part.update = line["update"]
            case "refused":
                part.refused = line["why"]


def _bill(line: Line, pieces: Pieces) -> Bill:
    """Its phases in the order in which they were added up, so that their sum is the same to the last bit."""
    order = dict.fromkeys(piece.phase for piece in pieces)
    if order.keys() != line["seconds"].keys():  # the work of another round: in this one there was none to tell
        order, pieces = dict.fromkeys(line["seconds"]), ()
    return Bill(
        {name: line["phases"][name] for name in order},
        {name: line["seconds"][name] for name in order},
        pieces,
        jitter=line.get("jitter", {}),
        throttled=line.get("throttled", 1.0),
    )
