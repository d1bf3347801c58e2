"""Reads from a record's events what each device did in each round.  Pure functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from emulator.record.call import version
from emulator.record.events import (
    Asked,
    CameBack,
    Closed,
    ComputeCut,
    ComputeEnded,
    ComputeStarted,
    Event,
    Opened,
    ServerEnded,
    ServerStarted,
    TransferCut,
    TransferEnded,
    TransferStarted,
    WentOff,
)

SERVER = "server"
FAMILIES = {"down": "download", "compute": "compute", "up": "upload", "server": SERVER}


@dataclass(frozen=True)
class Bar:
    """One activity of a device or the server; `start` and `stop` are in seconds of virtual time."""

    device: str
    what: str  # download | compute | upload | server | off
    start: float
    stop: float
    whole: bool = True
    detail: Mapping[str, float] = field(default_factory=dict, compare=False)  # bytes by kind, or seconds by phase


@dataclass
class Scene:
    """The activities of one round's devices and of the server; times are seconds of virtual time since the run
    began."""

    opened: float
    asked: Sequence[str]
    close: float | None = None
    closer: str | None = None  # the device whose reply was the last to count
    bars: list[Bar] = field(default_factory=list)
    under_way: dict[tuple[str, str], tuple[float, Mapping[str, float]]] = field(default_factory=dict)

    def begin(self, device: str, what: str, t: float, detail: Mapping[str, float] | None = None) -> None:
        self.under_way[device, what] = t, detail or {}

    def end(self, device: str, what: str, t: float, whole: bool) -> None:
        start, detail = self.under_way.pop((device, what), (None, {}))
        if start is not None:
            self.bars.append(Bar(device, what, start, t, whole, detail))


def scenes(events: Iterable[Event], wanted: Container[int]) -> dict[int, Scene]:
    """Returns the activities of each wanted round, by round; an activity without an end in the record is cut at the
    record's last event."""
    found: dict[int, Scene] = {}
    t = 0.0
    for event in events:
        t = event.t
        if isinstance(event, Opened) and event.round in wanted:
            found[event.round] = Scene(event.t, event.asked)
        if scene := found.get(version(event.round)):
            _read(scene, event)
    for scene in found.values():
        for device, what in list(scene.under_way):
            scene.end(device, what, t, False)
    return found


def _read(scene: Scene, event: Event) -> None:
    match event:
        case Asked():
            scene.asked = [*dict.fromkeys([*scene.asked, *event.asked])]
        case Closed():
            scene.close, scene.closer = event.t, event.own[-1] if event.own else None
        case WentOff():
            scene.begin(event.device, "off", event.t)
        case CameBack():
            scene.end(event.device, "off", event.t, True)
        case TransferStarted():
            scene.begin(event.device, FAMILIES[event.way], event.t, event.sizes)
        case TransferEnded() | TransferCut():
            scene.end(event.device, FAMILIES[event.way], event.t, isinstance(event, TransferEnded))
        case ComputeStarted():
            scene.begin(event.device, FAMILIES["compute"], event.t, event.seconds)
        case ComputeEnded() | ComputeCut():
            scene.end(event.device, FAMILIES["compute"], event.t, isinstance(event, ComputeEnded))
        case ServerStarted():
            scene.begin(SERVER, FAMILIES["server"], event.t, event.seconds)
        case ServerEnded():
            scene.end(SERVER, FAMILIES["server"], event.t, True)
