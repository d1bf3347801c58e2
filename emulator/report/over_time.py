"""Charts over virtual time: the share of devices online, and the rates that transfers achieved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

import altair as alt

from emulator.record.events import Event, TransferEnded, TransferStarted
from emulator.report import palette, rounds, timeline
from emulator.report.comparison import SideBySide
from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, table
from emulator.results import units
from emulator.results.results import Results
from emulator.results.summary import band
from scenarios.builders.machines import always_on, roster, unseen
from scenarios.text.faults import BadScenario

DEVICES = 200  # a sample of a large fleet
STEPS = 240  # points of a curve
WAYS = {"down": "download", "up": "upload"}
Moment = tuple[float, float]  # seconds, value


def availability(all_: SideBySide) -> Figure | None:
    """Returns the chart of the share of devices that are online over time; a sentence if all devices always are, or if
    their presence cannot be read; None if no round was played."""
    end = max((rows[-1]["time_s"] for seeds in all_.runs.values() for rows in seeds.values() if rows), default=0.0)
    if not end:
        return None
    come_and_go = {name: one for name, one in all_.sources.items() if not always_on(one.scenario)}
    title = "Devices online"
    if not come_and_go:
        return Figure("availability", title, "All devices were online all the time.")
    unit = units.of_time([end])
    try:
        rows = [(name, t / unit.size, share) for name, one in come_and_go.items() for t, share in _online(one, end)]
    except (BadScenario, ValueError) as error:
        return Figure("availability", title, f"When devices were online cannot be told: {error}")
    chart = (
        table({"fleet": "string", "t": "number", "share": "number"}, rows)
        .mark_line(interpolate="step-after", color="#777777", strokeWidth=1.8)
        .encode(
            x=alt.X("t:Q", title=f"virtual time, {unit.name}", scale=alt.Scale(nice=False)),
            y=alt.Y("share:Q", title="online, %", scale=alt.Scale(domain=[0, 100])),
            strokeDash=alt.StrokeDash("fleet:N", legend=alt.Legend() if len(come_and_go) > 1 else None),
            tooltip=["fleet:N", alt.Tooltip("t:Q", format=",.4~g"), alt.Tooltip("share:Q", title="%", format=".1f")],
        )
        .properties(height=140)
    )
    shares = [share for _, _, share in rows]
    caption = "The share of the fleet that is online, by the scenario; it is the same for all algorithms and seeds."
    if any(one.scenario.devices > DEVICES for one in come_and_go.values()):
        caption += f" {DEVICES} devices, evenly spaced, stand for all."
    description = f"Share of the fleet online over time: {min(shares):.0f} to {max(shares):.0f} %."
    return Figure("availability", title, caption, dressed(chart, "availability", description))


def _online(one: Results, end: float) -> Iterator[Moment]:
    devices, _ = unseen(one.scenario)
    there = [devices[name].presence for name in thinned(list(roster(one.scenario)), DEVICES)]
    for step in range(STEPS + 1):
        t = end * step / STEPS
        yield t, 100 * sum(each.on(t) for each in there) / len(there)


def rates(all_: SideBySide) -> Figure | None:
    """Returns the chart of the rates of transfers over time, for the run that the reader chooses on the page; None if
    nothing was transferred."""
    unit = timeline.unit_of(all_.runs) if any(map(any, map(dict.values, map(dict, all_.runs.values())))) else None
    shown = rounds.kept(all_.runs)
    if unit is None or not shown:
        return None
    rows = [
        (run, WAYS[way], t / unit.size, *spread)
        for run, each in enumerate(shown)
        for way, found in _achieved(all_.events(*each)).items()
        for t, *spread in _binned(found, STEPS * 8 // len(shown))
    ]
    if not rows:
        return None
    columns = {"run": "number", "way": "string"} | dict.fromkeys(("t", "low", "median", "high"), "number")
    ways = [way for way in WAYS.values() if any(row[1] == way for row in rows)]
    colour = alt.Color(
        "way:N",
        scale=alt.Scale(domain=ways, range=[palette.WHAT[way] for way in ways]),
        legend=alt.Legend(symbolOpacity=1),
    )
    title, axis = "achieved, Mbit/s (log scale)", alt.Axis(format="~g", tickCount=5)
    y = alt.Y("median:Q", title=title, scale=alt.Scale(type="log"), axis=axis)
    tips = ["way:N", alt.Tooltip("t:Q", title=f"time, {unit.name}", format=",.4~g")]
    tips += [alt.Tooltip(f"{name}:Q", title=f"{name}, Mbit/s", format=".3~g") for name in ("low", "median", "high")]
    base = (
        table(columns, rows)
        .transform_filter("datum.run == run")
        .encode(x=alt.X("t:Q", title=f"virtual time, {unit.name}", scale=alt.Scale(nice=False)), color=colour)
    )
    chart = alt.LayerChart(
        layer=[
            base.mark_rule(strokeWidth=3, opacity=0.35).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
            base.mark_point(filled=True, size=26, opacity=1).encode(y=y, tooltip=tips),
        ]
    ).properties(height=200)
    caption = (
        "Of the run that is chosen above: bytes of messages over the seconds in which they flowed, without set-up, of "
        "all transfers that ended in the same stretch of time. Point: the median; bar: lowest to highest, from 5 "
        "transfers on the quartiles." + rounds.left_out(all_.runs, shown)
    )
    description = "Achieved rates of downloads and uploads over time, of the chosen run."
    chart = chart.add_params(alt.param(name="run", value=0))
    return Figure("rates", "Rates of links", caption, dressed(chart, "rates", description))


def _achieved(events: Iterable[Event]) -> dict[str, list[Moment]]:
    """Returns, by way (down or up), the end in s and the rate in Mbit/s of each completed transfer."""
    begun: dict[tuple[str, str], TransferStarted] = {}
    found: dict[str, list[Moment]] = {way: [] for way in WAYS}
    for event in events:
        match event:
            case TransferStarted():
                begun[event.device, event.way] = event
            case TransferEnded():
                start = begun.pop((event.device, event.way), None)
                seconds = event.t - start.t - start.setup if start else 0.0
                if start and seconds > 0:
                    found[event.way].append((event.t, 8e-6 * start.nbytes / seconds))
    return found


def _binned(found: list[Moment], most: int) -> Iterator[tuple[float, float, float, float]]:
    """Divides time into about `most` intervals, and yields for each that has transfers: the median of their ends in s;
    and low, median and high of their rates in Mbit/s."""
    if not found:
        return
    width = max(t for t, _ in found) / max(1, min(most, STEPS // 4))
    stretches: dict[int, list[Moment]] = {}
    for moment in found:
        stretches.setdefault(int(moment[0] / width), []).append(moment)
    for _, moments in sorted(stretches.items()):
        low, middle, high = band([rate for _, rate in moments])
        yield median(t for t, _ in moments), low, middle, high
