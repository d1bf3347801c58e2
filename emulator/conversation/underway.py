"""A round under way, as the server (server.py), its presences and its exchange share it."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.conversation.rounds import Round
from emulator.lab.jobs import State
from emulator.messages.store import NOTHING, Ref
from emulator.record.tally import Bill
from emulator.worlds.interface import Signal, Task


class RunFailed(Exception):  # noqa: N818
    """A run that cannot go on; the message says why."""


@dataclass
class Play:
    """A round under way."""

    round: Round
    began: float  # when the round before it was stamped
    closing: Signal
    written: Signal  # the close is in the record
    broadcast: State  # the model that goes down
    acknowledged: dict[str, int]  # device -> its last counted round before this one
    download: Ref = NOTHING  # what went down, where the server must know it to read the replies
    opened: float = 0.0  # as recorded
    closed: float = 0.0
    stamp: float = 0.0  # time_s: when it was combined
    bills: list[Bill] = field(default_factory=list)  # of the server's work
    replies: dict[str, int] = field(default_factory=dict)  # device -> examples
    uploads: dict[str, Ref] = field(default_factory=dict)  # of those, until they are combined
    not_finite: int = 0  # replies that were refused because a value in them is not finite
    asks: dict[str, Task] = field(default_factory=dict)
    watches: dict[str, Task] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)  # of those asked: offline now

    @property
    def running(self) -> list[str]:
        """The devices that were asked and have not ended."""
        return [name for name, task in self.asks.items() if not task.ended]

    @property
    def settled(self) -> bool:
        return all(task.ended for task in self.asks.values())
