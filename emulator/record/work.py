"""Work, independent of the machine that does it, and its form in a run's record.  A replay prices it on other devices.

work.jsonl, one object a line with sorted keys:

    {work, pieces: [[phase, flops, steps, floats, conv, recurrent, positions, operators, convolutions,
                     grouped, pointwise, conv_floats], ...]}
                                               each kind once, numbered from 0
    {device, round, work, examples, held}      a device's work, from this round on until its next line
    {server: request|combine, round, work}     the server's work, likewise

`flops` counts all steps together.  `floats` and the numbers after it count one step; `conv` and `recurrent` are its
FLOPs in convolutions and in recurrent layers, `grouped` and `pointwise` those in grouped and in 1 x 1 convolutions,
`conv_floats` the numbers that convolutions move (devices/device.py).  `held` is the memory in bytes that the work needs
at once; a device with less refuses.  Phases are listed in the order in which they are added up.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from algorithms.counting.step_counts import StepCounts
from devices.device import Device
from emulator.record.call import place

Entry = TypeVar("Entry")

TRAINING = "train"  # the training phase of FedAvg's device_work, and of algorithms that build on it

LINES = (  # the keys of each kind of line
    {"work", "pieces"},
    {"device", "round", "work", "examples", "held"},
    {"server", "round", "work"},
)
MOST = 1e24  # the largest number that a line may have


@dataclass(frozen=True)
class Piece:
    """A phase of work: the number of its training steps, and what a step computes and moves on average."""

    phase: str
    flops: float  # FLOPs of all steps
    steps: int
    step: StepCounts

    @classmethod
    def of(cls, phase: str, flops: float, steps: int, *numbers: float) -> Piece:
        """Returns the piece that a list in work.jsonl states."""
        return cls(phase, flops, steps, StepCounts(flops / max(1, steps), *numbers))

    @property
    def plain(self) -> list[str | float]:
        """The piece as a list, as work.jsonl has it."""
        _, *numbers = astuple(self.step)
        return [self.phase, self.flops, self.steps, *numbers]

    def seconds(self, device: Device) -> float:
        """Returns the seconds that the piece takes on a device.  Raises ValueError for counts that no work can have."""
        return device.seconds(self.step, self.steps)


Pieces = tuple[Piece, ...]
LENGTH = 2 + len(fields(StepCounts))  # length of a piece's list


def steps_of(pieces: Pieces) -> dict[str, int]:
    """Returns the number of training steps of each phase."""
    steps: dict[str, int] = {}
    for piece in pieces:
        steps[piece.phase] = steps.get(piece.phase, 0) + piece.steps
    return steps


@dataclass(frozen=True)
class Duty:
    """A device's task in a round: the work, the number of examples to train on, and the memory in bytes that it
    needs."""

    pieces: Pieces
    examples: int
    held: int  # bytes at once

    @property
    def phases(self) -> frozenset[str]:
        return frozenset(piece.phase for piece in self.pieces)

    def refusal(self, label: str, memory: int) -> str | None:
        """Returns the reason why a device with `memory` bytes cannot do it; None if the memory is enough."""
        if self.held <= memory:
            return None
        need = f"{label} needs {self.held / 1e6:.4g} MB for {self.examples} examples"
        return f"{need}, it has {memory / 1e6:.4g} MB"


class WorkLines:
    """Makes the lines of work.jsonl during a run.  Work that is the same as in the round before gets no line."""

    def __init__(self) -> None:
        self.numbers: dict[Pieces, int] = {}
        self.last: dict[tuple[str, str], Duty | Pieces] = {}  # by device, and by half of the server's work

    def device(self, name: str, round: int, duty: Duty) -> Iterator[Mapping[str, Any]]:
        """Yields the lines that state a device's task in this round; none if it equals the last one of this device."""
        if self.last.get(("device", name)) != duty:
            self.last["device", name] = duty
            number, new = self._kind(duty.pieces)
            yield from new
            yield {"device": name, "round": round, "work": number, "examples": duty.examples, "held": duty.held}

    def server(self, what: str, round: int, pieces: Pieces) -> Iterator[Mapping[str, Any]]:
        """Yields the lines that state the server's work in this round, to request or to combine (`what`); none if it
        equals that of the round before."""
        if self.last.get(("server", what)) != pieces:
            self.last["server", what] = pieces
            number, new = self._kind(pieces)
            yield from new
            yield {"server": what, "round": round, "work": number}

    def _kind(self, pieces: Pieces) -> tuple[int, list[Mapping[str, Any]]]:
        """Returns the number of this kind of work, and a list with the line that defines it, empty if it was written
        before."""
        number = self.numbers.get(pieces)
        if number is not None:
            return number, []
        number = self.numbers[pieces] = len(self.numbers)
        return number, [{"work": number, "pieces": [piece.plain for piece in pieces]}]


class Works:
    """The content of work.jsonl: what each round asked of each device and of the server.  Raises ValueError, naming
    file and line, for a line that no run writes."""

    def __init__(self, path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
        self.kinds: list[Pieces] = []
        self.asked: dict[str, list[tuple[int, Duty]]] = {}  # by device: (first round, task)
        self.served: dict[str, list[tuple[int, Pieces]]] = {}  # by half of the server's work
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (KeyError, IndexError, TypeError, ValueError, OverflowError):
                raise ValueError(f"{path}:{number} is not as `fedlapse run` writes it") from None

    def device(self, name: str, round: int) -> Duty | None:
        """Returns a device's task in this round; None if the record has none."""
        return _from(self.asked.get(name, ()), round)

    def server(self, what: str, round: int) -> Pieces:
        """Returns the server's work in this round, to request or to combine (`what`); () if the record has none."""
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


def _append(to: list[tuple[int, Entry]], round: int, entry: Entry) -> None:
    if to and place(round) < place(to[-1][0]):
        raise ValueError("rounds follow one another")
    if to and entry == to[-1][1]:
        raise ValueError("only what has changed is written")
    to.append((round, entry))


def _from(entries: Sequence[tuple[int, Entry]], round: int) -> Entry | None:
    """Returns the last entry of this round or of an earlier one; None if there is none.  `entries`: (first round,
    entry), in the order of rounds."""
    number = bisect(entries, place(round), key=lambda entry: place(entry[0]))
    return entries[number - 1][1] if number else None


def _piece(phase: Any, flops: Any, steps: Any, *numbers: Any) -> Piece:
    if 3 + len(numbers) != LENGTH:
        raise ValueError("a piece has other numbers")
    piece = Piece.of(_name(phase), _amount(flops), _count(steps), *map(_amount, numbers))
    step, above = piece.step, 1 + 1e-9
    if step.conv + step.recurrent > step.flops * above or step.grouped + step.pointwise > step.conv * above:
        raise ValueError("parts are more than the whole")
    if step.conv_floats > step.floats * above:
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
