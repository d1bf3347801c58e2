"""The state of a round under way, which server.py, presences.py and exchange.py share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from emulator.conversation.rounds import Round
from emulator.lab.jobs import State
from emulator.messages.store import NOTHING, Ref
from emulator.record.call import Call, place
from emulator.record.tally import Bill
from emulator.worlds.interface import Signal, Task


class RunFailed(Exception):  # noqa: N818
    """The exception that ends a run which cannot continue; its message gives the reason."""


class Arrival(NamedTuple):
    """A sound reply that has arrived at the server.  Replies are taken in by time, then by round and device."""

    t: float
    device: str
    asked: Play  # the round whose request it answers
    examples: int
    upload: Ref
    loss: float | None = None  # of the training, if the selection asks for it
    steps: int = 0  # 0: the reply does not tell them

    @property
    def call(self) -> Call:
        """The device-round that made this reply."""
        return Call(self.device, self.asked.round.number)

    @property
    def place(self) -> tuple[float, int, str]:
        """The place of the reply in the total order of replies."""
        return self.t, self.asked.round.number, self.device


def named(replies: Sequence[Arrival]) -> dict[str, Arrival]:
    """Returns replies by device, in the order of names.  Where a device has several, its newest has the device's name,
    and the others have `name@round` with the round that asked."""
    newest = {reply.device: reply for reply in sorted(replies, key=lambda reply: place(reply.call.round))}
    found = {
        reply.device if newest[reply.device] is reply else f"{reply.device}@{reply.call.round}": reply
        for reply in replies
    }
    return dict(sorted(found.items()))


@dataclass
class Play:
    """The state of a round, from its opening until its last straggler has ended."""

    round: Round
    began: float  # the stamp of the previous round
    closing: Signal
    written: Signal  # the close is in the record
    broadcast: State  # with the model that is sent
    acknowledged: dict[str, int]  # by device: its last counted round before this one
    download: Ref = NOTHING  # the sent message, if the server needs it to decode the replies
    opened: float = 0.0  # as recorded
    closed: float = 0.0
    stamp: float = 0.0  # time_s: the time of its combination
    bills: list[Bill] = field(default_factory=list)  # bills of the server's work
    replies: list[Arrival] = field(default_factory=list)  # that count in this round, until they are combined
    useful: set[str] = field(default_factory=set)  # devices whose replies to this round are in a model
    waiting: set[str] = field(default_factory=set)  # devices whose replies to this round may still get into one
    dropped: int = 0  # replies that arrived in this round and are too stale to count
    not_finite: int = 0  # replies refused because a value is not finite
    asks: dict[str, Task] = field(default_factory=dict)  # by device: the task that asks it
    watches: dict[str, Task] = field(default_factory=dict)  # by device: the task that watches its presence
    away: set[str] = field(default_factory=set)  # asked devices that are offline now
    again: list[Play] = field(default_factory=list)  # of an asynchronous version: its second request to a device, ...

    @property
    def running(self) -> list[str]:
        """The names of the devices whose tasks have not ended, so that the round or its server still waits for them."""
        return [name for name, task in self.asks.items() if not task.ended]

    @property
    def settled(self) -> bool:
        return not self.waiting and all(
            chain((task.ended for task in self.asks.values()), (play.settled for play in self.again))
        )
