"""The real trainings of a run: of a device by itself, or of a stack of devices that a round asks (algorithms/stack.py).

Who trains with whom follows from whom a round asks, in that order, and never from when downloads arrive: runs that
differ in nothing but their links do the same jobs, in either world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter

from emulator.lab.jobs import Trained, train, train_stack
from emulator.lab.lab import Lab
from emulator.lab.store import Ref
from emulator.record.run import Run
from emulator.worlds.interface import Ticket, World
from emulator.worlds.shared import Shared, Waiter

Inputs = tuple[Ref, Ref]  # a device's download, and its memory
Ahead = Callable[[Mapping[str, Trained]], None]  # is given what all devices of a round have made


class Trainings:
    """Hands them in.  `measured`: in which rounds the trained model is tried on the device's own test shard."""

    def __init__(self, world: World, lab: Lab, run: Run, measured: Callable[[int], bool]) -> None:
        self.world, self.lab, self.run, self.measured = world, lab, run, measured
        self.planned: dict[str, tuple[int, Ticket]] = {}  # by device, until it starts: the round, and its part of a job
        # Of the round that was planned last, if somebody wants its results ahead: who was asked, and has started.
        self.ahead: Ahead | None = None
        self.round, self.asked = -1, 0
        self.started, self.undone = dict[str, Ticket](), list[Ticket]()

    def plan(self, round: int, inputs: Mapping[str, Inputs], ahead: Ahead | None = None) -> None:
        """A round asks these devices, which have these inputs.  Stacks begin now: who never receives its download
        trains for nothing.  `ahead` is called once all results are here, if that is before the last is sent."""
        self._await(ahead)  # first: what the round before has made goes
        self.round, self.asked = round, len(inputs)
        late = self.lab.over_sockets  # a request of an earlier round may still be on its way there, and nowhere else
        for device in list(inputs if late else self.planned):
            self.forget(device)
        for devices in self.lab.stacks(self.run.label, list(inputs)):
            if len(devices) > 1:
                downloads, memories = zip(*(inputs[name] for name in devices), strict=True)
                args = self.run, round, tuple(devices), downloads, memories, self.measured(round)
                job = Shared(self.world.submit(train_stack, *args).future)
                for place, device in enumerate(devices):
                    self.planned[device] = round, Ticket(Waiter(job, itemgetter(place)))

    def forget(self, device: str) -> None:
        """The device does not start: its stack's results need not be kept for it."""
        if device in self.planned:
            self.planned.pop(device)[1].cancel()

    def close(self) -> None:
        """The run is over."""
        self._await(None)
        for device in list(self.planned):
            self.forget(device)

    def start(self, device: str, round: int, download: Ref, memory: Ref) -> Ticket:
        """A device's training: its part of its stack's, if the round has one for it."""
        planned = self.planned.get(device)
        if planned and planned[0] == round:
            ticket = self.planned.pop(device)[1]
        else:
            ticket = self.world.submit(train, self.run, device, round, download, memory, self.measured(round))
        if self.ahead and round == self.round:
            self.started[device] = ticket
            self.undone.append(ticket)
        return ticket

    def look(self) -> None:
        """A device has its result: perhaps all results are here."""
        while self.undone and self.undone[-1].future.done():
            self.undone.pop()
        if self.undone or not self.ahead or len(self.started) < self.asked:
            return
        ahead, started = self.ahead, self.started
        self._await(None)
        if not any(ticket.future.cancelled() or ticket.future.exception() for ticket in started.values()):
            ahead({name: ticket.future.result() for name, ticket in started.items()})

    def _await(self, ahead: Ahead | None) -> None:
        self.ahead, self.started, self.undone = ahead, {}, []
