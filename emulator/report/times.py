"""A chart of when each algorithm reached the target, seed by seed: the first picture of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

import altair as alt

from emulator.record.targets import Target
from emulator.report import palette
from emulator.report.critical import unit_of
from emulator.report.figure import Figure, dressed, height, table
from emulator.results import units
from emulator.results.resampling import interval
from emulator.results.results import Runs
from emulator.results.summary import FEW

SHAPES = {"reached": "circle", "ended without": "triangle-right"}
ROOM = 1.6  # times the last mark, which leaves room for its number
Entries = Mapping[str, Mapping[str, Any]]  # the entries of a target, by label


def hardest(summary: Mapping[str, Any], targets: Sequence[Target]) -> Target | None:
    """Returns the hardest target that any seed reached, which is the one of the verdict; None if none was reached."""
    ordered = sorted(targets, key=lambda target: target.hardness, reverse=True)
    return next((each for each in ordered if any(entry["reached"] for entry in _of(summary, each).values())), None)


def order(runs: Runs, summary: Mapping[str, Any], target: Target | None) -> list[str]:
    """Returns the labels of the runs in the order of the charts' rows: by mean time to the target, and those whose time
    is not known last."""
    found = _of(summary, target) if target else {}
    means = {label: entry["time_s"]["mean"] for label, entry in found.items() if entry["reached"]}
    return sorted(runs, key=lambda label: means.get(label) or inf)


def figure(runs: Runs, summary: Mapping[str, Any], target: Target) -> Figure:
    """Returns the chart of times to the target, with a row for each algorithm and a dot for each seed; a seed that
    missed the target is marked at the end of its run."""
    known, unit = _of(summary, target), unit_of(runs, target)
    entries = {label: known[label] for label in order(runs, summary, target) if label in known}
    dots = [
        (label, seed, at["time_s"] if at else _end(runs, label, seed), [*SHAPES][at is None])
        for label, entry in entries.items()
        for seed, at in sorted(entry["seeds"].items(), key=lambda each: int(each[0]))
    ]
    shown = {label: [t for name, _, t, _ in dots if name == label] for label in entries}
    middles = [_middle(label, entry, shown[label], unit) for label, entry in entries.items()]
    scaled = [(label, seed, t / unit.size, fate) for label, seed, t, fate in dots]
    chart = _chart(scaled, middles, list(runs), order(runs, summary, target), unit)
    described = "; ".join(f"{label}: {text}" for label, *_, text in middles)
    description = f"Virtual time until {target.name} was reached, a row for each algorithm. Mean: {described}."
    rows = [
        (
            label,
            text,
            ", ".join(
                f"{seed}: {unit.show(at['time_s']) if at else units.NONE}"
                for seed, at in entries[label]["seeds"].items()
            ),
        )
        for label, *_, text in middles
    ]
    headings = ("algorithm", "mean", f"each seed, {unit.name}")
    return Figure(
        "times",
        f"Time to {target.name}",
        _caption(entries, middles),
        dressed(chart, "times", description),
        headings,
        rows,
    )


def end(runs: Runs, summary: Mapping[str, Any], target: Target) -> float:
    """Returns the end of the time axis, s, which this chart shares with the chart of the critical path next to it."""
    entries = _of(summary, target)
    return ROOM * max(
        _last(entry, [at["time_s"] if at else _end(runs, label, seed) for seed, at in entry["seeds"].items()])
        for label, entry in entries.items()
    )


def _of(summary: Mapping[str, Any], target: Target) -> Entries:
    """Returns the summary's entries for this target, by label."""
    labels = summary["labels"].items()
    return {label: said["targets"][target.name] for label, said in labels if target.name in said["targets"]}


def _end(runs: Runs, label: str, seed: str) -> float:
    rows = runs[label][int(seed)]
    return float(rows[-1]["time_s"]) if rows else 0.0


