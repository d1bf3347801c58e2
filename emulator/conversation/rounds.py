"""Decides which replies count in a round, and when it closes.  No clock and no I/O: callers report the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from emulator.record.call import Call, turn, version
from scenarios.schema.training import Rounds

Reason = Literal["all", "first", "deadline", "too_few"]
DEFAULT = Rounds()


@dataclass(frozen=True)
class RoundRules:
    """The rules of a run's rounds: how many, how many devices are asked, when a round closes, and what absences
    cost."""

    max: int  # rounds
    needed: int  # replies that close a round (K)
    ask: int  # devices asked; more than `needed` is over-selection; asynchronous: devices at work (M)
    deadline: float | None = DEFAULT.deadline_s  # s after the round opened
    min_replies: int = DEFAULT.min_replies  # with fewer the model does not change and the round has failed
    cycle_seconds: float | None = DEFAULT.cycle_s  # s from one cycle's data to the next; None: available on demand
    finish_stragglers: bool = DEFAULT.stragglers == "finish"  # False: they stop at the close
    max_staleness: float = 0  # rounds since the model was asked for; an older reply does not count
    asynchronous: bool = DEFAULT.mode == "async"  # a round is a version; `needed` replies to any version close it
    timeout: float | None = DEFAULT.timeout_s  # asynchronous: s after its request, when a device is told to stop
    computing: str = DEFAULT.when_off  # lose | pause | restart, after the device was offline
    transfers: str = DEFAULT.transfers  # lose | restart | resume, after the device was offline

    def admit(self, round: int, asked: int) -> bool:
        """Returns true if a reply to a request of round `asked` may count in the open round `round`."""
        return round - asked <= self.max_staleness

    def turn(self, round: int) -> int:
        """Returns the number of this round as schedules count rounds."""
        return turn(round, self.needed if self.asynchronous else 0, self.ask)


@dataclass
class Round:
    """One round as it unfolds.  Once it is closed, each device that was asked is counted, late, lost (offline) or
    refused.  Replies to earlier rounds may count, too; they neither close the round nor keep it open."""

    number: int
    asked: Sequence[str]
    rules: RoundRules
    opened: float
    counted: list[str | Call] = field(default_factory=list)  # in order of arrival; a Call for an earlier round's reply
    lost: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    reason: Reason | None = None  # reason for the close; None while open

    def count(self, name: str, asked: int | None = None) -> bool:
        """Counts a device's sound reply to a request of round `asked` (None: of this round), and returns True.

        Returns False and changes nothing after the close, and if the rules do not admit the reply.
        """
        asked = self.number if asked is None else asked
        if self.reason is not None or not self.rules.admit(self.number, version(asked)):
            return False
        self.counted.append(name if asked == self.number else Call(name, asked))
        self._look()
        return True

    @property
    def calls(self) -> list[Call]:
        """The device-rounds whose replies count in this round, in order of arrival."""
        return [each if isinstance(each, Call) else Call(each, self.number) for each in self.counted]

    @property
    def own(self) -> list[str]:
        """The devices that this round asked and whose replies count in it, in order of arrival."""
        return [name for name in self.counted if isinstance(name, str)]

    def lose(self, name: str) -> None:
        """Notes that the device went offline and its part is lost.  Does nothing after the close of a synchronous
        round, when the device counts as late."""
        if self.reason is None or self.rules.asynchronous:
            self.lost.add(name)
            self._look()

    def refuse(self, name: str) -> None:
        """Notes that the device's reply has arrived but is not sound.  Does nothing after the close of a synchronous
        round."""
        if self.reason is None or self.rules.asynchronous:
            self.refused.add(name)
            self._look()

    def vanished(self, names: set[str]) -> None:
        """Notes that these devices went offline after the close was decided, but before it was recorded."""
        self.lost |= names
        if self.reason in ("first", "deadline") and self._all_heard and not self.rules.asynchronous:
            self.reason = "all"

    def exhaust(self) -> None:
        """Closes the round because no device is at work, and none will be."""
        self._close("all")

    def expire(self) -> None:
        """Closes the round because its deadline has passed, unless it is closed already."""
        if self.reason is None:
            self._close("deadline")

    def late(self) -> set[str]:
        """Returns the devices that were asked and neither replied nor went offline before the close."""
        return set(self.asked) - set(self.own) - self.lost - self.refused

    @property
    def failed(self) -> bool:
        return self.reason == "too_few"

    @property
    def _all_heard(self) -> bool:
        return len(self.own) + len(self.lost) + len(self.refused) == len(self.asked)

    def _look(self) -> None:
        asynchronous = self.rules.asynchronous
        if self.reason is not None:
            return
        if not asynchronous and self._all_heard:
            self._close("all")
        elif len(self.counted if asynchronous else self.own) >= self.rules.needed:
            self._close("first")

    def _close(self, reason: Reason) -> None:
        self.reason = reason if len(self.counted) >= self.rules.min_replies else "too_few"
