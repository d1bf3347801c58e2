"""A run's record, read as a script: who was asked, what each message weighed, what was computed, who counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from emulator.record import Line, read_lines
from emulator.tally import Bill

Sizes = Mapping[str, int]  # bytes per kind and "frame"
ORDERED = 6  # phases: of more, not every order is tried


@dataclass
class Part:
    """A device's half of a round, as far as the record goes: None where it does not."""

    down: Sizes | None = None
    bill: Bill | None = None
    update: str | None = None  # digest of what it trained; None: it did not get so far
    up: Sizes | None = None
    refused: str | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Of its download."""
        return frozenset(self.down or ()) - {"frame"}


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

    @property
    def name(self) -> str:
        return f"{self.label}-s{self.seed}"

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
    rounds = _Reader(folder).read(read_lines(folder / "events.jsonl"))
    for written, row in zip(rounds, rows, strict=False):
        if row.get("round") != written.number or not written.closed:
            raise ValueError(f"{folder}: rounds.jsonl and events.jsonl are not of the same run; play it again")
        written.row = row
    if not rows or len(rows) > len(rounds):
        raise ValueError(f"{folder} holds {len(rows)} whole rounds in rounds.jsonl, {len(rounds)} in events.jsonl")
    return Script(label, int(seed), rounds[: len(rows)])


class _Reader:
    """Takes one line of the timeline after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rounds: list[Written] = []
        self.started: dict[tuple[int, str], Line] = {}  # work under way, by round and who does it
        self.interrupted: set[tuple[int, str]] = set()  # work that was cut
        self.orders: dict[frozenset[str], tuple[str, ...]] = {}  # in which order these phases came

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
        key = (written.number, line["what"])
        if line["event"] == "server.start":
            self.started[key] = line
            written.server[line["what"]] = Served(self._bill(line, None))
        else:
            written.server[line["what"]] = Served(self._bill(self.started.pop(key), line), line["model"])

    def _device(self, written: Written, part: Part, line: Line) -> None:
        key = (written.number, line["device"])
        match line["event"]:
            case "down.start":
                part.down = line["bytes"]
            case "up.start":
                part.up = line["bytes"]
            case "compute.start" if key not in self.started:  # else it goes on with what it began
                self.started[key] = line
                part.bill = self._bill(line, None)
            case "compute.cut":
                self.interrupted.add(key)
            case "compute.end":
                begun, whole = self.started.pop(key), key not in self.interrupted
                part.bill, part.update = self._bill(begun, line if whole else None), line["update"]
            case "refused":
                part.refused = line["why"]

    def _bill(self, start: Line, end: Line | None) -> Bill:
        """Its phases in the order in which they were added up, so that their sum is the same to the last bit."""
        seconds: dict[str, float] = start["seconds"]
        order = self.orders.get(frozenset(seconds), tuple(seconds))
        if end is not None and len(seconds) > 2 and not _adds_up(order, seconds, start, end):
            tried = permutations(seconds) if len(seconds) <= ORDERED else ()
            order = next((each for each in tried if _adds_up(each, seconds, start, end)), order)
            self.orders[frozenset(seconds)] = order
        return Bill(
            {name: start["phases"][name] for name in order},
            {name: seconds[name] for name in order},
            jitter=start.get("jitter", {}),
            throttled=start.get("throttled", 1.0),
        )


def _adds_up(order: Sequence[str], seconds: Mapping[str, float], start: Line, end: Line) -> bool:
    total: Any = start["t"] + sum(seconds[name] for name in order)
    return bool(total == end["t"])
