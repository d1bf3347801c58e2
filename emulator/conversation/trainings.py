"""Submits the real trainings of a run: of single devices, or of stacks of devices (algorithms/stack.py).

The stacks depend on the devices that a round asks, in that order, and not on the arrival of downloads: runs that differ
only in their links do the same jobs, in either world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter

from emulator.compute.futures import SharedJob
from emulator.lab.jobs import train, train_stack
from emulator.lab.lab import Lab
from emulator.messages.store import Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket, World

Inputs = tuple[Ref, Ref]  # a device's download, and its memory


class Trainings:
    """Submits trainings.  `measured`: the rounds in which trained models are tested on the devices' own test shards."""

    def __init__(self, world: World, lab: Lab, run: Run, measured: Callable[[int], bool]) -> None:
        self.world, self.lab, self.run, self.measured = world, lab, run, measured
        self.planned: dict[str, tuple[int, Ticket]] = {}  # by device, until it starts: (round, its part of a stack)

    def plan(self, round: int, inputs: Mapping[str, Inputs]) -> None:
        """Submits the stacks of the devices that a round asks, with these inputs.

        A device that never receives its download has then trained for nothing.
        """
        late = self.lab.over_sockets  # only over sockets a request of an earlier round may still be in transfer
        for device in list(inputs if late else self.planned):
            self.forget(device)
        for devices in self.lab.stacks(self.run.label, list(inputs)):
            if len(devices) == 1:
                continue
            downloads, memories = zip(*(inputs[name] for name in devices), strict=True)
            args = self.run, round, tuple(devices), downloads, memories, self.measured(round)
            job = SharedJob(self.world.submit(train_stack, *args).future)
            for place, device in enumerate(devices):
                self.planned[device] = round, Ticket(job.result(itemgetter(place)))

    def forget(self, device: str) -> None:
        """Drops a device's part of its stack, because the device does not start."""
        if device in self.planned:
            self.planned.pop(device)[1].cancel()

    def close(self) -> None:
        """Drops all planned trainings, because the run is over."""
        for device in list(self.planned):
            self.forget(device)

    def start(self, device: str, round: int, download: Ref, memory: Ref) -> Ticket:
        """A device's training: its part of a stack if the round has planned one, otherwise a job of its own."""
        planned = self.planned.get(device)
        if planned and planned[0] == round:
            return self.planned.pop(device)[1]
        return self.world.submit(train, self.run, device, round, download, memory, self.measured(round))
