"""The real trainings of a run: of a device by itself, or of a stack of devices that a round asks (algorithms/stack.py).

Who trains with whom follows from whom a round asks, in that order, and never from when downloads arrive: runs that
differ in nothing but their links do the same jobs, in either world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter

from emulator.compute.futures import Shared
from emulator.lab.jobs import train, train_stack
from emulator.lab.lab import Lab
from emulator.messages.store import Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket, World

Inputs = tuple[Ref, Ref]  # a device's download, and its memory


class Trainings:
    """Hands them in.  `measured`: in which rounds the trained model is tried on the device's own test shard."""

    def __init__(self, world: World, lab: Lab, run: Run, measured: Callable[[int], bool]) -> None:
        self.world, self.lab, self.run, self.measured = world, lab, run, measured
        self.planned: dict[str, tuple[int, Ticket]] = {}  # by device, until it starts: the round, and its part of a job

    def plan(self, round: int, inputs: Mapping[str, Inputs]) -> None:
        """A round asks these devices, which have these inputs.  Stacks begin now: who never receives its download
        trains for nothing."""
        late = self.lab.over_sockets  # a request of an earlier round may still be on its way there, and nowhere else
        for device in list(inputs if late else self.planned):
            self.forget(device)
        for devices in self.lab.stacks(self.run.label, list(inputs)):
            if len(devices) == 1:
                continue
            downloads, memories = zip(*(inputs[name] for name in devices), strict=True)
            args = self.run, round, tuple(devices), downloads, memories, self.measured(round)
            job = Shared(self.world.submit(train_stack, *args).future)
            for place, device in enumerate(devices):
                self.planned[device] = round, Ticket(job.result(itemgetter(place)))

    def forget(self, device: str) -> None:
        """The device does not start: its stack's results need not be kept for it."""
        if device in self.planned:
            self.planned.pop(device)[1].cancel()

    def close(self) -> None:
        """The run is over."""
        for device in list(self.planned):
            self.forget(device)

    def start(self, device: str, round: int, download: Ref, memory: Ref) -> Ticket:
        """A device's training: its part of its stack's, if the round has one for it."""
        planned = self.planned.get(device)
        if planned and planned[0] == round:
            return self.planned.pop(device)[1]
        return self.world.submit(train, self.run, device, round, download, memory, self.measured(round))
