"""The events of a run: a class for each kind of line in events.jsonl, read by `of` and written by `plain`.

Times and seconds are virtual.  emulator/record/record.py explains each key.  Nobody changes an event; to make a frozen
one takes three times as long, and each device-round has six.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Line = Mapping[str, Any]
Way = Literal["down", "up"]
Unsound = Literal["device", "examples", "form", "values"]  # why a reply does not count: conversation/exchange.py
Seconds = Mapping[str, float]  # by phase


@dataclass(slots=True)
class Opened:
    """A round opens.  Holds the devices that it asks and the digest of its model."""

    t: float
    round: int
    asked: Sequence[str]
    model: str
    idle: str | None = None  # digest of the names among which an algorithm chose by a rule of its own

    @classmethod
    def of(cls, line: Line) -> Opened:
        return cls(line["t"], line["round"], line["asked"], line["model"], line.get("idle"))

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "open", "round": self.round, "asked": self.asked, "model": self.model}
        return line if self.idle is None else {**line, "idle": self.idle}


@dataclass(slots=True)
class Closed:
    """A round closes.  Holds the devices whose replies count, in the order in which they replied."""

    t: float
    round: int
    reason: str  # all | first | deadline | too_few
    counted: Sequence[str]

    @classmethod
    def of(cls, line: Line) -> Closed:
        return cls(line["t"], line["round"], line["reason"], line["counted"])

    @property
    def plain(self) -> Line:
        return {"t": self.t, "event": "close", "round": self.round, "reason": self.reason, "counted": self.counted}

    @property
    def failed(self) -> bool:
        """Whether too few replies came, so that the model stays as it was."""
        return self.reason == "too_few"


@dataclass(slots=True)
class TransferStarted:
    """A transfer of a message starts, or goes on from the byte that an earlier one reached."""

    t: float
    round: int
    device: str
    way: Way
    sizes: Mapping[str, int]  # bytes per kind and "frame"
    reply_to: int | None
    setup: float = 0.0  # s of round trips before it
    wire: int | None = None  # bytes with headers; None: there are none
    since: int = 0  # the byte with which it begins

    @classmethod
    def of(cls, line: Line) -> TransferStarted:
        way, further = _way(line), (line.get("setup", 0.0), line.get("wire"), line.get("from", 0))
        return cls(line["t"], line["round"], line["device"], way, line["bytes"], line["reply_to"], *further)

    @property
    def plain(self) -> Line:
        line: dict[str, Any] = {"t": self.t, "event": f"{self.way}.start", "round": self.round, "device": self.device}
        line["bytes"], line["reply_to"] = dict(self.sizes), self.reply_to
        if self.setup > 0:
            line["setup"] = self.setup
        if self.wire is not None:
            line["wire"] = self.wire
        if self.since:
            line["from"] = self.since
        return line

    @property
    def nbytes(self) -> int:
        """Bytes that this transfer is to carry."""
        return sum(self.sizes.values()) - self.since


@dataclass(slots=True)
class TransferEnded:
    """A transfer ends: the whole message has arrived."""

    t: float
    round: int
    device: str
    way: Way

    @classmethod
    def of(cls, line: Line) -> TransferEnded:
        return cls(line["t"], line["round"], line["device"], _way(line))

    @property
    def plain(self) -> Line:
        return {"t": self.t, "event": f"{self.way}.end", "round": self.round, "device": self.device}


@dataclass(slots=True)
class TransferCut:
    """A transfer stops before the whole message has arrived."""

    t: float
    round: int
    device: str
    way: Way
    nbytes: int  # that went through
    why: str  # off | closed
    then: str | None = None  # resume | restart

    @classmethod
    def of(cls, line: Line) -> TransferCut:
        way, how = _way(line), (line["bytes"], line["why"], line.get("then"))
        return cls(line["t"], line["round"], line["device"], way, *how)

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": f"{self.way}.cut", "round": self.round, "device": self.device}
        return {**line, "bytes": self.nbytes, "why": self.why, **_then(self.then)}


@dataclass(slots=True)
class ComputeStarted:
    """A device starts to compute, or goes on after an interruption."""

    t: float
    round: int
    device: str
    phases: Mapping[str, float]  # FLOPs
    seconds: Seconds
    rate: float  # FLOP/s
    jitter: Mapping[str, float]  # factors by phase; {}: none
    throttled: float = 1.0

    @classmethod
    def of(cls, line: Line) -> ComputeStarted:
        work = line["phases"], line["seconds"], line["rate"], line.get("jitter", {}), line.get("throttled", 1.0)
        return cls(line["t"], line["round"], line["device"], *work)

    @property
    def plain(self) -> Line:
        line: dict[str, Any] = {"t": self.t, "event": "compute.start", "round": self.round, "device": self.device}
        line["phases"], line["seconds"], line["rate"] = self.phases, self.seconds, self.rate
        if self.jitter:
            line["jitter"] = self.jitter
        if self.throttled != 1:
            line["throttled"] = self.throttled
        return line


@dataclass(slots=True)
class ComputeEnded:
    """A device has finished its computation."""

    t: float
    round: int
    device: str
    update: str  # digest of what it sends
    overrun: float = 0.0  # s: over sockets, how long real work outlasted its charge

    @classmethod
    def of(cls, line: Line) -> ComputeEnded:
        return cls(line["t"], line["round"], line["device"], line["update"], line.get("overrun", 0.0))

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "compute.end", "round": self.round, "device": self.device}
        return {**line, "update": self.update, **_overrun(self.overrun)}


@dataclass(slots=True)
class ComputeCut:
    """A device stops computing before its work is done."""

    t: float
    round: int
    device: str
    seconds: float  # that it computed
    why: str  # off | closed
    done: float | None = None  # share of the work, where it is not that of the seconds
    then: str | None = None  # pause | restart

    @classmethod
    def of(cls, line: Line) -> ComputeCut:
        how = line["seconds"], line["why"], line.get("done"), line.get("then")
        return cls(line["t"], line["round"], line["device"], *how)

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "compute.cut", "round": self.round, "device": self.device}
        done = {} if self.done is None else {"done": self.done}
        return {**line, "seconds": self.seconds, "why": self.why, **done, **_then(self.then)}


@dataclass(slots=True)
class ServerStarted:
    """The server begins to prepare a request, or to combine replies."""

    t: float
    round: int
    what: str  # request | combine
    phases: Mapping[str, float]
    seconds: Seconds
    flops: float
    rate: float

    @classmethod
    def of(cls, line: Line) -> ServerStarted:
        work = line["phases"], line["seconds"], line["flops"], line["rate"]
        return cls(line["t"], line["round"], line["what"], *work)

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "server.start", "round": self.round, "what": self.what, "phases": self.phases}
        return {**line, "seconds": self.seconds, "flops": self.flops, "rate": self.rate}


@dataclass(slots=True)
class ServerEnded:
    """The server has prepared its request, or combined the replies.  Holds the digest of the model it then has."""

    t: float
    round: int
    what: str
    model: str
    overrun: float = 0.0

    @classmethod
    def of(cls, line: Line) -> ServerEnded:
        return cls(line["t"], line["round"], line["what"], line["model"], line.get("overrun", 0.0))

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "server.end", "round": self.round, "what": self.what, "model": self.model}
        return {**line, **_overrun(self.overrun)}


@dataclass(slots=True)
class Presence:
    """A device of an open round goes offline or comes back online."""

    name: ClassVar[str]
    t: float
    round: int
    device: str

    @classmethod
    def of(cls, line: Line) -> Presence:
        return cls(line["t"], line["round"], line["device"])

    @property
    def plain(self) -> Line:
        return {"t": self.t, "event": self.name, "round": self.round, "device": self.device}


class WentOff(Presence):
    __slots__ = ()
    name = "off"


class CameBack(Presence):
    __slots__ = ()
    name = "on"


@dataclass(slots=True)
class Refused:
    """The server refuses a device's reply, or the device refuses the job."""

    t: float
    round: int
    device: str
    kind: Unsound
    why: str

    @classmethod
    def of(cls, line: Line) -> Refused:
        return cls(line["t"], line["round"], line["device"], line["kind"], line["why"])

    @property
    def plain(self) -> Line:
        line = {"t": self.t, "event": "refused", "round": self.round, "device": self.device}
        return {**line, "kind": self.kind, "why": self.why}

    @property
    def sentence(self) -> str:
        """Who refuses, and why."""
        who = f"{self.device} refuses" if self.kind == "device" else f"the server refuses the reply of {self.device}"
        return f"{who}: {self.why}"


