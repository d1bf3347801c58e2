"""Submits the real trainings of a run: of single devices, or of stacks, which are devices trained in one computation.

The stacks (algorithms/stack.py) depend on the devices that a round asks and on their order, but not on the arrival of
downloads.  So runs that differ only in their links do the same jobs, in virtual time and over sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from emulator.compute.futures import SharedJob
from emulator.lab.lab import Lab
from emulator.lab.training import train, train_stack
from emulator.messages.store import Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket, World

Inputs = tuple[Ref, Ref, Ref]  # a device's download, its memory, and that as of its last reply in the model


class Trainings:
    """The trainings of one run.

    `measured` returns true for the rounds in which each trained model is tested on the device's own test shard.
    """

    def __init__(self, world: World, lab: Lab, run: Run, measured: Callable[[int], bool]) -> None:
        self.world, self.lab, self.run, self.measured = world, lab, run, measured
        self.planned: dict[str, tuple[int, Ticket]] = {}  # by device, until it starts: (round, its part of a stack)

    def plan(self, round: int, inputs: Mapping[str, Inputs]) -> None:
        """Submits the stacks of the devices that a round asks.  `inputs`, by device: see Inputs.

        A device that never receives its download has then been trained for nothing.
        """
        # A request of an earlier round may still be in transfer over sockets and to an asynchronous version.
        late = self.lab.over_sockets or self.lab.buffer.get(self.run.label)
        for device in list(inputs if late else self.planned):
            self.forget(device)
        for devices in self.lab.stacks(self.run.label, list(inputs)):
            if len(devices) == 1:
                continue
            downloads, memories, _ = zip(*(inputs[name] for name in devices), strict=True)
            args = self.run, round, tuple(devices), downloads, memories, self.measured(round)
            job = SharedJob(self.world.submit(train_stack, *args, *_combined(inputs, devices)).future)
            for place, device in enumerate(devices):
                self.planned[device] = round, Ticket(job.result(itemgetter(place)))

    def forget(self, device: str) -> None:
        """Drops a device's planned part of a stack, if any, because the device will not start it."""
        if device in self.planned:
            self.planned.pop(device)[1].cancel()

    def close(self) -> None:
        """Drops all planned trainings, because the run is over."""
        for device in list(self.planned):
            self.forget(device)

    def start(self, device: str, round: int, inputs: Inputs) -> Ticket:
        """Returns the ticket of a device's training: its part of a stack if this round planned one, else a new job."""
        planned = self.planned.get(device)
        if planned and planned[0] == round:
            return self.planned.pop(device)[1]
        download, memory, _ = inputs
        own = _combined({device: inputs}, [device])
        return self.world.submit(train, self.run, device, round, download, memory, self.measured(round), *own)


def _combined(inputs: Mapping[str, Inputs], devices: Sequence[str]) -> list[dict[str, Ref]]:
    """Returns the last argument of a job: by device, its memory as of its last reply in the model, where that is not
    its memory; [] if there is none."""
    found = {name: inputs[name][2] for name in devices if inputs[name][2] != inputs[name][1]}
    return [found] if found else []
