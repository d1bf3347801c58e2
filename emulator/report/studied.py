"""The figures of a study: ratios of times, times of all seeds, the seconds of a round, and who is fastest where."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import altair as alt

from emulator.analysis.answer import Answer
from emulator.analysis.explanations import CAPTIONS
from emulator.report import critical, drawing
from emulator.report.figure import Figure, table
from emulator.report.palette import COLOURS
from emulator.report.studied_places import duels, grid, traces
from emulator.report.studied_scales import frame, log_axis, log_scale, rule
from emulator.results import units
from emulator.results.comparison import Comparison
from emulator.results.times import Values
from emulator.wording.names import goal

WIDTH = 420
STEP = 11  # pixels from one target to the next
WRAPPED = 100  # characters of a caption's line
SEEN = 0.01  # of an algorithm's round: parts smaller than this in every algorithm are not drawn
Part = tuple[str, str]  # family, kind or phase


def figures(answer: Answer) -> Iterator[Figure]:
    """Yields the figures of a study, except those without content."""
    parts = (ratios(answer), times(answer), pace(answer), grid(answer), *duels(answer), traces(answer))
    for made in parts:
        if made:
            yield made


def pictures(answer: Answer) -> Iterator[tuple[str, bytes]]:
    """Yields the file name and content of each figure twice, as NAME.svg and NAME.png, on white, with its title and
    caption."""
    for shown in figures(answer):
        yield f"{shown.name}.svg", drawing.svg(alone(shown)).encode()
        yield f"{shown.name}.png", png(shown)


def png(shown: Figure) -> bytes:
    """Returns a figure as PNG, on white, with its title and caption."""
    return drawing.png(alone(shown), scale=1.5)


def alone(shown: Figure) -> dict[str, Any]:
    """Returns a figure in Vega-Lite, on white, with its title and caption in the picture."""
    subtitle = textwrap.wrap(shown.caption, WRAPPED)
    title = {"text": shown.title, "subtitle": subtitle, "anchor": "start", "offset": 12}
    return {**shown.spec(), "background": "white", "title": title, "padding": 12}


def ratios(answer: Answer) -> Figure | None:
    """Returns the figure of each algorithm's time divided by the baseline's, with a panel for each link; None if no
    ratio is known."""
    base = answer.baseline
    known = [each for each in answer.comparisons if each.base == base and each.contrast]
    if not known:
        return None
    links = list(dict.fromkeys(each.link for each in known))
    ends = [value for each in known if each.contrast for value in (each.contrast.low, each.contrast.high)]
    labels = [entry.name for entry in answer.scenario.algorithms if any(entry.name == each.label for each in known)]
    goals = [goal(target) for target in answer.targets]
    panels = [
        _forest([each for each in known if each.link == link], labels, goals, ends, f"Time over {base}'s").properties(
            title=link
        )
        for link in links
    ]
    chart: Any = alt.concat(*panels, columns=2)
    described = f"Ratios of {len(labels)} algorithms' times to {base}'s, with intervals."
    return Figure("ratios", f"Time over {base}'s", CAPTIONS["ratios"], frame(chart, "ratios", described))


def _forest(found: Sequence[Comparison], labels: Sequence[str], goals: Sequence[str], ends: Any, title: str) -> Any:
    rows = [
        (each.label, goal(each.target), c.ratio, c.low, c.high, "yes" if each.significant else "no")
        for each in found
        if (c := each.contrast)
    ]
    columns = dict.fromkeys(("label", "target"), "string") | dict.fromkeys(("ratio", "low", "high"), "number")
    here = table({**columns, "decided": "string"}, rows)
    at: Any = {
        "y": alt.Y("label:N", title=None, sort=list(labels), axis=alt.Axis(grid=True, tickBand="extent", ticks=False)),
        "yOffset": alt.YOffset("target:N", sort=list(goals), scale=alt.Scale(paddingOuter=0.4)),
    }
    scale = alt.Scale(domain=list(goals), range=list(COLOURS[: len(goals)]))
    colour = alt.Color("target:N", scale=scale, sort=list(goals), legend=alt.Legend(symbolType="circle"))
    lines = here.mark_rule(strokeWidth=1.6).encode(
        **at, color=colour, x=alt.X("low:Q", scale=log_scale(ends), axis=log_axis(ends), title=title), x2="high:Q"
    )
    fill = alt.condition("datum.decided == 'yes'", alt.Fill("target:N", scale=scale, legend=None), alt.value("white"))
    points = here.mark_point(size=42, opacity=1, strokeWidth=1.6).encode(
        **at, x=alt.X("ratio:Q"), stroke=alt.Stroke("target:N", scale=scale, legend=None), fill=fill
    )
    height = (STEP * len(goals) + 8) * len(labels)
    return alt.layer(rule(1.0), lines, points).properties(width=WIDTH, height=height)


def times(answer: Answer) -> Figure | None:
    """Returns the figure of each seed's time to the main target on the study's own links, with restricted means; None
    if no seed reached the target."""
    labels = [entry.name for entry in answer.scenario.algorithms]
    found = [value for label in labels if (value := answer.value(label, answer.main)) and value.bound > 0]
    return times_of(found) if any(each.reached for each in found) else None


def times_of(found: Sequence[Values]) -> Figure:
    """Returns the figure of the times of all seeds, with a row for each algorithm, in the order of `found`."""
    unit = units.of_time(each.bound for each in found)
    rows = [(*row[:2], row[2] / unit.size, row[3]) for each in found for row in _dots(each)]
    here = table({"label": "string", "kind": "string", "time": "number", "there": "string"}, rows)
    order = [each.label for each in found]
    at: Any = {
        "y": alt.Y("label:N", title=None, sort=order, axis=alt.Axis(grid=True)),
        "x": alt.X("time:Q", title=f"time to {goal(found[0].target)}, {unit.name}", scale=alt.Scale(zero=True)),
    }
    fill = alt.condition("datum.there == 'yes'", alt.value(COLOURS[0]), alt.value("white"))
    dots = here.transform_filter("datum.kind == 'seed'").mark_point(size=45, opacity=0.65, stroke=COLOURS[0])
    ticks = here.transform_filter("datum.kind == 'mean'").mark_tick(color=COLOURS[1], thickness=3, size=18, opacity=1)
    short = [
        (each.label, each.bound / unit.size, f"{missing} seeds")
        for each in found
        if (missing := len(each.times) - each.reached) > 1
    ]
    cut = table({"label": "string", "time": "number", "said": "string"}, short).mark_text(
        align="left", dx=8, fontSize=10
    )
    layers: list[Any] = [dots.encode(**at, fill=fill), ticks.encode(**at), cut.encode(**at, text="said:N")]
    if len({each.tau for each in found}) == 1 and isfinite(found[0].tau):
        layers.insert(0, rule(found[0].tau / unit.size))
    chart: Any = alt.LayerChart(layer=layers).properties(width=2 * WIDTH - 180, height=26 * len(order))
    described = f"Times of all seeds of {len(order)} algorithms."
    return Figure("times", "Times of all seeds", CAPTIONS["times"], frame(chart, "times", described))


def _dots(each: Values) -> Iterator[tuple[str, str, float, str]]:
    for timed in each.times.values():
        there = timed.time is not None and timed.time <= each.tau
        yield each.label, "seed", timed.time if there and timed.time is not None else each.bound, "yes" if there else ""
    yield each.label, "mean", each.mean, ""


def pace(answer: Answer) -> Figure | None:
    """Returns the figure of the mean seconds of a round by part, for each algorithm; None if no part takes any time."""
    found = {each.label: {_part(what): s for what, s in each.seconds.items() if s > 0} for each in answer.paces}
    found = {label: parts for label, parts in found.items() if parts}
    if not found:
        return None
    large = {part for parts in found.values() for part, s in parts.items() if s >= SEEN * sum(parts.values())}
    found = {label: {part: parts[part] for part in parts if part in large} for label, parts in found.items()}
    names = critical.named(part for parts in found.values() for part in parts)
    unit = units.of_time(sum(parts.values()) for parts in found.values())
    rows = [
        (label, name, place, parts[part] / unit.size)
        for label, parts in found.items()
        for place, (part, name) in enumerate(names.items())
        if part in parts
    ]
    here = table({"label": "string", "part": "string", "place": "number", "time": "number"}, rows)
    chart: Any = (
        here.mark_bar(stroke="#888888", strokeWidth=0.4)
        .encode(
            y=alt.Y("label:N", title=None, sort=list(found)),
            x=alt.X("time:Q", title=f"a round, {unit.name}", stack="zero"),
            color=critical.scale(names),
            order=alt.Order("place:Q"),
        )
        .properties(width=2 * WIDTH - 180, height=24 * len(found))
    )
    described = f"Stacked bars of what a round's seconds go to, for {len(found)} algorithms."
    return Figure("pace", "What a round is made of", CAPTIONS["pace"], frame(chart, "pace", described))


def _part(what: str) -> Part:
    family, _, key = what.partition(" ")
    return family, key
