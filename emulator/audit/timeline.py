"""Builds from the lines of events.jsonl the rounds, their devices, and each device's transfers, work and absences.
Pure.

It does not use emulator/record/events.py, which wrote the lines, so that the audit can find errors of that module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Any

PHASES = ("down", "compute", "up")


@dataclass(frozen=True)
class Event:
    """A line of events.jsonl that has the right form."""

    number: int  # from 1
    event: str
    round: int
    t: float
    body: Mapping[str, Any]

    @property
    def device(self) -> str:
        return str(self.body["device"])

    @property
    def where(self) -> str:
        """The line's number, round and device in words, for messages."""
        device = f", device {self.device!r}" if "device" in self.body else ""
        return f"line {self.number}, round {self.round}{device}"


@dataclass
class Stretch:
    """A transfer, work or absence of a device, from the line of its start to the line of its end or cut."""

    start: Event
    stop: Event | None = None  # None: the record ends first

    @property
    def lines(self) -> list[Event]:
        """The line at which the stretch starts, and the one at which it ends or is cut, if there is one."""
        return [self.start, self.stop] if self.stop else [self.start]

    @property
    def phase(self) -> str:
        return self.start.event.partition(".")[0]

    @property
    def then(self) -> str | None:
        """The continuation once the device is back: `resume`, `pause` (work that continues) or `restart`; None if the
        stretch was lost, or was not cut by an absence."""
        return self.stop.body.get("then") if self.stop else None

    @property
    def since(self) -> int:
        """The index of the first byte of the message that this transfer sends; 0 unless it continues an earlier
        transfer."""
        return int(self.start.body.get("from", 0))

    @property
    def whole(self) -> bool:
        return self.stop is not None and self.stop.event.endswith(".end")

    @property
    def end(self) -> float:
        return self.stop.t if self.stop else self.start.t

    @property
    def seconds(self) -> float:
        return self.end - self.start.t

    @property
    def setup(self) -> float:
        """Seconds of the transfer that passed before its bytes flowed: round trips, and the waking of the radio."""
        return min(float(self.start.body.get("setup", 0.0)), self.seconds)

    @property
    def charged(self) -> float:
        """Seconds that the work should take, summed over its phases."""
        return float(sum(self.start.body["seconds"].values()))

    @property
    def announced(self) -> int:
        return sum(self.start.body["bytes"].values())

    @property
    def moved(self) -> int:
        """Bytes that this transfer has sent; 0 if the record ends before the transfer does."""
        if self.stop is None:
            return 0
        return self.announced - self.since if self.whole else int(self.stop.body["bytes"])

    @property
    def share(self) -> float:
        """The share of the work that was done, from 0 to 1: as the line that cuts it says, or else by its seconds; 0 if
        the record ends before the work does."""
        if self.whole or self.stop is None:
            return float(self.whole)
        plain = min(1.0, self.stop.body["seconds"] / self.charged) if self.charged else 0.0
        return float(self.stop.body.get("done", plain))

    @property
    def flops(self) -> float:
        """FLOPs of the work that were done."""
        return self.share * float(sum(self.start.body["phases"].values()))


@dataclass(frozen=True)
class Spent:
    """Seconds of a device in a round, by use: useful + wasted = computing + sending; idle is the rest."""

    useful: float
    wasted: float
    idle: float
    computing: float
    sending: float  # and receiving


@dataclass
class Visit:
    """One device in one round: its transfers, its work and its absences."""

    asked: Event  # the line that asks the device
    did: dict[str, Stretch] = field(default_factory=dict)  # down, compute, up
    away: list[Stretch] = field(default_factory=list)
    last: Event | None = None  # the last event except off and on
    refused: bool = False
    earlier: list[Stretch] = field(default_factory=list)  # stretches that an absence cut and that continued

    def all(self, *phases: str) -> list[Stretch]:
        """Returns the stretches of these phases ("down", "compute", "up"), those that absences have cut first."""
        before = [stretch for stretch in self.earlier if stretch.phase in phases]
        return [*before, *(self.did[phase] for phase in phases if phase in self.did)]

    @property
    def moved(self) -> int:
        """Bytes transferred, both ways."""
        return sum(stretch.moved for stretch in self.all("down", "up"))

    @property
    def vain(self) -> list[Stretch]:
        """Stretches that were wasted, because an absence cut them and the device started again from the beginning."""
        return [stretch for stretch in self.earlier if stretch.then == "restart"]

    def spent(self, counts: bool, opened: float | None, closed: float) -> Spent:
        """Returns the device's seconds from `opened` to `closed`, or to its own last end if that is later.  `opened`:
        None in asynchronous rounds, where they begin and end with what it does.  `counts`: its reply counts in a round,
        so that its seconds are useful."""
        ended = [stretch for stretch in self.all(*PHASES) if stretch.stop]
        ended.sort(key=lambda stretch: stretch.start.number)
        if opened is None:
            opened = closed = ended[0].start.t if ended else 0.0
        idle, t = 0.0, opened
        for stretch in ended:
            idle, t = idle + (stretch.start.t - t), stretch.end
        idle += max(closed, t) - t
        busy = sum(stretch.seconds for stretch in ended)
        computing = sum(stretch.seconds for stretch in ended if stretch.phase == "compute")
        useful = busy - sum(stretch.seconds for stretch in self.vain) if counts else 0.0
        return Spent(useful, busy - useful, idle, computing, busy - computing)

    @property
    def pending(self) -> Stretch | None:
        """The transfer or work that has begun and not ended; None if there is none."""
        return next((stretch for stretch in self.did.values() if stretch.stop is None), None)

    @property
    def off(self) -> bool:
        return bool(self.away) and self.away[-1].stop is None

    @property
    def over(self) -> bool:
        """True if the device has nothing more to do in this round: it never began, its reply was sent or refused, or it
        was cut for good."""
        over = ("down.cut", "compute.cut", "up.cut", "up.end", "refused")
        return self.last is None or (self.last.event in over and not self.suspended)

    @property
    def suspended(self) -> bool:
        """True if an absence cut the device's last transfer or work, which will continue or start again."""
        return self.last is not None and self.last.body.get("then") is not None

    def cut(self, why: str) -> Event | None:
        """Returns the line that cut the device's transfer or work for good for the reason `why`, such as "off"; None if
        there is none."""
        stops = (stretch.stop for stretch in self.did.values() if not stretch.then)
        return next((stop for stop in stops if stop and stop.body.get("why") == why), None)

    @property
    def lost(self) -> bool:
        """True if the device took no further part: it was offline when its request was due, or an absence or a broken
        connection cut what it did for good."""
        never_began = "down" not in self.did and bool(self.away)
        return never_began or self.cut("off") is not None or self.cut("broken") is not None

    @property
    def perhaps_lost(self) -> bool:
        """True if the device may be lost: it went offline between two stretches, or before the server had read its
        whole upload."""
        if self.lost or self.suspended or not self.away or "down" not in self.did:
            return False
        return self.away[-1].start.number > self.did["down"].start.number


