"""Charts of accuracy, or the task's first metric, against virtual time, rounds or bytes: a line for each seed, or for
five or more seeds one line of
their median with a band of their quartiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import altair as alt

from emulator.record.targets import Target, value_of
from emulator.report import palette
from emulator.report.curves import Curve, Point, merged, thinned
from emulator.report.figure import Chart, Figure, dressed, table, whole
from emulator.report.times import hardest
from emulator.results import units
from emulator.results.results import Row, Runs
from emulator.results.summary import FEW, round_bytes
from scenarios.schema.task import CLASSES, Task

POINTS = 1600  # points in a chart, at most; a screen has fewer columns
DOTS = 40  # points up to which each one is marked
STORY = 1.3  # times the slowest mean time to the last reached target: the end of the axis
Along = Callable[[Sequence[Row]], Sequence[float]]
Line = tuple[str, str, float, float, float, float, int]  # label, seed, x, accuracy, low, high, seeds


@dataclass(frozen=True)
class CurveAxis:
    """The horizontal axis of a chart of accuracy: virtual time, rounds or bytes."""

    name: str  # name of the figure
    title: str
    measure: str  # name of the measure in a summary's targets
    along: Along
    unit: Callable[[Iterator[float]], units.Unit]


TIME = CurveAxis("accuracy-time", "virtual time", "time_s", lambda rows: [row["time_s"] for row in rows], units.of_time)
ROUNDS = CurveAxis(
    "accuracy-rounds",
    "rounds",
    "rounds",
    lambda rows: [row["round"] + 1 for row in rows],
    lambda _: units.Unit("", 1.0),
)
BYTES = CurveAxis(
    "accuracy-bytes",
    "bytes sent, both ways",
    "bytes",
    lambda rows: list(accumulate(map(round_bytes, rows))),
    units.of_bytes,
)


def curve(rows: Sequence[Row], along: Along, metric: str = "accuracy") -> Curve:
    """Returns the metric of one seed along an axis; rounds without an evaluation are left out.

    `along`: returns each row's place on the axis, in seconds, rounds or bytes.
    """
    places = along(rows)
    known = [(x, y) for x, row in zip(places, rows, strict=True) if (y := value_of(row, metric)) is not None]
    return Curve([x for x, _ in known], [y for _, y in known], places[-1] if places else 0.0)


def figure(
    axis: CurveAxis,
    runs: Runs,
    summary: Mapping[str, Any],
    targets: Sequence[Target],
    points: int = POINTS,
    task: Task = CLASSES,
) -> Figure | None:
    """Returns the chart of the task's first metric along an axis, with at most `points` points; None if no round was
    evaluated."""
    lines = list(_lines(axis, runs, points, task.main))
    if not lines:
        return None
    targets = [target for target in targets if target.metric == task.main]
    end = max(line[2] for line in lines)
    unit = axis.unit(iter([end]))
    story = _story(axis, summary, targets, end)
    marks = [
        (label, entry[axis.measure]["mean"] / unit.size, target.value)
        for target in targets
        for label, said in summary["labels"].items()
        if (entry := said["targets"].get(target.name)) and _everybody(entry)
    ]
    title = f"{task.main.capitalize()} against {axis.title}"
    shown = f"{axis.title}, {unit.name}" if unit.name else axis.title
    scaled = [(*line[:2], line[2] / unit.size, *line[3:]) for line in lines]
    chart = _chart(scaled, marks, list(runs), shown, (story / unit.size, end / unit.size), targets, task)
    labels = list(dict.fromkeys(line[0] for line in lines))
    last = {label: max((x, y) for name, _, x, y, *_ in lines if name == label)[1] for label in labels}
    ends = (f"{label} ends at {accuracy:.3f}." for label, accuracy in last.items())
    description = f"{title}; lines of {', '.join(labels)}. {' '.join(ends)}"
    return Figure(axis.name, title, _caption(axis, runs, marks, targets), dressed(chart, axis.name, description))


def _lines(axis: CurveAxis, runs: Runs, most: int, metric: str) -> Iterator[Line]:
    """Yields the points of the lines, at most `most`: for an algorithm with fewer than five seeds a line for each seed,
    else one line of their median, with low and high quartiles."""
    for label, seeds in runs.items():
        curves = {seed: curve(rows, axis.along, metric) for seed, rows in seeds.items()}
        if len(seeds) >= FEW:
            for p in thinned(_common(merged(list(curves.values()))), most // len(runs)):
                yield label, "median", p.x, p.median, p.low, p.high, p.seeds
            continue
        for seed, of in curves.items():
            there = [(x, y) for x, y in zip(of.x, of.y, strict=True)]
            there += [(of.end, of.y[-1])] if there and of.end > of.x[-1] else []
            for x, y in thinned(there, most // len(runs) // len(seeds)):
                yield label, str(seed), x, y, y, y, 1


def _common(points: Sequence[Point]) -> Sequence[Point]:
    """Returns the points at which all seeds have a value; if there are none, all points.

    The other points are left out, because the median jumps where a seed ends.
    """
    return [point for point in points if point.seeds == point.of] or points


def _story(axis: CurveAxis, summary: Mapping[str, Any], targets: Sequence[Target], end: float) -> float:
    """Returns the end of the axis that the chart shows at first, in seconds, rounds or bytes.

    It is STORY times the largest mean at which an algorithm reached the hardest target, or `end`, the end of all runs,
    if that is less or some seed missed the target.
    """
    target = hardest(summary, targets)
    if target is None:
        return end
    known = [said["targets"].get(target.name) for said in summary["labels"].values()]
    means: list[Any] = [entry[axis.measure]["mean"] if entry and _everybody(entry) else None for entry in known]
    return end if None in means else min(end, STORY * max(means))


def _everybody(entry: Mapping[str, Any]) -> bool:
    """Returns True if all seeds reached the target, so that their mean is not cut off at the horizon.

    `entry`: a summary's entry of an algorithm and a target.
    """
    return bool(entry["reached"] == entry["of"] and entry["time_s"]["mean"] is not None)


def _chart(
    lines: Sequence[Line],
    marks: Sequence[tuple[str, float, float]],
    labels: list[str],
    axis: str,
    ends: tuple[float, float],
    targets: Sequence[Target],
    task: Task,
) -> Chart:
    columns = {"label": "string", "seed": "string"} | dict.fromkeys(("x", "accuracy", "low", "high", "seeds"), "number")
    story, end = ends
    scale = alt.Scale(nice=False, zero=True, domainMin=0, domainMax=alt.ExprRef(f"whole ? {end:.6g} : {story:.6g}"))
    ticks = whole(story) if axis == "rounds" else alt.Axis()
    x = alt.X("x:Q", title=axis, scale=scale, axis=ticks)
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, symbolSize=300)
    domain = alt.Scale(domain=labels, range=palette.of_labels(labels))
    colour = alt.Color("label:N", scale=domain, legend=legend)
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=palette.dashes(labels)), legend=legend)
    base = table(columns, lines).encode(x=x)
    scale = alt.Scale(domain=[0, 1]) if task.is_share(task.main) else alt.Scale(zero=False)
    accuracy = alt.Y("accuracy:Q", title=f"{task.main} on the test set", scale=scale)
    medians = any(line[1] == "median" for line in lines)
    few = len(lines) <= DOTS * len({line[:2] for line in lines})
    band = base.mark_area(opacity=0.18, interpolate="step-after", clip=True).encode(
        y=alt.Y("low:Q", title=f"{task.main} on the test set"), y2="high:Q", color=colour, detail="seed:N"
    )
    chart = alt.LayerChart(
        layer=[
            *([band] if medians else []),
            base.mark_line(interpolate="step-after", strokeWidth=2.2 if medians else 1.3, clip=True).encode(
                y=accuracy, color=colour, strokeDash=dash, detail="seed:N"
            ),
            base.mark_circle(size=22, opacity=0.8 if few else 0, aria=False, clip=True).encode(
                y=accuracy, color=colour, tooltip=_tips(axis, task.main)
            ),
            *_rules(targets),
            *_diamonds(marks, x, colour, axis),
        ]
    ).properties(height=300)
    check = alt.binding_checkbox(name="to the end of all runs ") if story < end else alt.Undefined
    return chart.add_params(alt.param(name="whole", value=False, bind=check))


def _diamonds(marks: Sequence[Any], x: alt.X, colour: alt.Color, axis: str) -> Iterator[alt.Chart]:
    """Yields a layer with a diamond for each algorithm and target at the mean that the report's table shows."""
    if marks:
        tips = ["label:N", alt.Tooltip("x:Q", title=axis, format=",.4~g")]
        yield (
            table({"label": "string", "x": "number", "value": "number"}, marks)
            .mark_point(shape="diamond", filled=True, size=120, opacity=1, stroke="white", strokeWidth=1)
            .encode(x=x, y="value:Q", color=colour, tooltip=tips)
        )


