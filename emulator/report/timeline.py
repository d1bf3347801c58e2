"""What each device did in a chosen round: download, compute, upload, and when it was off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from emulator.record.events import (
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
from emulator.report import palette, rounds
from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, natural, table
from emulator.results import units
from emulator.results.results import Row, Runs

BARS = 15_000  # that a page holds
DEVICES = 60  # of a round that are shown
SERVER = "server"
FAMILIES = {"down": "download", "compute": "compute", "up": "upload", "server": SERVER}
Events = Callable[[str, int], Iterable[Event]]


@dataclass(frozen=True)
class Bar:
    """Something that a device did, in seconds after the round opened."""

    device: str
    what: str  # download | compute | upload | server | off
    start: float
    stop: float
    whole: bool = True


@dataclass
class Scene:
    """One round as its events tell it."""

    opened: float
    asked: Sequence[str]
    close: float | None = None
    closer: str | None = None  # whose reply was the last to count
    bars: list[Bar] = field(default_factory=list)
    under_way: dict[tuple[str, str], float] = field(default_factory=dict)

    def begin(self, device: str, what: str, t: float) -> None:
        self.under_way[device, what] = t - self.opened

    def end(self, device: str, what: str, t: float, whole: bool) -> None:
        start = self.under_way.pop((device, what), None)
        if start is not None:
            self.bars.append(Bar(device, what, start, t - self.opened, whole))


def scenes(events: Iterable[Event], wanted: set[int]) -> dict[int, Scene]:
    """The wanted rounds of a run; what is still under way when the record ends is cut there."""
    found: dict[int, Scene] = {}
    t = 0.0
    for event in events:
        t = event.t
        if event.round in wanted:
            _read(found, event)
    for scene in found.values():
        for device, what in list(scene.under_way):
            scene.end(device, what, t, False)
    return found


def _read(found: dict[int, Scene], event: Event) -> None:
    if isinstance(event, Opened):
        found[event.round] = Scene(event.t, event.asked)
    scene = found.get(event.round)
    if scene is None:
        return
    match event:
        case Closed():
            scene.close, scene.closer = event.t - scene.opened, event.counted[-1] if event.counted else None
        case WentOff():
            scene.begin(event.device, "off", event.t)
        case CameBack():
            scene.end(event.device, "off", event.t, True)
        case TransferStarted():
            scene.begin(event.device, FAMILIES[event.way], event.t)
        case TransferEnded() | TransferCut():
            scene.end(event.device, FAMILIES[event.way], event.t, isinstance(event, TransferEnded))
        case ComputeStarted():
            scene.begin(event.device, FAMILIES["compute"], event.t)
        case ComputeEnded() | ComputeCut():
            scene.end(event.device, FAMILIES["compute"], event.t, isinstance(event, ComputeEnded))
        case ServerStarted():
            scene.begin(SERVER, FAMILIES["server"], event.t)
        case ServerEnded():
            scene.end(SERVER, FAMILIES["server"], event.t, True)


def chosen(scene: Scene) -> list[str]:
    """The devices that are shown: all, or evenly spaced ones and the one whose reply closed the round."""
    names = sorted(scene.asked, key=natural)
    few = thinned(names, DEVICES - 1) if len(names) > DEVICES else names
    return sorted({*few, scene.closer} - {None}) if scene.closer else few


def kept(runs: Runs) -> dict[rounds.Run, list[Row]]:
    """The runs and rounds whose devices fit on the page; a part of those whose seconds do."""
    shown = rounds.kept(runs)
    most = BARS // max(1, len(shown))
    return {run: thinned(rows, _fitting(rows, most)) for run, rows in shown.items()}


def _fitting(rows: Sequence[Row], most: int) -> int:
    """How many of these rounds have at most so many bars in all."""
    bars: int = max(3 * min(row["asked"], DEVICES) + 3 for row in rows)
    return max(2, most // bars)


def figure(runs: Runs, events: Events) -> Figure | None:
    shown = kept(runs)
    if not shown:
        return None
    told = [scenes(events(*run), {row["round"] for row in rows}) for run, rows in shown.items()]
    listed = list(_listed(told))
    if not listed:
        return None
    unit = units.of_time(bar.stop for _, _, bar in listed)
    names = [*sorted({bar.device for _, _, bar in listed if bar.device != SERVER}, key=natural), SERVER]
    rows = [
        (run, round, bar.device, bar.what, bar.start / unit.size, bar.stop / unit.size, int(not bar.whole))
        for run, round, bar in listed
    ]
    closes = [
        (run, round, scene.close / unit.size)
        for run, found in enumerate(told)
        for round, scene in found.items()
        if scene.close is not None
    ]
    crowded = any(len(scene.asked) > DEVICES for found in told for scene in found.values())
    caption = (
        "From the opening of the round; faded with a dashed edge: cut before its end (the device went off, or the "
        "round was closed); the vertical line: the round is closed." + rounds.left_out(runs, shown)
    )
    caption += f" Of a round with more than {DEVICES} devices, {DEVICES} are shown." if crowded else ""
    most = max(len(chosen(scene)) + 1 for found in told for scene in found.values())
    chart = _chart(rows, closes, names, unit, most).add_params(
        alt.param(name="run", value=0), alt.param(name="round", value=rounds.first(shown))
    )
    description = "Devices of the chosen round, one row each: when each downloaded, computed, uploaded, or was off."
    return Figure("timeline", "Devices in the chosen round", caption, dressed(chart, "timeline", description))


def choices(runs: Runs) -> list[dict[str, Any]]:
    """What can be chosen: the name of each run on the page, and its rounds."""
    return [
        {"name": f"{label}, seed {seed}", "rounds": [row["round"] for row in rows]}
        for (label, seed), rows in kept(runs).items()
    ]


def _listed(told: Sequence[Mapping[int, Scene]]) -> Iterator[tuple[int, int, Bar]]:
    """Bars by run and round, each round's in the order of devices."""
    for run, found in enumerate(told):
        for round, scene in sorted(found.items()):
            names = {*chosen(scene), SERVER}
            bars = [bar for bar in scene.bars if bar.device in names]
            yield from ((run, round, bar) for bar in sorted(bars, key=lambda bar: (bar.device, bar.start, bar.what)))


