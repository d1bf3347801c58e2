"""A chart of each penalty's leverage by round: how far the penalty can hold back a model's weights; the largest value
over devices counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import altair as alt

from emulator.report import palette
from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, table, whole
from emulator.results.leverage import IDLE
from emulator.results.results import Row, Runs

MEASURES = ("median", "p99", "max")
NAMES = {"median": "median", "p99": "99th percentile", "max": "largest"}
POINTS = 3000


def of_rounds(seeds: Mapping[int, Sequence[Row]]) -> dict[int, dict[str, float]]:
    """Returns the leverage in each round that has a penalty: by round, counted from 1, the median over seeds of each
    measure in MEASURES."""
    found: dict[int, dict[str, list[float]]] = {}
    for rows in seeds.values():
        for row in rows:
            for measure in MEASURES:
                if measure in row["leverage"]:
                    values = found.setdefault(row["round"] + 1, {}).setdefault(measure, [])
                    values.append(row["leverage"][measure])
    return {round: {m: median(values) for m, values in of.items()} for round, of in sorted(found.items())}


def figure(runs: Runs) -> Figure | None:
    """Returns the chart of leverages; None if no algorithm has a penalty with a leverage above 0."""
    points = list(_points(runs))
    if not points:
        return None
    labels = [label for label in runs if any(point[0] == label for point in points)]
    colours = dict(zip(runs, palette.of_labels(list(runs)), strict=True))
    columns = {"label": "string", "measure": "string", "round": "number", "leverage": "number"}
    tips: list[str | alt.Tooltip] = ["label:N", "measure:N", "round:Q", alt.Tooltip("leverage:Q", format=".3~g")]
    base = table(columns, points).encode(
        x=alt.X("round:Q", title="round", axis=whole(max(p[2] for p in points)), scale=alt.Scale(zero=False)),
        y=alt.Y(
            "leverage:Q",
            title="leverage (log scale)",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~g", tickCount=6),
        ),
        color=alt.Color("label:N", scale=alt.Scale(domain=labels, range=[colours[label] for label in labels])),
        detail="measure:N",
        tooltip=tips,
    )
    dash = alt.StrokeDash(
        "measure:N",
        scale=alt.Scale(domain=list(NAMES.values()), range=[[2, 2], [1, 0], [7, 3]]),
        legend=alt.Legend(symbolType="stroke", symbolStrokeColor="#808080", symbolStrokeWidth=2, symbolSize=400),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
    idle = table({"leverage": "number"}, [(IDLE,)]).mark_rule(color="#777777", strokeDash=[3, 4])
    chart = alt.LayerChart(
        layer=[idle.encode(y="leverage:Q"), lines, base.mark_circle(size=20, aria=False)]
    ).properties(height=280)
    caption = (
        "Learning rate × steps × 2 × strength × importance, over a model’s coordinates; the largest over devices, "
        f"the median over seeds; 0 has no place on a log scale. With a 99th percentile below {IDLE:g} (dashed) "
        "the penalty cannot be seen."
    )
    description = f"Leverage of the penalties of {', '.join(labels)} by round, logarithmic."
    return Figure("leverage", "Leverage of each penalty", caption, dressed(chart, "leverage", description))


def _points(runs: Runs) -> Iterator[tuple[str, str, int, float]]:
    for label, seeds in runs.items():
        found = list(of_rounds(seeds).items())
        for round, values in thinned(found, POINTS // len(MEASURES) // len(runs)):
            yield from ((label, NAMES[m], round, value) for m, value in values.items() if value > 0)
