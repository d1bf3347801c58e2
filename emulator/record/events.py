"""The events of a run: a class for each kind of line in events.jsonl, which `event_of` reads and `plain` writes.

Times and seconds are virtual.  emulator/record/record.py explains each key.  No event is changed after it is made; the
classes are not frozen because a frozen one takes three times as long to make, and each device-round has six.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal

from emulator.record.call import Call

Line = Mapping[str, Any]
Way = Literal["down", "up"]
Unsound = Literal["device", "examples", "form", "values"]  # why a reply does not count: conversation/exchange.py
Seconds = Mapping[str, float]  # by phase

KEYS = {"sizes": "bytes", "nbytes": "bytes", "since": "from"}  # keys that differ from the names of their fields


@dataclass(slots=True)
class _Event:
    """A line of events.jsonl, with one key for each field.  A field with its default value is left out of the line."""

    name: ClassVar[str]
    t: float
    round: int

    @property
    def event(self) -> str:
        """The kind of event, the value of the line's key "event"."""
        return self.name

    @property
    def plain(self) -> Line:
        """The object that the line holds, from key to value."""
        line: dict[str, Any] = {"event": self.event}
        for attribute, key, default in _COLUMNS[type(self)]:
            value = getattr(self, attribute)
            if value != default:
                line[key] = value
        return line


@dataclass(slots=True)
class _OfDevice(_Event):
    device: str


@dataclass(slots=True)
class _OfTransfer(_OfDevice):
    way: Way

    @property
    def event(self) -> str:
        return f"{self.way}.{self.name}"


@dataclass(slots=True)
class Opened(_Event):
    """The event that a round opens, with the devices that it asks and the digest of its model."""

    name = "open"
    asked: Sequence[str]
    model: str
    idle: str | None = None  # digest of the names from which an algorithm's own rule, or a selection, chose


@dataclass(slots=True)
class Asked(_Event):
    """The event that an asynchronous server asks devices on the model of an open round."""

    name = "ask"
    asked: Sequence[str]
    idle: str | None = None  # digest of the names from which a selection chose


@dataclass(slots=True)
class Closed(_Event):
    """The event that a round closes, with the devices whose replies count, in the order in which they replied.  A reply
    to an earlier round is named with that round, as [device, round]."""

    name = "close"
    reason: str  # all | first | deadline | too_few
    counted: Sequence[str | Sequence[Any]]

    @property
    def calls(self) -> Sequence[Call]:
        """The device-rounds whose replies count, in the order of `counted`."""
        return [Call(each, self.round) if isinstance(each, str) else Call(*each) for each in self.counted]

    @property
    def own(self) -> Sequence[str]:
        """The devices that this round asked and whose replies count in it, in the order in which they replied."""
        return [each for each in self.counted if isinstance(each, str)]

    @property
    def failed(self) -> bool:
        """True if too few replies came, so that the model did not change."""
        return self.reason == "too_few"


@dataclass(slots=True)
class TransferStarted(_OfTransfer):
    """The event that a transfer of a message starts, or continues from the byte that an earlier transfer reached."""

    name = "start"
    sizes: Mapping[str, int]  # bytes per kind and "frame"
    reply_to: int | None
    setup: float = 0.0  # s of round trips before the bytes flow
    wire: int | None = None  # bytes with headers; None: without headers
    since: int = 0  # its first byte

    @property
    def nbytes(self) -> int:
        """The bytes that this transfer has to send."""
        return sum(self.sizes.values()) - self.since


@dataclass(slots=True)
class TransferEnded(_OfTransfer):
    """The event that a transfer ends, because the whole message has arrived."""

    name = "end"


@dataclass(slots=True)
class TransferCut(_OfTransfer):
    """The event that a transfer stops before the whole message has arrived."""

    name = "cut"
    nbytes: int  # transferred bytes
    why: str  # off | closed | broken
    then: str | None = None  # resume | restart


