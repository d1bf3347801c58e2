"""Builds from events.jsonl the rounds, their devices, and each device's transfers, work and absences.  Pure.

It does not use emulator/record/events.py, which wrote the lines, so that the audit can check that module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        """The place of the line, in words."""
        device = f", device {self.device!r}" if "device" in self.body else ""
        return f"line {self.number}, round {self.round}{device}"


@dataclass
class Stretch:
    """A transfer, a computation or an absence, from its first line to its last."""

    start: Event
    stop: Event | None = None  # None: the record ends first

    @property
    def lines(self) -> list[Event]:
        """The first line, and the last if there is one."""
        return [self.start, self.stop] if self.stop else [self.start]

    @property
    def phase(self) -> str:
        return self.start.event.partition(".")[0]

    @property
    def then(self) -> str | None:
        """`resume`, `pause` or `restart` if the stretch continues when the device is back; None if it is lost or was
        not cut."""
        return self.stop.body.get("then") if self.stop else None

    @property
    def since(self) -> int:
        """The byte of the message with which a transfer begins."""
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
        """Seconds of round trips before a transfer."""
        return min(float(self.start.body.get("setup", 0.0)), self.seconds)

    @property
    def charged(self) -> float:
        """The charged seconds of the work."""
        return float(sum(self.start.body["seconds"].values()))

    @property
    def announced(self) -> int:
        return sum(self.start.body["bytes"].values())

    @property
    def moved(self) -> int:
        """Bytes that were transferred."""
        if self.stop is None:
            return 0
        return self.announced - self.since if self.whole else int(self.stop.body["bytes"])

    @property
    def share(self) -> float:
        """The share of the work that was done, by its seconds, or as stated by the line that cuts it."""
        if self.whole or self.stop is None:
            return float(self.whole)
        plain = min(1.0, self.stop.body["seconds"] / self.charged) if self.charged else 0.0
        return float(self.stop.body.get("done", plain))

    @property
    def flops(self) -> float:
        """FLOPs that were done."""
        return self.share * float(sum(self.start.body["phases"].values()))


@dataclass(frozen=True)
class Spent:
    """Seconds of a device in a round: useful + wasted = computing + sending; idle is the rest."""

    useful: float
    wasted: float
    idle: float
    computing: float
    sending: float  # and receiving


@dataclass
class Visit:
    """One device in one round."""

    did: dict[str, Stretch] = field(default_factory=dict)  # down, compute, up
    away: list[Stretch] = field(default_factory=list)
    last: Event | None = None  # the last event except off and on
    refused: bool = False
    earlier: list[Stretch] = field(default_factory=list)  # stretches that an absence cut and that continued

    def all(self, *phases: str) -> list[Stretch]:
        """The stretches of these phases, in order."""
        before = [stretch for stretch in self.earlier if stretch.phase in phases]
        return [*before, *(self.did[phase] for phase in phases if phase in self.did)]

    @property
    def moved(self) -> int:
        """Bytes transferred, both ways."""
        return sum(stretch.moved for stretch in self.all("down", "up"))

    @property
    def vain(self) -> list[Stretch]:
        """The stretches that were wasted, because the device started again."""
        return [stretch for stretch in self.earlier if stretch.then == "restart"]

    def spent(self, opened: float, closed: float, counts: bool) -> Spent:
        """The seconds from the opening to the close, or to the device's own last end if later."""
        ended = [stretch for stretch in self.all(*PHASES) if stretch.stop]
        ended.sort(key=lambda stretch: stretch.start.number)
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
        """The stretch that has not ended, if there is one."""
        return next((stretch for stretch in self.did.values() if stretch.stop is None), None)

    @property
    def off(self) -> bool:
        return bool(self.away) and self.away[-1].stop is None

    @property
    def over(self) -> bool:
        """True if the device has nothing more to do: it never began, was cut, or its upload has ended."""
        over = ("down.cut", "compute.cut", "up.cut", "up.end", "refused")
        return self.last is None or (self.last.event in over and not self.suspended)

    @property
    def suspended(self) -> bool:
        """True if an absence cut the device's last stretch, which will continue."""
        return self.last is not None and self.last.body.get("then") is not None

    def cut(self, why: str) -> Event | None:
        """The line that cut a stretch for good, for this reason; None if there is none."""
        stops = (stretch.stop for stretch in self.did.values() if not stretch.then)
        return next((stop for stop in stops if stop and stop.body.get("why") == why), None)

    @property
    def lost(self) -> bool:
        """True if the device was off when its request was due, or an absence or a broken connection cut it for good."""
        never_began = "down" not in self.did and bool(self.away)
        return never_began or self.cut("off") is not None or self.cut("broken") is not None

    @property
    def perhaps_lost(self) -> bool:
        """True if the device went off between two stretches, or before the server had read its whole upload."""
        if self.lost or self.suspended or not self.away or "down" not in self.did:
            return False
        return self.away[-1].start.number > self.did["down"].start.number


@dataclass
class AuditedRound:
    """One round."""

    open: Event
    visits: dict[str, Visit]
    close: Event | None = None
    server: dict[str, Stretch] = field(default_factory=dict)  # request, combine
    lost: tuple[int, int] = (0, 0)  # at least, at most; two numbers, see `losses`

    @property
    def counted(self) -> list[str]:
        return list(self.close.body["counted"]) if self.close else []

    @property
    def failed(self) -> bool:
        return self.close is not None and self.close.body["reason"] == "too_few"

    @property
    def useful(self) -> set[str]:
        """The devices whose work is in the model; none if the round failed."""
        return set() if self.failed else set(self.counted)

    def spent(self) -> dict[str, Spent]:
        """The seconds of each device that was asked."""
        closed = self.close.t if self.close else self.open.t
        return {name: visit.spent(self.open.t, closed, name in self.useful) for name, visit in self.visits.items()}

    @property
    def stamp(self) -> Event | None:
        """The line at whose time the round was over; None if it never was."""
        return self.close if self.failed else self.server["combine"].stop if "combine" in self.server else None


def losses(round: AuditedRound) -> tuple[int, int]:
    """The smallest and the largest possible number of devices that the server knew to be lost at the close.

    They differ by the devices whose state is not in the record.
    """
    known, counted = round.visits.items(), round.counted
    others = [visit for name, visit in known if name not in counted and not visit.refused]
    surely = sum(visit.lost for visit in others)
    return surely, surely + sum(visit.perhaps_lost for visit in others)
