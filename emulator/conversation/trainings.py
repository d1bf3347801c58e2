"""The real trainings of a run: of a device by itself, or of a stack of devices that a round asks (algorithms/stack.py).

Who trains with whom follows from whom a round asks, in that order, and never from when downloads arrive: runs that
differ in nothing but their links do the same jobs, in either world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter

from emulator.lab.jobs import train, train_stack
from emulator.lab.lab import Lab
from emulator.lab.store import Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket, World
from emulator.worlds.shared import Shared, Waiter

Inputs = tuple[Ref, Ref]  # a device's download, and its memory
Stack = tuple[Run, int, Sequence[str], Sequence[Ref], Sequence[Ref], bool]


class Trainings:
    """Hands them in.  `measured`: in which rounds the trained model is tried on the device's own test shard."""

    def __init__(self, world: World, lab: Lab, run: Run, measured: Callable[[int], bool]) -> None:
        self.world, self.lab, self.run, self.measured = world, lab, run, measured
        self.planned: dict[str, tuple[int, Ticket]] = {}  # by device, until it starts: the round, and its part of a job
        self.round, self.asked = (
            -1,
            0,
        )  # the round planned last, and how many devices it asks, if all of them will start
        self.started: dict[str, Ticket] = {}  # those of them that have
        self.all_started: Callable[[dict[str, Ticket]], None] = lambda _: None  # is told once they all have

    def plan(self, round: int, inputs: Mapping[str, Inputs], whole: bool = False) -> None:
        """A round asks these devices, which have these inputs.  Stacks begin now: who never receives its download
        trains for nothing.  `whole`: all of them will start, unless they refuse."""
        self.round, self.asked, self.started = round, len(inputs) if whole else 0, {}
        late = self.lab.over_sockets  # a request of an earlier round may still be on its way there, and nowhere else
        for device in list(inputs if late else self.planned):
            self.forget(device)
        for args in self.stacks(round, inputs):
            job = Shared(self.world.submit(train_stack, *args).future)
            for place, device in enumerate(args[2]):
                self.planned[device] = round, Ticket(Waiter(job, itemgetter(place)))

    def stacks(self, round: int, inputs: Mapping[str, Inputs]) -> Iterator[Stack]:
        """The devices that train as stacks: what `train_stack` gets."""
        for devices in self.lab.stacks(self.run.label, list(inputs)):
            if len(devices) > 1:
                downloads, memories = zip(*(inputs[name] for name in devices), strict=True)
                yield self.run, round, tuple(devices), downloads, memories, self.measured(round)

    def forget(self, device: str) -> None:
        """The device does not start: its stack's results need not be kept for it."""
        if device in self.planned:
            self.planned.pop(device)[1].cancel()

    def close(self) -> None:
        """The run is over."""
        self.started = {}
        for device in list(self.planned):
            self.forget(device)

    def start(self, device: str, round: int, download: Ref, memory: Ref) -> Ticket:
        """A device's training: its part of its stack's, if the round has one for it."""
        planned = self.planned.get(device)
        if planned and planned[0] == round:
            ticket = self.planned.pop(device)[1]
        else:
            ticket = self.world.submit(train, self.run, device, round, download, memory, self.measured(round))
        if self.asked and round == self.round:
            self.started[device] = ticket
            if len(self.started) == self.asked:
                self.all_started(self.started)
                self.started = {}  # nobody keeps what they have made
        return ticket