def _tips(axis: str, metric: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("label:N", title="algorithm"),
        alt.Tooltip("seed:N", title="seed"),
        alt.Tooltip("x:Q", title=axis, format=",.4~g"),
        alt.Tooltip("accuracy:Q", title=metric, format=".3f"),
        *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high")),
        alt.Tooltip("seeds:Q", title="seeds"),
    ]


def _rules(targets: Sequence[Target]) -> Iterator[alt.Chart]:
    """Yields two layers: a dashed line at each target, and the numbers of these lines."""
    values = sorted({target.value for target in targets})
    if values:
        base = table({"value": "number"}, [(value,) for value in values]).encode(y="value:Q")
        yield base.mark_rule(strokeDash=[3, 4], color="#777777")
        yield base.mark_text(align="left", baseline="bottom", dx=4, dy=-2, fontSize=11).encode(
            x=alt.value(0), text=alt.Text("value:Q", format="~g")
        )


def _caption(axis: CurveAxis, runs: Runs, marks: Sequence[Any], targets: Sequence[Target]) -> str:
    counts = {len(seeds) for seeds in runs.values()}
    said = []
    if min(counts) < FEW:
        said.append("A thin line for each seed." if max(counts) > 1 else "One seed.")
    if max(counts) >= FEW:
        said.append("Line: the median over seeds, as long as all were played; band: the quartiles.")
    said.append("A value holds until the next evaluation.")
    if axis is ROUNDS and any("stale" in row for seeds in runs.values() for rows in seeds.values() for row in rows[:1]):
        said.append("Rounds of asynchronous runs are versions of the model, of fewer replies each.")
    if targets:
        said.append("Dashed: the targets." + (" Diamonds: the means of the table." if marks else ""))
    return " ".join(said)
