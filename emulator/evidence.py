"""What the lines of events.jsonl say happened: rounds, the devices in them, and what each did when.  Pure.

For the audit; it knows nothing of the code that wrote the lines, so that it can judge that code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """A line of events.jsonl that has the right form."""

    number: int  # from 1
    event: str
    round: int
    t: float
    body: Mapping[str, Any]

    @property
    def device(self) -> str:
        return str(self.body["device"])


@dataclass
class Stretch:
    """Something from one instant to another: a transfer, computing, being off."""

    start: Line
    stop: Line | None = None  # None: the record ends before it

    @property
    def phase(self) -> str:
        return self.start.event.partition(".")[0]

    @property
    def then(self) -> str | None:
        """Of what was cut: how it shall go on when the device is back; None: it is lost."""
        return self.stop.body.get("then") if self.stop else None

    @property
    def since(self) -> int:
        """The byte of its message with which a transfer begins."""
        return int(self.start.body.get("from", 0))

    @property
    def whole(self) -> bool:
        return self.stop is not None and self.stop.event.endswith(".end")

    @property
    def seconds(self) -> float:
        return self.stop.t - self.start.t if self.stop else 0.0

    @property
    def setup(self) -> float:
        """The seconds of these that went into round trips before a transfer."""
        return min(float(self.start.body.get("setup", 0.0)), self.seconds)

    @property
    def charged(self) -> float:
        """The seconds that its work costs."""
        return float(sum(self.start.body["seconds"].values()))

    @property
    def announced(self) -> int:
        return sum(self.start.body["bytes"].values())

    @property
    def moved(self) -> int:
        """The bytes that went through."""
        if self.stop is None:
            return 0
        return self.announced - self.since if self.whole else int(self.stop.body["bytes"])

    @property
    def flops(self) -> float:
        """Those charged; of work that was cut, the part that was done."""
        flops = float(sum(self.start.body["phases"].values()))
        if self.whole or self.stop is None:
            return flops if self.whole else 0.0
        done, charged = float(self.stop.body["seconds"]), self.charged
        return flops * min(1.0, done / charged) if charged else 0.0


@dataclass
class Visit:
    """One device in one round."""

    did: dict[str, Stretch] = field(default_factory=dict)  # down, compute, up
    away: list[Stretch] = field(default_factory=list)
    last: Line | None = None  # of what it did
    refused: bool = False
    earlier: list[Stretch] = field(default_factory=list)  # what was cut as it went off, and gone on with

    def all(self, *phases: str) -> list[Stretch]:
        """What it did of these, in order."""
        before = [stretch for stretch in self.earlier if stretch.phase in phases]
        return [*before, *(self.did[phase] for phase in phases if phase in self.did)]

    @property
    def moved(self) -> int:
        """Bytes, both ways."""
        return sum(stretch.moved for stretch in self.all("down", "up"))

    @property
    def vain(self) -> list[Stretch]:
        """What it did for nothing, as it started again."""
        return [stretch for stretch in self.earlier if stretch.then == "restart"]

    @property
    def pending(self) -> Stretch | None:
        """What it is doing."""
        return next((stretch for stretch in self.did.values() if stretch.stop is None), None)

    @property
    def off(self) -> bool:
        return bool(self.away) and self.away[-1].stop is None

    @property
    def over(self) -> bool:
        """It has nothing more to do: it never began, was cut, or its upload has ended."""
        over = ("down.cut", "compute.cut", "up.cut", "up.end", "refused")
        return self.last is None or (self.last.event in over and not self.suspended)

    @property
    def suspended(self) -> bool:
        """What it did last was cut as it went off, and goes on when it is back."""
        return self.last is not None and self.last.body.get("then") is not None

    def cut(self, why: str) -> Line | None:
        """Where what it did was cut for good."""
        stops = (stretch.stop for stretch in self.did.values() if not stretch.then)
        return next((stop for stop in stops if stop and stop.body.get("why") == why), None)


@dataclass
class Round:
    """One round, as its lines tell it."""

    open: Line
    visits: dict[str, Visit]
    close: Line | None = None
    server: dict[str, Stretch] = field(default_factory=dict)  # request, combine
    lost: tuple[int, int] = (0, 0)  # at least, at most; two numbers, see `losses`

    @property
    def counted(self) -> list[str]:
        return list(self.close.body["counted"]) if self.close else []

    @property
    def failed(self) -> bool:
        return self.close is not None and self.close.body["reason"] == "too_few"

    @property
    def stamp(self) -> Line | None:
        """The line at whose time the round was over; None if it was not."""
        return self.close if self.failed else self.server["combine"].stop if "combine" in self.server else None


def losses(round: Round) -> tuple[int, int]:
    """How many devices the server knew to be lost at the close: at least, and at most.

    One is lost if it was off when its request was due, or was cut for good by going off.  One that went off between
    two things, or before its whole upload was read, may be lost or not: the record cannot tell.
    """
    surely = maybe = 0
    for name, visit in round.visits.items():
        if name in round.counted or visit.refused:
            continue
        begun = visit.did["down"].start.number if "down" in visit.did else None
        if visit.cut("off") or (begun is None and visit.away):
            surely += 1
        elif begun is not None and visit.away and visit.away[-1].start.number > begun and not visit.suspended:
            maybe += 1
    return surely, surely + maybe
