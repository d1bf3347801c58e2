"""Prices the work that an algorithm declares: phases on a device -> FLOPs and seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from algorithms.algorithm import Load, Phase, Work
from algorithms.counting.cost import Meter
from algorithms.networks import FROZEN, KEPT
from algorithms.training.tensors import travelling
from devices.device import Device
from emulator.lab.budget import load_of, meter_of, priceable, steps_of
from emulator.lab.lab import Lab, in_cycle
from emulator.pricing.bills import jittered, priced
from emulator.pricing.memory import footprint, uploaded
from emulator.record.call import version
from emulator.record.tally import Bill
from emulator.record.work import Duty, Piece
from network.wire.form import FRAME
from scenarios.builders.roster import MANY, sample

Numbered = tuple[int, Work]  # equal work has one number, because comparing work is slow
# Turn (Lab), examples, kinds received, kinds kept, and steps of Load.
Depends = tuple[int, int, frozenset[str], frozenset[str], int]

# Floats moved for each encoded value: read for the scale, read and written for encoding, and read by the receiver.
CODING = 4
NO_KIND = {FRAME, FROZEN, KEPT}  # of a message or a memory, of which no algorithm knows


class Costs:
    """The prices of one algorithm in one lab.  The same work on devices of the same profile is priced once."""

    def __init__(self, lab: Lab, label: str, root: int) -> None:
        self.lab, self.label, self.root = lab, label, root
        self.algorithm = lab.algorithms[label]
        self.split = lab.splits[root]
        self.up, self.down, self.lossy = lab.up.get(label, {}), lab.down.get(label, {}), lab.lossy(label)
        self.turn = -1  # the latest turn in the caches below: earlier ones are seldom needed again
        self.uploaded: int | None = None  # bytes besides the weights
        self.loads: dict[Depends, Load] = {}
        self.works: dict[Depends, Numbered] = {}
        self.duties: dict[tuple[Depends, int, int], Duty] = {}
        self.numbers: dict[Work, int] = {}  # numbers of all work so far
        self.bills: dict[tuple[str, int], Bill] = {}  # by profile, and the work's number
        self.pieces: dict[Phase, Piece] = {}
        self.steps: dict[tuple[str, Any], int] = {}  # of training in `seconds`, by profile and load

    @cached_property
    def meter(self) -> Meter:
        lab = self.lab
        return meter_of(lab.model, lab.data.form, lab.data.target, lab.task)

    @cached_property
    def parameters(self) -> int:
        """The number of trained parameters that travel."""
        return sum(p.numel() for p in travelling(self.lab.module).values())

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """Returns the cost of a device's half of `round`, with each phase's time multiplied by its jitter in this
        round."""
        return jittered(self.price(name, round, kinds, memory), self.lab.fleet[name], self.root, round)

    def price(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """Returns the cost of a device's half of `round` without jitter, given the kinds that it received (`kinds`) and
        keeps (`memory`)."""
        depends = self._depends(name, round, kinds, memory)
        work = self.works.get(depends)
        if work is None:
            load = self._load_of(depends)
            decode = self._coding("decode", self.down.keys() & load.kinds)
            encode = self._coding("encode", self.up.keys() & self._sent(round))
            work = self.works[depends] = self._numbered((*decode, *self.algorithm.device_work(load), *encode))
        return self._bill(self.lab.fleet[name], work)

    def load(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Load:
        """Returns the sizes on which the work of a device's half of `round` depends."""
        return self._load_of(self._depends(name, round, kinds, memory))

    def _load_of(self, depends: Depends) -> Load:
        if depends not in self.loads:
            turn, examples, kinds, memory, steps = depends
            self.loads[depends] = self._load(turn, examples, kinds=kinds, memory=memory, steps=steps)
        return self.loads[depends]

    def heaviest(self) -> Load:
        """Returns the largest load of any device: most examples, all kinds of downloads, in a round after the first."""
        examples = max(len(part) for name in sample(self.split.train) for part in self.split.train[name])
        return self._load(1, examples, kinds=frozenset(self.algorithm.downloads))

    def duty(self, name: str, round: int, downloaded: Mapping[str, int], kept: Mapping[str, int]) -> Duty:
        """Returns a device's work in `round` and the memory that it needs, from the bytes downloaded and kept, by kind
        and "frame" (bytes of no tensor)."""
        depends = self._depends(name, round, downloaded, kept)
        tensors = of_tensors(downloaded), of_tensors(kept)
        duty = self.duties.get((depends, *tensors))
        if duty is None:
            pieces = self.price(name, round, downloaded, kept).pieces
            if self.uploaded is None:
                self.uploaded = uploaded(self.lab, self.label, round)
            load, (received, held) = self._load_of(depends), tensors
            memory = footprint(self.lab, self.label, load, received, self.uploaded, held).total
            duty = self.duties[depends, received, held] = Duty(pieces, load.examples, memory)
        return duty

    def _depends(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Depends:
        turn = self.lab.turn(self.label, round)
        if turn > self.turn:
            self.turn = turn
            self.loads, self.works, self.duties, self.steps, self.uploaded = {}, {}, {}, {}, None
            if len(self.numbers) > MANY:  # for example with drifting data; no number is in use at this point
                self.numbers, self.bills = {}, {}
        examples = len(in_cycle(self.split.train, name, self.lab.cycle(self.label, round)))
        depends = turn, examples, _tensors(tuple(kinds)), _tensors(tuple(memory))
        return *depends, self._steps(name, *depends) if self.lab.tells_steps(self.label) else 0

    def _steps(self, name: str, *depends: Any) -> int:
        """Returns the steps of the device's training in `seconds`; computed once for equal profiles and loads."""
        key = self.lab.fleet[name].profile.name, depends
        if key not in self.steps:
            turn, examples, kinds, memory = depends
            load = self._load(turn, examples, kinds=kinds, memory=memory)
            self.steps[key] = steps_of(self.lab, self.label, name, load)
        return self.steps[key]

    def refusal(self, name: str, round: int, duty: Duty | None) -> str | None:  # noqa: ARG002
        """Returns the reason why the device cannot take part; None if its memory is large enough."""
        return duty.refusal(self.label, self.lab.fleet[name].profile.memory_bytes) if duty else None

    def request(self, round: int) -> Bill:
        first = not version(round) or self.lab.turn(self.label, round - 1) < self.lab.turn(self.label, round)
        load = replace(
            self._load(self.lab.turn(self.label, round), len(self.split.proxy), first=first), parameters=self.parameters
        )
        work = (*self.algorithm.request_work(load), *self._coding("encode", self.down))
        return self._bill(self.lab.server, self._numbered(work))

    def combine(self, round: int, replies: int) -> Bill:
        ahead = self.lab.ahead(self.label, round)
        load = self._load(self.lab.turn(self.label, round), len(self.split.proxy), replies=replies, ahead=ahead)
        load = replace(load, parameters=self.parameters)
        decode = self._coding("decode", self.up.keys() & self._sent(round), replies)
        return self._bill(self.lab.server, self._numbered((*self.algorithm.combine_work(load), *decode)))

    def _sent(self, round: int) -> Collection[str]:
        """Returns the kinds of uploads in this round; () if the algorithm's uploads are not encoded."""
        return self.lab.upload_form(self.label, round).shapes.keys() if self.up else ()

    def _load(self, turn: int, examples: int, **more: Any) -> Load:
        return load_of(self.lab, self.label, self.root, turn, examples, **more)

    def _coding(self, name: str, kinds: Collection[str], messages: int = 1) -> Work:
        """Returns the phase of encoding or decoding these kinds in `messages` messages, each kind assumed as large as
        the model; () if there is nothing to do."""
        traffic = float(CODING * len(kinds) * messages * self.parameters)
        return (Phase(name, "forward", traffic=traffic),) if traffic else ()

    def _numbered(self, work: Work) -> Numbered:
        return self.numbers.setdefault(work, len(self.numbers)), work

    def _bill(self, device: Device, numbered: Numbered) -> Bill:
        number, work = numbered
        key = device.profile.name, number
        bill = self.bills.get(key)
        if bill is None:
            if len(self.bills) >= MANY:  # in a large fleet that draws examples, each device has its own prices
                self.bills.clear()
            with priceable(self.label):
                bill = self.bills[key] = priced(tuple(map(self._piece, work)), device)
        return bill

    def _piece(self, phase: Phase) -> Piece:
        if phase not in self.pieces:
            meter = self.meter
            self.pieces[phase] = Piece(phase.name, meter.flops(phase), meter.steps(phase), meter.step(phase))
        return self.pieces[phase]


@lru_cache(maxsize=256)
def _tensors(kinds: tuple[str, ...]) -> frozenset[str]:
    return frozenset(kinds) - NO_KIND


def of_tensors(sizes: Mapping[str, int]) -> int:
    """Returns the bytes of all kinds but "frame", and but frozen and kept tensors, which count as parameters."""
    return sum(size for kind, size in sizes.items() if kind not in NO_KIND)
