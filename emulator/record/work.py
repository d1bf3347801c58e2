"""Work, independent of the machine that does it, and its form in a run's record.  A replay prices it on other devices.

work.jsonl, one object a line with sorted keys:

    {work, pieces: [[phase, flops, steps, floats, conv, recurrent, positions, operators, convolutions], ...]}
                                               each kind once, numbered from 0
    {device, round, work, examples, held}      what a device is asked for, from this round on until its next line
    {server: request|combine, round, work}     and what the server does

`flops` are those of all steps together.  `floats` and the numbers after it are those of one step; `conv` and
`recurrent` are its FLOPs in convolutions and in recurrent layers (devices/device.py).  `held` is the memory in bytes
that the work needs at once; a device with less refuses.  Phases are listed in the order in which they are added up.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from algorithms.counting.step_counts import Step
from devices.device import Device

Said = TypeVar("Said")

LINES = (  # the keys of each kind of line
    {"work", "pieces"},
    {"device", "round", "work", "examples", "held"},
    {"server", "round", "work"},
)
MOST = 1e24  # of anything: more is no work that anybody has recorded


@dataclass(frozen=True)
class Piece:
    """A phase of work: the number of its training steps, and the mean step."""

    phase: str
    flops: float  # of all steps
    steps: int
    step: Step

    @classmethod
    def of(cls, phase: str, flops: float, steps: int, *each: float) -> Piece:
        """As a line of work.jsonl says it."""
        return cls(phase, flops, steps, Step(flops / max(1, steps), *each))

    @property
    def plain(self) -> list[str | float]:
        """As a line of work.jsonl says it."""
        _, *each = astuple(self.step)
        return [self.phase, self.flops, self.steps, *each]

    def seconds(self, device: Device) -> float:
        """Seconds that it takes on a device.  Raises ValueError for counts that no work can have."""
        return device.seconds(self.step, self.steps)


Pieces = tuple[Piece, ...]
LENGTH = 2 + len(fields(Step))  # of a piece's list


def steps_of(pieces: Pieces) -> dict[str, int]:
    """Training steps, by phase."""
    steps: dict[str, int] = {}
    for piece in pieces:
        steps[piece.phase] = steps.get(piece.phase, 0) + piece.steps
    return steps


@dataclass(frozen=True)
class Duty:
    """What a round asks of a device: work, the examples to train on, and the memory in bytes that it takes."""

    pieces: Pieces
    examples: int
    held: int  # bytes at once

    @property
    def phases(self) -> frozenset[str]:
        return frozenset(piece.phase for piece in self.pieces)

    def refusal(self, label: str, memory: int) -> str | None:
        """Why a device with `memory` bytes cannot do it; None if it can."""
        if self.held <= memory:
            return None
        of = f"{label} needs {self.held / 1e6:.4g} MB for {self.examples} examples"
        return f"{of}, it has {memory / 1e6:.4g} MB"


class Ledger:
    """Makes the lines of work.jsonl as a run goes on: one wherever something differs from the line before."""

    def __init__(self) -> None:
        self.numbers: dict[Pieces, int] = {}
        self.last: dict[tuple[str, str], Duty | Pieces] = {}  # of each device, and of each half of the server's work

    def device(self, name: str, round: int, duty: Duty) -> Iterator[Mapping[str, Any]]:
        """The lines for what this round asks of a device; none if the round before asked the same."""
        if self.last.get(("device", name)) != duty:
            self.last["device", name] = duty
            number, new = self._kind(duty.pieces)
            yield from new
            yield {"device": name, "round": round, "work": number, "examples": duty.examples, "held": duty.held}

    def server(self, what: str, round: int, pieces: Pieces) -> Iterator[Mapping[str, Any]]:
        """The lines for the server's work in this round; none if it is as in the round before."""
        if self.last.get(("server", what)) != pieces:
            self.last["server", what] = pieces
            number, new = self._kind(pieces)
            yield from new
            yield {"server": what, "round": round, "work": number}

    def _kind(self, pieces: Pieces) -> tuple[int, list[Mapping[str, Any]]]:
        """The number of a kind of work, and its line where it is a new one."""
        number = self.numbers.get(pieces)
        if number is not None:
            return number, []
        number = self.numbers[pieces] = len(self.numbers)
        return number, [{"work": number, "pieces": [piece.plain for piece in pieces]}]


class Works:
    """The content of work.jsonl.  Raises ValueError, naming file and line, for a line that no run writes."""

    def __init__(self, path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
        self.kinds: list[Pieces] = []
        self.asked: dict[str, list[tuple[int, Duty]]] = {}  # by device: from which round on
        self.served: dict[str, list[tuple[int, Pieces]]] = {}
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (KeyError, IndexError, TypeError, ValueError, OverflowError):
                raise ValueError(f"{path}:{number} is not as `fedlapse run` writes it") from None

    def device(self, name: str, round: int) -> Duty | None:
        """What this round asked of one of its devices; None if the record does not tell."""
        return _from(self.asked.get(name, ()), round)

    def server(self, what: str, round: int) -> Pieces:
        """The server's work in this round; () if the record does not tell."""
        return _from(self.served.get(what, ()), round) or ()

    def _take(self, line: Mapping[str, Any]) -> None:
        if {*line} not in LINES:
            raise ValueError("a line has other keys")
        if "pieces" in line:
            if _count(line["work"]) != len(self.kinds):
                raise ValueError("kinds of work are numbered from 0")
            self.kinds.append(tuple(_piece(*piece) for piece in line["pieces"]))
            return
        round, pieces = _count(line["round"]), self.kinds[_count(line["work"])]
        if "device" in line:
            duty = Duty(pieces, _count(line["examples"]), _count(line["held"]))
            _append(self.asked.setdefault(_name(line["device"]), []), round, duty)
        else:
            _append(self.served.setdefault(_name(line["server"]), []), round, pieces)


def _append(to: list[tuple[int, Said]], round: int, said: Said) -> None:
    if to and round < to[-1][0]:
        raise ValueError("rounds follow one another")
    if to and said == to[-1][1]:
        raise ValueError("only what has changed is written")
    to.append((round, said))


def _from(said: Sequence[tuple[int, Said]], round: int) -> Said | None:
    """What was said last before this round, or of it."""
    number = bisect(said, round, key=lambda each: each[0])
    return said[number - 1][1] if number else None


def _piece(phase: Any, flops: Any, steps: Any, *each: Any) -> Piece:
    if 3 + len(each) != LENGTH:
        raise ValueError("a piece has other numbers")
    piece = Piece.of(_name(phase), _amount(flops), _count(steps), *map(_amount, each))
    if piece.step.conv + piece.step.recurrent > piece.step.flops * (1 + 1e-9):
        raise ValueError("parts are more than the whole")
    return piece


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError("a count is 0 or more")
    return value


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        raise ValueError("an amount is 0 or more")
    return float(value)
