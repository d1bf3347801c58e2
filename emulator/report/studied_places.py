"""Figures on where which algorithm is fastest in a study: maps over links and device speeds, and a chart of recorded
links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from emulator.analysis.answer import Answer
from emulator.analysis.cells import AXES, UNDECIDED, UNKNOWN, Cell
from emulator.analysis.explanations import CAPTIONS
from emulator.report.curves import thinned
from emulator.report.figure import Figure, natural, table
from emulator.report.palette import COLOURS
from emulator.report.studied_scales import frame, log_axis, log_scale, rule
from emulator.results.resampling import in_cell
from emulator.wording.names import goal

WINNERS = (*COLOURS[:6], "#F0E442", "#000000")  # Okabe and Ito's eight colours; grey means undecided
GREY = {UNDECIDED: "#B8B8B8", UNKNOWN: "#6E6E6E"}
DARK = ("#0072B2", "#000000")  # backgrounds for white text
OWN = -1.0  # coordinate of an axis that the map does not have
SIDE, TALL = 38, 26  # width and height of a cell, in pixels
ROWS = 60  # recorded links that a picture shows


def colours(answer: Answer, cells: Sequence[Cell]) -> Mapping[str, str]:
    """Returns the colours for these places, by the name of the winner; places without a winner are grey.

    The baseline has a colour even if it wins nowhere.  An algorithm has the same colour in all pictures of a study.
    """
    between = (each for of in answer.duels.values() for each in of)
    known = {answer.baseline, *(each.winner for each in (*answer.cells, *answer.traces, *between))}
    names = [entry.name for entry in answer.scenario.algorithms if entry.name in known]
    shades = {name: WINNERS[number % len(WINNERS)] for number, name in enumerate(names)} | GREY
    there = {label for each in cells for label in each.chosen}
    shown = {each.winner for each in cells} | ({answer.baseline} & there)
    return {name: shade for name, shade in shades.items() if name in shown}


def grid(answer: Answer) -> Figure | None:
    """Returns the map with the fastest of all ranked algorithms; None if no point has a comparison."""
    return _map(answer, answer.cells, "map", f"Who is first to {goal(answer.main)}", CAPTIONS["map"])


def duels(answer: Answer) -> Iterator[Figure]:
    """Yields the map of each pair of algorithms that the study names, as if there were only these two."""
    for (one, other), cells in answer.duels.items():
        title = f"{one} or {other}: who is first to {goal(answer.main)}"
        made = _map(answer, cells, f"map-{one}-{other}", title, CAPTIONS["duel"].format(one, other))
        if made:
            yield made


def _map(answer: Answer, cells: Sequence[Cell], name: str, title: str, caption: str) -> Figure | None:
    """Returns a map; None if no cell has a comparison.

    A panel has the uplinks as columns and the round trips as rows.  There is a row of panels for each device speed, and
    a column for each ratio of download to upload rate.
    """
    if not any(each.contrast for each in cells):
        return None
    values = {axis: sorted({at(each, axis) for each in cells}) for axis in AXES}
    _, ratio, _, speed = AXES
    shades, last, rows = colours(answer, cells), values[speed][-1], []
    for fast in values[speed]:
        panels = []
        for over in values[ratio]:
            here = [each for each in cells if (at(each, speed), at(each, ratio)) == (fast, over)]
            titles = (
                "uplink, Mbit/s" if fast == last else None,
                "round trip, ms" if over == values[ratio][0] else None,
            )
            above = f"{_said(fast, 'own speeds', '{:g} GFLOP/s')}, {_said(over, 'own downlinks', 'download {:g}:1')}"
            panels.append(_panel(here, values, shades, titles).properties(title=above))
        rows.append(alt.HConcatChart(hconcat=panels, spacing=18))
    chart: Any = alt.VConcatChart(vconcat=rows, spacing=14)
    described = f"Heat-maps of who reaches {goal(answer.main)} first, by link and device speed."
    return Figure(name, title, caption, frame(chart, name, described))


def at(cell: Cell, axis: str) -> float:
    """Returns a coordinate of a point of the map; OWN if the map has no such axis."""
    return float(cell.place.get(axis, OWN))


def _said(value: float, own: str, form: str) -> str:
    return own if value == OWN else form.format(value)


def _panel(
    cells: Sequence[Cell],
    values: Mapping[str, Sequence[float]],
    shades: Mapping[str, str],
    titles: tuple[str | None, str | None],
) -> Any:
    up, _, trip, _ = AXES
    columns = dict.fromkeys(("up", "trip", "winner", "ratio", "ink"), "string")
    rows = [
        (
            f"{each.place[up]:g}",
            _said(at(each, trip), "own", "{:g}"),
            each.winner,
            in_cell(each.contrast.ratio, each.contrast.bound) if each.contrast else "",
            "white" if shades[each.winner] in DARK else "black",
        )
        for each in cells
    ]
    here = table(columns, rows)
    both: Any = {
        "x": alt.X("up:N", title=titles[0], sort=[f"{v:g}" for v in values[up]], axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("trip:N", title=titles[1], sort=[_said(v, "own", "{:g}") for v in reversed(values[trip])]),
    }
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    boxes = here.mark_rect(stroke="white").encode(**both, color=alt.Color("winner:N", scale=scale, sort=list(shades)))
    texts = here.mark_text(fontSize=10).encode(**both, text="ratio:N", color=alt.Color("ink:N", scale=None))
    made: Any = alt.LayerChart(layer=[boxes, texts])
    return made.properties(width=SIDE * len(values[up]), height=TALL * len(values[trip]))


def traces(answer: Answer) -> Figure | None:
    """Returns the figure of the runner-up's time divided by the winner's on each recorded link; None if there is no
    recorded link with a comparison."""
    known = [each for each in answer.traces if each.contrast]
    if not known:
        return None
    shades = colours(answer, known)
    ordered = sorted(known, key=lambda each: (list(shades).index(each.winner), natural(str(each.place["trace"]))))
    shown = thinned(ordered, ROWS)
    rows = [(str(each.place["trace"]), each.winner, c.ratio, c.low, c.high) for each in shown if (c := each.contrast)]
    columns = dict.fromkeys(("trace", "winner"), "string") | dict.fromkeys(("ratio", "low", "high"), "number")
    here = table(columns, rows)
    ends = [value for row in rows for value in row[3:]]
    y: Any = alt.Y("trace:N", title=None, sort=[row[0] for row in rows], axis=alt.Axis(grid=True))
    colour = alt.Color("winner:N", scale=alt.Scale(domain=list(shades), range=list(shades.values())))
    x = alt.X("low:Q", title="time of the next one over the first one's", scale=log_scale(ends), axis=log_axis(ends))
    lines = here.mark_rule(strokeWidth=1.6).encode(y=y, color=colour, x=x, x2="high:Q")
    points = here.mark_point(filled=True, size=60, opacity=1).encode(y=y, color=colour, x="ratio:Q")
    chart: Any = alt.layer(rule(1.0), lines, points).properties(width=560, height=18 * len(rows))
    described = f"Who is first on {len(rows)} recorded links, and by how much."
    caption = CAPTIONS["traces"]
    if len(shown) < len(answer.traces):
        caption += f" {len(shown)} of {len(answer.traces)} are shown."
    return Figure("traces", "Who is first on recorded links", caption, frame(chart, "traces", described))
