"""A chart with a row for each device: its downloads, computing, uploads and absences over time, in the run that the
reader chooses on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from emulator.record.events import Event
from emulator.report import palette, rounds
from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, natural, table
from emulator.report.rounds import DEVICES
from emulator.report.scenes import SERVER, Bar, Scene, scenes
from emulator.results import units
from emulator.results.results import Row, Runs

Events = Callable[[str, int], Iterable[Event]]


def chosen(told: Mapping[int, Scene]) -> list[str]:
    """Returns the names of the devices to show for a run: all that were asked, if they are at most DEVICES.

    Otherwise evenly spaced ones, and one device whose reply closed a round.  `told`: the run's activities by round.
    """
    names = sorted({name for scene in told.values() for name in scene.asked}, key=natural)
    if len(names) <= DEVICES:
        return names
    closer = next((scene.closer for scene in told.values() if scene.closer), names[0])
    return sorted({*thinned(names, DEVICES - 1), closer}, key=natural)


def kept(runs: Runs) -> dict[rounds.Run, list[Row]]:
    """Returns the rounds whose bars of devices fit on the page, by run: those of `rounds.kept`, thinned out if they are
    too many."""
    shown = rounds.kept(runs)
    most = rounds.POINTS // max(1, len(shown))
    return {run: thinned(rows, max(2, most // max(map(rounds.bars, rows)))) for run, rows in shown.items()}


def unit_of(runs: Runs) -> units.Unit:
    return units.of_time(rows[-1]["time_s"] for rows in kept(runs).values())


def figure(runs: Runs, events: Events) -> Figure | None:
    shown = kept(runs)
    if not shown:
        return None
    told = [scenes(events(*run), {row["round"] for row in rows}) for run, rows in shown.items()]
    names = [chosen(found) for found in told]
    asked = [{name for scene in found.values() for name in scene.asked} for found in told]
    bars = [(run, round, bar) for run, found in enumerate(told) for round, bar in _listed(found, names[run])]
    if not bars:
        return None
    unit = unit_of(runs)
    rows = [
        (run, round + 1, bar.device, bar.what, bar.start / unit.size, bar.stop / unit.size, int(not bar.whole))
        for run, round, bar in bars
    ]
    closes = [
        (run, round + 1, scene.close / unit.size)
        for run, found in enumerate(told)
        for round, scene in found.items()
        if scene.close is not None
    ]
    caption = (
        "All rounds of the run that is chosen above. Drag to move; Shift and the wheel to zoom, or choose a round; a "
        "double click shows all again. Vertical lines: a round is closed." + rounds.left_out(runs, shown)
    )
    if not all(bar.whole for _, _, bar in bars):
        caption += " Faded with a dashed edge: cut before its end (the device went off, or the round was closed)."
    if any(len(those) > len(few) for those, few in zip(asked, names, strict=True)):
        caption += f" Of more than {DEVICES} devices, {DEVICES} are shown."
    order = [*sorted({bar.device for _, _, bar in bars if bar.device != SERVER}, key=natural), SERVER]
    chart = _chart(rows, closes, order, unit, max(map(len, names)) + 1)
    description = "Devices of the chosen run, one row each: when each downloaded, computed, uploaded, or was off."
    return Figure("timeline", "Devices over time", caption, dressed(chart, "timeline", description))


def choices(runs: Runs) -> list[dict[str, Any]]:
    """Returns the page's menu of runs: for each run its name, the numbers of its rounds, from 1, and the times at which
    each round begins and ends, in the chart's unit."""
    unit = unit_of(runs)
    made = []
    for (label, seed), rows in kept(runs).items():
        ends = {row["round"]: float(row["time_s"]) for row in runs[label][seed]}
        spans = [[ends.get(row["round"] - 1, 0.0) / unit.size, row["time_s"] / unit.size] for row in rows]
        made.append({"name": f"{label}, seed {seed}", "rounds": [row["round"] + 1 for row in rows], "spans": spans})
    return made


def _listed(told: Mapping[int, Scene], names: Sequence[str]) -> Iterator[tuple[int, Bar]]:
    """Yields each round's number with each of its bars, sorted by device; only for the named devices and the server."""
    shown = {*names, SERVER}
    for round, scene in sorted(told.items()):
        bars = [bar for bar in scene.bars if bar.device in shown and bar.stop > bar.start]
        yield from ((round, bar) for bar in sorted(bars, key=lambda bar: (bar.device, bar.start, bar.what)))


def _chart(rows: Sequence[Any], closes: Sequence[Any], names: list[str], unit: units.Unit, most: int) -> alt.LayerChart:
    columns = {"run": "number", "round": "number", "device": "string", "what": "string"}
    columns |= {"start": "number", "stop": "number", "cut": "number"}
    seen = {row[3] for row in rows}
    shades = {what: shade for what, shade in palette.WHAT.items() if what in seen}
    what = alt.Scale(domain=list(shades), range=list(shades.values()))
    title = f"virtual time, {unit.name}"
    bars = (
        table(columns, rows)
        .transform_filter("datum.run == run")
        .transform_calculate(time="datum.stop - datum.start")
        .mark_bar(height=alt.RelativeBandSize(band=0.8), strokeWidth=0.6, clip=True)
        .encode(
            y=alt.Y("device:N", title=None, sort=names),
            x=alt.X("start:Q", title=title, scale=alt.Scale(nice=False)),
            x2="stop:Q",
            fill=alt.Fill("what:N", scale=what),
            stroke=alt.Stroke("what:N", scale=what),
            fillOpacity=alt.condition("datum.cut == 1", alt.value(0.3), alt.value(1)),
            strokeDash=alt.condition("datum.cut == 1", alt.value([3, 2]), alt.value([1, 0])),
            tooltip=["device:N", "round:O", "what:N"]
            + [alt.Tooltip(f"{name}:Q", title=f"{name}, {unit.name}", format=",.5~g") for name in ("start", "time")],
        )
    )
    close = (
        table({"run": "number", "round": "number", "close": "number"}, closes)
        .transform_filter("datum.run == run")
        .mark_rule(color="#777777", strokeWidth=0.8, opacity=0.6, clip=True)
        .encode(x="close:Q", tooltip=["round:O", alt.Tooltip("close:Q", title=f"closed, {unit.name}", format=",.5~g")])
    )
    zoom = alt.selection_interval(
        name="zoom", bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]", clear="dblclick"
    )
    return (
        alt.LayerChart(layer=[bars.add_params(zoom), close])
        .properties(height=16 * most)
        .add_params(alt.param(name="run", value=0))
    )
