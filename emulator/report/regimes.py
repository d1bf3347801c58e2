"""The figure of a study in several regimes: in which of them, and on which uplinks, an algorithm is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from emulator.analysis.cells import AXES
from emulator.analysis.explanations import WHEN
from emulator.analysis.regimes import Place
from emulator.report import drawing
from emulator.report.figure import Figure, table
from emulator.report.studied import alone
from emulator.report.studied_places import DARK, GREY, SIDE, TALL, WINNERS
from emulator.report.studied_scales import frame
from emulator.wording.regimes_page import shown

ACROSS = 2  # panels beside each other


def picture(names: Sequence[str], places: Sequence[Place]) -> dict[str, bytes]:
    """Returns the figure as pays.svg and pays.png; {} if the study has no map.  `names`: all algorithms, in the order
    of their colours."""
    if not places:
        return {}
    spec = alone(figure(names, places))
    return {"pays.svg": drawing.svg(spec).encode(), "pays.png": drawing.png(spec, scale=1.0)}


def figure(names: Sequence[str], places: Sequence[Place]) -> Figure:
    """Returns the map of when an algorithm pays: a panel for each question, with the regimes as rows and the uplinks as
    columns."""
    won = {each.winner for each in places}
    regimes = list(dict.fromkeys(each.regime for each in places))
    winning = [name for name in names if name in won]
    shades = {name: WINNERS[number % len(WINNERS)] for number, name in enumerate(winning)}
    shades |= {name: shade for name, shade in GREY.items() if name in won}
    panels = []
    for question in dict.fromkeys(each.question for each in places):
        here = [each for each in places if each.question == question]
        title = " or ".join(question) or "all ranked algorithms"
        panels.append(_panel(here, regimes, shades).properties(title=title))
    chart: Any = alt.concat(*panels, columns=ACROSS, spacing=20)
    described = f"Heat-maps of who is faster in {len(regimes)} regimes, by uplink."
    return Figure("pays", "When does it pay?", WHEN, frame(chart, "pays", described))


def _panel(places: Sequence[Place], regimes: Sequence[str], shades: Mapping[str, str]) -> Any:
    columns = dict.fromkeys(("up", "regime", "winner", "ratio", "ink"), "string")
    rows = [
        (_link(each), each.regime, each.winner, shown(each), "white" if shades[each.winner] in DARK else "black")
        for each in places
    ]
    at: Any = {
        "x": alt.X(
            "up:N", title="uplink, Mbit/s", sort=list(dict.fromkeys(map(_link, places))), axis=alt.Axis(labelAngle=0)
        ),
        "y": alt.Y("regime:N", title=None, sort=list(regimes)),
    }
    here = table(columns, rows)
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    boxes = here.mark_rect(stroke="white").encode(**at, color=alt.Color("winner:N", scale=scale, sort=list(shades)))
    texts = here.mark_text(fontSize=10).encode(**at, text="ratio:N", color=alt.Color("ink:N", scale=None))
    made: Any = alt.LayerChart(layer=[boxes, texts])
    wide = len({_link(each) for each in places})
    return made.properties(width=SIDE * wide, height=TALL * len({each.regime for each in places}))


def _link(each: Place) -> str:
    """Returns the coordinates of a place on the map: its uplink, and after it the other axes that the map has."""
    return ", ".join(f"{float(each.cell.place[axis]):g}" for axis in AXES if axis in each.cell.place)
