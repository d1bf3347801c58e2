"""A tornado chart: how far each factor, changed alone, moves the ratio of an algorithm's time to the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from emulator.analysis.answer import Answer
from emulator.analysis.reading import CAPTIONS
from emulator.analysis.sensitivity import Swing, swings, unchanged
from emulator.report.figure import Figure, table
from emulator.report.palette import COLOURS
from emulator.report.studied_scales import frame, log_axis, log_scale, rule

WIDTH, BAR = 560, 26
ROOM = 1.5  # for the names of settings beside the bars


def tornado(answer: Answer) -> Figure | None:
    """A panel for each algorithm, with its widest bar at the top.  None if no factor moves any ratio."""
    found = {label: swings(answer.moved, label) for label in dict.fromkeys(each.label for each in answer.moved)}
    found = {label: each for label, each in found.items() if each}
    if not found:
        return None
    ends = [value for each in found.values() for swing in each for value in (swing.low, swing.high)]
    panels = [_panel(answer, label, each, ends) for label, each in found.items()]
    chart: Any = alt.VConcatChart(vconcat=panels)
    described = f"Ranges of the ratio to {answer.baseline}'s time over {len(found)} algorithms' factors."
    return Figure("tornado", "What moves the ratio", CAPTIONS["tornado"], frame(chart, "tornado", described))


def _panel(answer: Answer, label: str, found: Sequence[Swing], ends: Sequence[float]) -> Any:
    rows = [(each.factor, each.low, each.high, each.least, each.most) for each in found]
    columns = {"factor": "string", "low": "number", "high": "number", "least": "string", "most": "string"}
    here = table(columns, rows)
    y: Any = alt.Y("factor:N", title=None, sort=[each.factor for each in found])
    title = f"{label}'s time over {answer.baseline}'s"
    x = alt.X("low:Q", title=title, scale=log_scale(ends, ROOM), axis=log_axis(ends, ROOM))
    bars = here.mark_bar(color=COLOURS[5], stroke="#888888", strokeWidth=0.4, size=BAR - 10).encode(y=y, x=x, x2="high")
    names = [*_ends(here, y, "low", "least", "right", -5), *_ends(here, y, "high", "most", "left", 5)]
    layers = [bars, rule(1.0), *names]
    base = unchanged(answer.moved, label)
    if base and base.ratio:
        layers.insert(1, rule(base.ratio, dashed=True))
    made: Any = alt.LayerChart(layer=layers).properties(width=WIDTH, height=BAR * len(found), title=label)
    return made


def _ends(here: alt.Chart, y: Any, at: str, text: str, align: Any, dx: int) -> list[Any]:
    """The settings' names at one end of the bars, each over a white outline that hides the lines behind it."""
    halo = here.mark_text(align=align, dx=dx, fontSize=11, stroke="white", strokeWidth=4, strokeJoin="round")
    plain = here.mark_text(align=align, dx=dx, fontSize=11)
    return [each.encode(y=y, x=f"{at}:Q", text=f"{text}:N") for each in (halo, plain)]