@dataclass(slots=True)
class ComputeStarted(_OfDevice):
    """The event that a device starts to compute, or continues after an interruption."""

    name = "compute.start"
    phases: Mapping[str, float]  # FLOPs
    seconds: Seconds
    rate: float  # FLOP/s
    jitter: Mapping[str, float] = field(default_factory=dict)  # factors by phase; {}: none
    throttled: float = 1.0


@dataclass(slots=True)
class ComputeEnded(_OfDevice):
    """The event that a device has finished its computation."""

    name = "compute.end"
    update: str  # digest of the upload
    overrun: float = 0.0  # s; over sockets, the excess of real work over its charge
    loss: float | None = None  # of the training, if a selection asks for it


@dataclass(slots=True)
class ComputeCut(_OfDevice):
    """The event that a device stops computing before its work is done."""

    name = "compute.cut"
    seconds: float  # seconds of computing
    why: str  # off | closed | broken
    done: float | None = None  # share of the work, if it differs from the share of the seconds
    then: str | None = None  # pause | restart


@dataclass(slots=True)
class ServerStarted(_Event):
    """The event that the server begins to prepare a request, or to combine replies."""

    name = "server.start"
    what: str  # request | combine
    phases: Mapping[str, float]
    seconds: Seconds
    flops: float
    rate: float


@dataclass(slots=True)
class ServerEnded(_Event):
    """The event that the server has prepared its request or combined the replies, with the digest of the model that it
    has now."""

    name = "server.end"
    what: str
    model: str
    overrun: float = 0.0


class Presence(_OfDevice):
    """The event that a device of an open round goes offline or comes back online."""

    __slots__ = ()


class WentOff(Presence):
    __slots__ = ()
    name = "off"


class CameBack(Presence):
    __slots__ = ()
    name = "on"


@dataclass(slots=True)
class Refused(_OfDevice):
    """The event that the server refuses a device's reply, or the device refuses the server's request."""

    name = "refused"
    kind: Unsound
    why: str

    @property
    def sentence(self) -> str:
        """The refusal in one sentence: who refuses, and why."""
        who = f"{self.device} refuses" if self.kind == "device" else f"the server refuses the reply of {self.device}"
        return f"{who}: {self.why}"


OfTransfer = TransferStarted | TransferEnded | TransferCut
OfWork = ComputeStarted | ComputeEnded | ComputeCut
OfDevice = OfTransfer | OfWork | Presence | Refused
Event = Opened | Asked | Closed | OfDevice | ServerStarted | ServerEnded

_TRANSFERS: tuple[type[OfTransfer], ...] = (TransferStarted, TransferEnded, TransferCut)
_OTHERS: tuple[type[Event], ...] = (
    *(Opened, Asked, Closed, Refused, WentOff, CameBack),
    *(ComputeStarted, ComputeEnded, ComputeCut, ServerStarted, ServerEnded),
)
CLASSES: dict[str, type[Event]] = {kind.name: kind for kind in _OTHERS} | {
    f"{way}.{kind.name}": kind for kind in _TRANSFERS for way in ("down", "up")
}
_COLUMNS: dict[type, list[tuple[str, str, Any]]] = {  # (field, its key, its default; MISSING marks a required key)
    kind: [
        (column.name, KEYS.get(column.name, column.name), {} if column.default_factory is dict else column.default)
        for column in fields(kind)
        if column.name != "way"  # part of the line's "event"
    ]
    for kind in (*_TRANSFERS, *_OTHERS)
}


def event_of(line: Line) -> Event:
    """Returns the event that a line of events.jsonl states.  Raises ValueError for a missing key and for an unknown
    event."""
    try:
        kind = CLASSES[line["event"]]
        values = {
            attribute: line[key] if default is MISSING else line.get(key, default)
            for attribute, key, default in _COLUMNS[kind]
        }
        if kind in _TRANSFERS:
            values["way"] = line["event"].partition(".")[0]
        return kind(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a line of events.jsonl is not as `fedlapse run` writes it: {error}") from None


def events_of(lines: Iterable[Line]) -> Iterator[Event]:
    """Yields the events that lines of events.jsonl state.  Raises ValueError as `event_of` does."""
    return map(event_of, lines)