def _middle(label: str, entry: Mapping[str, Any], shown: Sequence[float], unit: units.Unit) -> tuple[Any, ...]:
    """Returns an algorithm's row: label, place of the text, mean, low and high of its interval, text.

    Places are in `unit`; "" stands for an unknown value.  `shown`: the times of its dots, s.
    """
    mean, ends = entry["time_s"]["mean"], _ends(entry)
    cut = entry["reached"] < entry["of"]
    if entry["reached"] and mean:
        text = f"{'≥ ' if cut else ''}{unit.full(mean)}"
    else:
        mean, text = None, f"{entry['reached']} of {entry['of']} seeds"
    places = ("" if place is None else place / unit.size for place in (mean, *(ends or (None, None))))
    return (label, _last(entry, shown) / unit.size, *places, text)


def _ends(entry: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the 95 % interval of the mean time, s; None if there are fewer than five seeds, or one missed the
    target."""
    times = [at and at["time_s"] for at in entry["seeds"].values()]
    found = interval([times], (1,)) if len(times) >= FEW and None not in times else None
    return (found.low, found.high) if found else None


def _last(entry: Mapping[str, Any], shown: Sequence[float]) -> float:
    """Returns the place of the rightmost mark in an algorithm's row, s."""
    ends = _ends(entry)
    return max([*shown, ends[1] if ends else 0.0])


def _chart(
    dots: Sequence[Any], middles: Sequence[Any], labels: list[str], ordered: list[str], unit: units.Unit
) -> alt.LayerChart:
    """`labels`: of the colours.  `ordered`: the same, of the rows."""
    title = f"virtual time, {unit.name}"
    scale = alt.Scale(domain=[0, ROOM * max(middle[1] for middle in middles)], nice=False)
    y = alt.Y("label:N", title=None, scale=alt.Scale(domain=ordered))
    colour = alt.Color("label:N", scale=alt.Scale(domain=labels, range=palette.of_labels(labels)), legend=None)
    columns = {"label": "string"} | dict.fromkeys(("last", "mean", "low", "high"), "number") | {"text": "string"}
    several = len({seed for _, seed, *_ in dots}) > 1
    named = [(*middle[:-1], f"mean {middle[-1]}" if several and middle[2] != "" else middle[-1]) for middle in middles]
    middle = table(columns, named).encode(y=y)
    each = table({"label": "string", "seed": "string", "time": "number", "fate": "string"}, dots)
    fates = [fate for fate in SHAPES if any(dot[3] == fate for dot in dots)]
    shape = alt.Shape(
        "fate:N",
        scale=alt.Scale(domain=fates, range=[SHAPES[fate] for fate in fates]),
        legend=alt.Legend() if fates[1:] else None,
    )
    x = alt.X("time:Q", title=title, scale=scale)
    tips = ["label:N", "seed:N", "fate:N", alt.Tooltip("time:Q", title=title, format=",.4~g")]
    return alt.LayerChart(
        layer=[
            middle.transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=7, opacity=0.3)
            .encode(x=alt.X("low:Q", title=title, scale=scale), x2="high:Q", color=colour),
            each.mark_point(filled=True, size=70, opacity=0.9).encode(
                x=x, y=y, color=colour, shape=shape, tooltip=tips
            ),
            middle.transform_filter("isValid(datum.mean)")
            .mark_tick(thickness=3, size=26, opacity=1)
            .encode(x=alt.X("mean:Q", title=title, scale=scale), color=colour),
            middle.mark_text(align="left", dx=8, fontSize=12, fontWeight="bold").encode(
                x=alt.X("last:Q", title=title, scale=scale), text="text:N"
            ),
        ]
    ).properties(height=height(len(labels)))


def _caption(entries: Entries, middles: Iterable[Sequence[Any]]) -> str:
    means, lows = zip(*((mean, low) for _, _, mean, low, *_ in middles), strict=True)
    said = ["A dot for each seed; the stroke and the number: their mean." if any(means) else "A dot for each seed."]
    if any(lows):
        said.append("The bar is the 95 % interval of the mean.")
    if any(entry["reached"] < entry["of"] for entry in entries.values()):
        said.append("A triangle stands where the run of a seed ended without getting there; ≥: its mean is cut off.")
    return " ".join(said)