def _chart(rows: Sequence[Any], closes: Sequence[Any], names: list[str], unit: units.Unit, most: int) -> alt.LayerChart:
    columns = {"run": "number", "round": "number", "device": "string", "what": "string"}
    columns |= {"start": "number", "stop": "number", "cut": "number"}
    here = "datum.run == run && datum.round == round"
    what = alt.Scale(domain=list(palette.WHAT), range=list(palette.WHAT.values()))
    bars = (
        table(columns, rows)
        .transform_filter(here)
        .transform_calculate(time="datum.stop - datum.start")
        .mark_bar(height=alt.RelativeBandSize(band=0.8), strokeWidth=1)
        .encode(
            y=alt.Y("device:N", title=None, sort=names),
            x=alt.X("start:Q", title=f"virtual time since the round opened, {unit.name}"),
            x2="stop:Q",
            fill=alt.Fill("what:N", scale=what),
            stroke=alt.Stroke("what:N", scale=what),
            fillOpacity=alt.condition("datum.cut == 1", alt.value(0.3), alt.value(1)),
            strokeDash=alt.condition("datum.cut == 1", alt.value([3, 2]), alt.value([1, 0])),
            tooltip=["device:N", "what:N"]
            + [alt.Tooltip(f"{name}:Q", title=f"{name}, {unit.name}", format=",.4~f") for name in ("start", "time")],
        )
    )
    close = (
        table({"run": "number", "round": "number", "close": "number"}, closes)
        .transform_filter(here)
        .mark_rule(color="#777777", strokeWidth=1.5)
        .encode(x="close:Q", tooltip=alt.Tooltip("close:Q", title=f"closed, {unit.name}", format=",.4~f"))
    )
    return alt.LayerChart(layer=[bars, close]).properties(height=18 * most)
