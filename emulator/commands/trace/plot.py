"""Pictures of traces: rates over time, and how long a payload takes from each start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from emulator.commands.trace.facts import MBIT, TraceFacts, between
from emulator.commands.trace.transfer import Transfers
from emulator.record.writing import replace_file
from emulator.report import drawing
from emulator.report.figure import table
from emulator.report.palette import COLOURS

WIDTH, HEIGHT = 760, 150
POINTS = 1500  # in a curve


def save(chart: Any, path: Path) -> None:
    spec = {**chart.to_dict(), "background": "white"}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".svg":
        replace_file(path, drawing.svg(spec))
    else:
        replace_file(path, drawing.png(spec, scale=2))


def rates(every: Sequence[TraceFacts]) -> Any:
    """A panel for each trace."""
    panels = [_rate(one, COLOURS[number % len(COLOURS)]) for number, one in enumerate(every)]
    return alt.VConcatChart(vconcat=panels).configure_view(stroke=None).configure_axis(gridOpacity=0.35)


def _rate(one: TraceFacts, colour: str) -> Any:
    count = max(1, min(POINTS, int(one.trace.period / one.step)))
    edges = np.linspace(0.0, one.trace.period, count + 1)
    values = between(one.trace, edges) / MBIT
    rows = zip(edges.tolist(), [*values.tolist(), float(values[-1])], strict=True)
    title = f"{Path(one.file).name}, {one.trace.direction} ({one.trace.kind})"
    return (
        table({"t": "number", "rate": "number"}, rows)
        .mark_area(interpolate="step-after", line={"color": colour, "strokeWidth": 1}, color=colour, opacity=0.25)
        .encode(x=alt.X("t:Q", title="s", scale=alt.Scale(nice=False)), y=alt.Y("rate:Q", title="Mbit/s"))
        .properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(title, anchor="start"))
    )


def durations(every: Sequence[Transfers], title: str) -> Any:
    """Two panels: seconds from each start, and the share of starts that took at most so long."""
    names = [one.trace.direction for one in every]
    colours = alt.Color(
        "way:N",
        scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])),
        legend=alt.Legend(orient="bottom", title=None),
    )
    seconds = alt.Y("taken:Q", title="seconds taken", scale=alt.Scale(zero=True))
    points = table({"way": "string", "start": "number", "taken": "number"}, _points(every))
    means = table(
        {"way": "string", "taken": "number"}, [(one.trace.direction, one.by_mean) for one in every if one.ended]
    )
    left = points.mark_line(point=True, strokeWidth=1).encode(
        x=alt.X("start:Q", title="start, s"), y=seconds, color=colours
    ) + means.mark_rule(strokeDash=[6, 3]).encode(y=seconds, color=colours)
    shares = table({"way": "string", "taken": "number", "share": "number"}, _shares(every))
    right = shares.mark_line(interpolate="step-after").encode(
        x=alt.X("taken:Q", title="seconds taken", scale=alt.Scale(zero=True)),
        y=alt.Y("share:Q", title="share of starts", scale=alt.Scale(domain=[0, 1])),
        color=colours,
    )
    panels = [part.properties(width=WIDTH // 2, height=2 * HEIGHT) for part in (left, right)]
    shown = alt.TitleParams(title, subtitle="dashed: bytes over the mean rate", anchor="start")
    return (
        alt.HConcatChart(hconcat=panels)
        .properties(title=shown)
        .configure_view(stroke=None)
        .configure_axis(gridOpacity=0.35)
    )


def _points(every: Sequence[Transfers]) -> Iterator[tuple[str, float, float]]:
    for one in every:
        ended = [pair for pair in zip(one.starts, one.taken, strict=True) if np.isfinite(pair[1])]
        yield from ((one.trace.direction, start, taken) for start, taken in ended)


def _shares(every: Sequence[Transfers]) -> Iterator[tuple[str, float, float]]:
    """Points of the share of starts that ended within a time; the curve stays below 1 if some never end."""
    for one in every:
        for number, taken in enumerate(sorted(one.ended), start=1):
            yield one.trace.direction, taken, number / len(one.taken)
