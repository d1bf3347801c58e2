"""Charts of runs in which late replies count: how stale the replies were, and what share of them each device has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import altair as alt

from emulator.record.events import Asked, Closed, Event, Opened
from emulator.report import palette
from emulator.report.curves import thinned
from emulator.report.figure import Chart, Figure, dressed, table, whole
from emulator.results import units
from emulator.results.results import Runs

Events = Callable[[str, int], Iterable[Event]]
Steps = Literal["linear", "step-before"]
POINTS = 200  # points of a line


def figure(summary: Mapping[str, Any]) -> Figure | None:
    """Returns the chart of the replies by staleness; None if no algorithm has stale replies."""
    found = {label: said["staleness"] for label, said in summary["labels"].items() if "staleness" in said}
    if not found:
        return None
    points = []
    for label, of in found.items():
        counts = {int(value): replies for value, replies in of["counts"].items()}
        beside = {max(0, value + step) for value in counts for step in (-1, 0, 1)}  # the line falls to 0 between them
        total = sum(counts.values())
        points += [(label, value, 100 * counts.get(value, 0) / total) for value in sorted(beside)]
    largest = max(value for _, value, _ in points)
    x = alt.X("x:Q", title="staleness, in versions of the model", axis=whole(largest), scale=alt.Scale(nice=False))
    described = "Share of replies by staleness, one line for each algorithm."
    chart = _lines("staleness", described, points, summary, x, "share of replies, %", "linear")
    caption = (
        "Replies that are in a model, by how many versions of it were made since their devices started; all seeds. At "
        "work: the mean number of devices from their request to their reply, without those that the end cut off."
    )
    rows = [
        (
            label,
            f"{of['mean']:.2f}",
            f"{of['largest']:,}",
            f"{sum(of['counts'].values()):,}",
            f"{of['rejected']:,}",
            units.NONE if of["at_work"] is None else f"{of['at_work']:.1f}",
        )
        for label, of in found.items()
    ]
    headings = ("algorithm", "mean", "largest", "replies", "too stale", "at work")
    return Figure("staleness", "Staleness of replies", caption, chart, headings, rows)


def shares(runs: Runs, summary: Mapping[str, Any], events: Events) -> Figure | None:
    """Returns the chart of the replies of each device; None if no algorithm has stale replies."""
    if not any("staleness" in said for said in summary["labels"].values()):
        return None
    found = {label: counts for label, seeds in runs.items() if (counts := _counted(label, seeds, events)).total()}
    points = []
    for label, counts in found.items():
        even, most = counts.total() / len(counts), sorted(counts.values(), reverse=True)
        line = [(0.0, most[0] / even)]
        line += [(100 * (place + 1) / len(most), replies / even) for place, replies in enumerate(most)]
        points += [(label, x, y) for x, y in thinned(line, POINTS)]
    if not points:
        return None
    x = alt.X("x:Q", title="devices, those with most replies first, %", scale=alt.Scale(domain=[0, 100]))
    described = "Replies of each device, in falling order, one line for each algorithm."
    chart = _lines("shares", described, points, summary, x, "replies, 1 = as many as the mean device", "step-before")
    caption = (
        "Replies of each device that are in a model, of all selected devices; all seeds. Even: Jain’s index, "
        "(Σ n)² / (N Σ n²) for n replies of each of N devices; 1 if all have as many, 1/N if one has all."
    )
    rows = [
        (
            label,
            f"{len(counts):,}",
            f"{sum(not n for n in counts.values()):,}",
            f"{max(counts.values()):,}",
            _even(counts),
        )
        for label, counts in found.items()
    ]
    headings = ("algorithm", "devices", "without a reply", "most replies", "even")
    return Figure("shares", "Share of each device", caption, chart, headings, rows)


def jain(counts: Sequence[int]) -> float:
    """Returns Jain's index of fairness (Jain, Chiu and Hawe 1984): 1 if all are equal, 1/N if one has all."""
    return sum(counts) ** 2 / (len(counts) * sum(count**2 for count in counts))


def _even(counts: Counter[str]) -> str:
    return f"{jain(list(counts.values())):.2f}"


def _counted(label: str, seeds: Iterable[int], events: Events) -> Counter[str]:
    """Returns how many replies of each device are in a model, over all seeds; 0 for one that was asked in vain."""
    found = Counter[str]()
    for seed in seeds:
        for event in events(label, seed):
            match event:
                case Opened() | Asked():
                    found.update(dict.fromkeys(event.asked, 0))
                case Closed() if not event.failed:
                    found.update(call.device for call in event.calls)
                case _:
                    pass
    return found


def _lines(
    name: str, described: str, points: Sequence[Any], summary: Mapping[str, Any], x: alt.X, title: str, steps: Steps
) -> Chart:
    """Returns the chart of a line for each algorithm, through points (label, x, y); `title`: of the y axis."""
    labels, shown = list(summary["labels"]), {label for label, *_ in points}
    those = [place for place, label in enumerate(labels) if label in shown]  # in the colours of the other charts
    colours, dashes = palette.of_labels(labels), palette.dashes(labels)
    names = [labels[place] for place in those]
    colour = alt.Color("label:N", scale=alt.Scale(domain=names, range=[colours[place] for place in those]))
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=names, range=[dashes[place] for place in those]))
    y = alt.Y("y:Q", title=title)
    tips = ["label:N", alt.Tooltip("x:Q", format=".4~g"), alt.Tooltip("y:Q", title=title, format=".3~g")]
    base = table({"label": "string", "x": "number", "y": "number"}, points).encode(x=x, y=y, color=colour)
    line = base.mark_line(interpolate=steps, strokeWidth=1.6).encode(strokeDash=dash)
    dots = base.mark_circle(size=22, aria=False).encode(tooltip=tips)
    return dressed(alt.LayerChart(layer=[line, dots]).properties(height=240), name, described)