OfTransfer = TransferStarted | TransferEnded | TransferCut
OfWork = ComputeStarted | ComputeEnded | ComputeCut
OfDevice = OfTransfer | OfWork | Presence | Refused
Event = Opened | Closed | OfDevice | ServerStarted | ServerEnded

READERS: dict[str, Callable[[Line], Event]] = {
    "open": Opened.of,
    "close": Closed.of,
    "refused": Refused.of,
    "off": WentOff.of,
    "on": CameBack.of,
    **{f"{way}.start": TransferStarted.of for way in ("down", "up")},
    **{f"{way}.end": TransferEnded.of for way in ("down", "up")},
    **{f"{way}.cut": TransferCut.of for way in ("down", "up")},
    "compute.start": ComputeStarted.of,
    "compute.end": ComputeEnded.of,
    "compute.cut": ComputeCut.of,
    "server.start": ServerStarted.of,
    "server.end": ServerEnded.of,
}


def event_of(line: Line) -> Event:
    """Reads a line of events.jsonl.  Raises ValueError for a missing key and for an unknown event."""
    try:
        return READERS[line["event"]](line)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a line of events.jsonl is not as `fedlapse run` writes it: {error}") from None


def events_of(lines: Iterable[Line]) -> Iterator[Event]:
    """Reads lines of events.jsonl one by one.  Raises ValueError as `event_of` does."""
    return map(event_of, lines)


def _way(line: Line) -> Way:
    return "down" if line["event"].startswith("down") else "up"


def _then(then: str | None) -> dict[str, str]:
    """How something that was cut goes on; nothing where it does not."""
    return {"then": then} if then else {}


def _overrun(seconds: float) -> dict[str, float]:
    return {"overrun": seconds} if seconds else {}