@dataclass
class AuditedRound:
    """One round of a record, with its devices."""

    open: Event
    visits: dict[str, Visit]
    close: Event | None = None
    server: dict[str, Stretch] = field(default_factory=dict)  # request, combine
    lost: tuple[int, int] = (0, 0)  # at least, at most; two numbers, see `losses`
    later: set[str] = field(default_factory=set)  # devices whose replies count in a later round, or as [device, round]
    again: list[AuditedRound] = field(default_factory=list)  # of a version: its second request to a device, the third
    asynchronous: bool = False
    told: dict[str, Event] = field(default_factory=dict)  # by device: the request of a synchronous round

    @property
    def all(self) -> list[AuditedRound]:
        """The round, or all requests of a version."""
        return [self, *self.again]

    @property
    def counted(self) -> list[str]:
        """The devices of this round whose replies count in it, in order of arrival."""
        return [each for each in self._closed if isinstance(each, str)]

    @property
    def stale(self) -> list[tuple[str, int]]:
        """Replies to other requests that count in this round: (device, round that asked), in order of arrival."""
        return [(each[0], each[1]) for each in self._closed if isinstance(each, list)]

    @property
    def calls(self) -> list[tuple[str, int]]:
        """All replies that count in this round: (device, round that asked), in order of arrival."""
        return [(each[0], each[1]) if isinstance(each, list) else (each, self.open.round) for each in self._closed]

    @property
    def _closed(self) -> list[Any]:
        mine = self.close is not None and self.close.round == self.open.round
        return list(self.close.body["counted"]) if self.close and mine else []

    @property
    def failed(self) -> bool:
        return self.close is not None and self.close.body["reason"] == "too_few"

    @property
    def useful(self) -> set[str]:
        """The devices whose work is in the new model, or in a later one; none of this round if it failed."""
        return self.later if self.failed else {*self.counted, *self.later}

    def spent(self) -> dict[str, Spent]:
        """Returns the seconds of each device that was asked, by its name; their sums if it was asked several times."""
        closed, sums = self.close.t if self.close else self.open.t, dict[str, Spent]()
        for round in self.all:
            for name, visit in round.visits.items():
                own = visit.spent(name in round.useful, None if self.asynchronous else self.open.t, closed)
                sums[name] = own if name not in sums else Spent(*map(add, astuple(sums[name]), astuple(own)))
        return sums

    @property
    def stamp(self) -> Event | None:
        """The line at whose time the round was over: the end of the server's combining, or the close of a round that
        failed; None if the record ends earlier."""
        return self.close if self.failed else self.server["combine"].stop if "combine" in self.server else None


def late(reply: Event, round: AuditedRound) -> bool:
    """Returns true if a reply came too late for its own round: at the time of the close or later, or after the last of
    the replies that closed it, even if its line stands before that of the close."""
    assert round.close
    closing = [last.number for name in round.counted if name in round.visits and (last := round.visits[name].last)]
    first = round.close.body["reason"] == "first"
    return reply.t >= round.close.t or (first and reply.number > max(closing, default=0))


def losses(round: AuditedRound) -> tuple[int, int]:
    """Returns the smallest and the largest number of devices that the server may have known to be lost when the round
    closed.

    They differ by the devices that may be lost, which the record leaves open.
    """
    known, counted = round.visits.items(), round.counted
    others = [visit for name, visit in known if name not in counted and not (visit.refused or name in round.later)]
    surely = sum(visit.lost for visit in others)
    return surely, surely + sum(visit.perhaps_lost for visit in others)
