"""What the figures of a study share: the axis of ratios, lines of reference, and the look of charts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt

from emulator.report.figure import table

FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.5)
NARROW = 2.5  # ratio of the axis's ends below which it has FINE ticks
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50, 100)
ROOM = 1.06  # margin beside the outermost ratio
EDGE = "#666666"


def domain(ends: Iterable[float], room: float = ROOM) -> tuple[float, float]:
    """Returns the least and the largest ratio of an axis that has these ratios and 1.

    `room`: the factor by which the axis extends beyond them at both ends.
    """
    held = [*ends, 1.0]
    return min(held) / room, max(held) * room


def log_scale(ends: Iterable[float], room: float = ROOM) -> alt.Scale:
    """Returns a logarithmic scale for these ratios, on which 2 is as far from 1 as 1/2."""
    return alt.Scale(type="log", domain=list(domain(ends, room)), nice=False)


def log_axis(ends: Iterable[float], room: float = ROOM) -> alt.Axis:
    """Returns an axis for these ratios, with ticks at round numbers."""
    low, high = domain(ends, room)
    steps = FINE if high < NARROW * low else STEPS
    return alt.Axis(values=[step for step in steps if low <= step <= high], format="~g", grid=True)


def rule(at: float, dashed: bool = False) -> Any:
    """Returns a layer with a vertical line through all rows, at this value of the horizontal axis."""
    made: Any = table({"at": "number"}, [(at,)]).mark_rule(
        color=EDGE, strokeWidth=1.2, strokeDash=[5, 3] if dashed else [1, 0]
    )
    return made.encode(x="at:Q")


def frame(chart: Any, name: str, description: str) -> Any:
    """Returns the chart with a name, a description for readers who cannot see it, and the style of all figures of a
    study."""
    return (
        chart.properties(name=name, description=description)
        .configure_view(stroke=None)
        .configure_axis(gridOpacity=0.35, labelLimit=220, titleFontWeight="normal", labelFontSize=12, titleFontSize=12)
        .configure_title(anchor="start", subtitleColor="#444444", subtitleFontSize=12, fontSize=14)
        .configure_legend(orient="bottom", title=None, columns=5, labelLimit=220, labelFontSize=12, symbolSize=110)
    )
