"""Declared work, priced: phases of an algorithm on a device -> FLOPs and seconds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from algorithms import models
from algorithms.algorithm import Load, Phase, Work
from algorithms.cost import Meter
from devices.device import Device
from emulator.study import Study
from emulator.tally import Bill
from emulator.vetted import Faulty


class Costs:
    """The prices of one algorithm under one study.  Equal work on equal profiles is priced once."""

    def __init__(self, study: Study, label: str, seed: int) -> None:
        self.study, self.label = study, label
        self.algorithm = study.algorithms[label]
        self.split = study.splits[seed]
        self.bills: dict[tuple[str, Work], Bill] = {}

    @cached_property
    def meter(self) -> Meter:
        return Meter(models.build(self.study.model, seed=0), self.study.input_shape, models.cross_entropy)

    @cached_property
    def parameters(self) -> int:
        return sum(p.numel() for p in models.build(self.study.model, seed=0).parameters() if p.requires_grad)

    def device(self, name: str, round: int, kinds: Iterable[str], memory: Iterable[str]) -> Bill:
        """What a device's half of `round` costs there, given the kinds it received and those it kept."""
        examples = len(self.split.train[name])
        load = Load(round, examples, self.parameters, kinds=frozenset(kinds), memory=frozenset(memory))
        return self._bill(self.study.fleet[name], self.algorithm.device_work(load))

    def request(self, round: int) -> Bill:
        load = Load(round, len(self.split.proxy), self.parameters)
        return self._bill(self.study.server, self.algorithm.request_work(load))

    def combine(self, round: int, replies: int) -> Bill:
        load = Load(round, len(self.split.proxy), self.parameters, replies=replies)
        return self._bill(self.study.server, self.algorithm.combine_work(load))

    def _bill(self, device: Device, work: Work) -> Bill:
        key = (device.profile.name, work)
        if key not in self.bills:
            try:
                self.bills[key] = self._price(device, work)
            except ValueError as error:
                raise Faulty(self.label, "", f"declares work that has no price: {error}") from None
        return self.bills[key]

    def _price(self, device: Device, work: Iterable[Phase]) -> Bill:
        bill = Bill()
        for phase in work:
            steps = self.meter.steps(phase)
            seconds = device.seconds(self.meter.step_flops(phase), self.meter.step_floats(phase), steps)
            bill.add(phase.name, self.meter.flops(phase), seconds)
        return bill
