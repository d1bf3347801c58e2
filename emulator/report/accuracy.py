"""Accuracy against virtual time, rounds and bytes: the median over seeds, and a band."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

import altair as alt

from emulator.record.targets import Target
from emulator.report import palette
from emulator.report.curves import Curve, Point, merged, thinned
from emulator.report.figure import Chart, Figure, dressed, table, whole
from emulator.results import units
from emulator.results.results import Row, Runs
from emulator.results.summary import round_bytes

POINTS = 2500  # a chart: more than a screen has columns for ten algorithms
DOTS = 40  # points of a curve up to which each is marked
Along = Callable[[Sequence[Row]], Sequence[float]]


def against_time(runs: Runs, targets: Sequence[Target], points: int = POINTS) -> Figure | None:
    """At most so many points in all."""
    unit = units.of_time(x for _, x in _places(runs, _times))
    return _figure("accuracy-time", "virtual time", runs, targets, _times, unit, points)


def against_rounds(runs: Runs, targets: Sequence[Target]) -> Figure | None:
    return _figure("accuracy-rounds", "rounds", runs, targets, _rounds, units.Unit("", 1.0))


def against_bytes(runs: Runs, targets: Sequence[Target]) -> Figure | None:
    unit = units.of_bytes(x for _, x in _places(runs, _bytes))
    return _figure("accuracy-bytes", "bytes sent, both ways", runs, targets, _bytes, unit)


def curve(rows: Sequence[Row], along: Along) -> Curve:
    """One seed's accuracy; rounds without an evaluation change nothing."""
    places = along(rows)
    known = [(x, row["accuracy"]) for x, row in zip(places, rows, strict=True) if row["accuracy"] is not None]
    return Curve([x for x, _ in known], [y for _, y in known], places[-1] if places else 0.0)


def _times(rows: Sequence[Row]) -> Sequence[float]:
    return [row["time_s"] for row in rows]


def _rounds(rows: Sequence[Row]) -> Sequence[float]:
    return [row["round"] + 1 for row in rows]


def _bytes(rows: Sequence[Row]) -> Sequence[float]:
    return list(accumulate(map(round_bytes, rows)))


def _places(runs: Runs, along: Along) -> Iterator[tuple[str, float]]:
    for label, seeds in runs.items():
        for rows in seeds.values():
            yield from ((label, x) for x in along(rows)[-1:])


def _figure(
    name: str,
    axis: str,
    runs: Runs,
    targets: Sequence[Target],
    along: Along,
    unit: units.Unit,
    most: int = POINTS,
) -> Figure | None:
    """None if nothing was evaluated."""
    curves = {label: merged([curve(rows, along) for rows in seeds.values()]) for label, seeds in runs.items()}
    curves = {label: thinned(points, most // len(runs)) for label, points in curves.items() if points}
    if not curves:
        return None
    counts = {len(seeds) for seeds in runs.values()}
    title = f"Accuracy against {axis}"
    chart = _chart(curves, list(runs), f"{axis}, {unit.name}" if unit.name else axis, unit.size, targets)
    description = f"{title}; one line for each of {', '.join(curves)}. " + " ".join(_ends(curves))
    return Figure(name, title, _caption(counts, targets), dressed(chart, name, description))


def _chart(
    curves: Mapping[str, Sequence[Point]], labels: list[str], axis: str, size: float, targets: Sequence[Target]
) -> Chart:
    columns = {"label": "string"} | dict.fromkeys(("x", "median", "low", "high", "seeds", "of"), "number")
    rows = [(label, p.x / size, p.median, p.low, p.high, p.seeds, p.of) for label, ps in curves.items() for p in ps]
    ticks = whole(max(p.x for ps in curves.values() for p in ps)) if axis == "rounds" else alt.Axis()
    x = alt.X("x:Q", title=axis, scale=alt.Scale(nice=False, zero=True), axis=ticks)
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, symbolSize=300)
    colour = alt.Color("label:N", scale=alt.Scale(domain=labels, range=palette.of_labels(labels)), legend=legend)
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=palette.dashes(labels)), legend=legend)
    base = table(columns, rows).encode(x=x)
    accuracy = alt.Y("median:Q", title="accuracy on the test set", scale=alt.Scale(domain=[0, 1]))
    few = max(map(len, curves.values())) <= DOTS
    bold = (
        base.transform_filter("2 * datum.seeds > datum.of")
        .mark_line(interpolate="step-after", strokeWidth=2.2)
        .encode(y=accuracy, color=colour, strokeDash=dash)
    )
    return alt.LayerChart(
        layer=[
            base.mark_area(opacity=0.18, interpolate="step-after").encode(
                y=alt.Y("low:Q", title="accuracy on the test set"), y2="high:Q", color=colour
            ),
            base.mark_line(interpolate="step-after", strokeWidth=1, opacity=0.6).encode(y=accuracy, color=colour),
            *([bold] if any(2 * p.seeds > p.of for points in curves.values() for p in points) else []),
            base.mark_circle(size=28, opacity=1 if few else 0, aria=False).encode(
                y=accuracy, color=colour, tooltip=_tips(axis)
            ),
            *_lines(targets),
        ]
    ).properties(height=300)


def _tips(axis: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("label:N", title="algorithm"),
        alt.Tooltip("x:Q", title=axis, format=",.4~g"),
        *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "low", "high")),
        alt.Tooltip("seeds:Q", title="seeds"),
    ]


def _lines(targets: Sequence[Target]) -> Iterator[alt.Chart]:
    """A dashed line at every accuracy that is aimed at."""
    values = sorted({target.value for target in targets if target.metric == "accuracy"})
    if values:
        base = table({"value": "number"}, [(value,) for value in values]).encode(y="value:Q")
        yield base.mark_rule(strokeDash=[3, 4], color="#777777")
        yield base.mark_text(align="left", baseline="bottom", dx=4, dy=-2, fontSize=11).encode(
            x=alt.value(0), text=alt.Text("value:Q", format="~g")
        )


def _caption(counts: set[int], targets: Sequence[Target]) -> str:
    if counts <= {0, 1}:
        seeds = "One seed."
    elif max(counts) < 5:
        seeds = "Line: the median over seeds; band: lowest to highest seed."
    else:
        seeds = "Line: the median over seeds; band: from 5 seeds on the quartiles, below that lowest to highest."
    thin = " (thin line: no more than half of the seeds have one)" if max(counts) > 1 else ""
    dashed = " Dashed: the targets." if any(target.metric == "accuracy" for target in targets) else ""
    return (
        f"{seeds} A model counts until the next one is evaluated; a seed has no value before its first evaluation "
        f"and after its end{thin}.{dashed}"
    )


def _ends(curves: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    for label, points in curves.items():
        yield f"{label} ends at {points[-1].median:.3f}."
