"""Figures of the report, and what their charts share: data tables, sizes, axes and style."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

Chart = alt.Chart | alt.LayerChart
Row = Sequence[Any]
COLUMN = 640  # px
TICKS = "ceil(width / 70)"  # on an axis along the width


@dataclass(frozen=True)
class Figure:
    """A chart with its heading and caption, and for some charts a table of the numbers.

    If there is nothing to draw, the caption says so.
    """

    name: str  # name in files and anchors
    title: str
    caption: str
    chart: Chart | None = None
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    def alone(self) -> Chart | None:
        """Returns the chart for a notebook: on white, with its title, as wide as a column of text; None if there is no
        chart."""
        if self.chart is None:
            return None
        title = alt.TitleParams(self.title, anchor="start")
        width = COLUMN if self.chart.width == "container" else self.chart.width
        made: Chart = self.chart.properties(title=title, background="white", width=width)
        return made

    def spec(self, validate: bool = True) -> dict[str, Any]:
        """Returns the chart in Vega-Lite, as a dict; {} if there is no chart.  `validate`: Altair checks the chart."""
        return self.chart.to_dict(validate=validate) if self.chart else {}


def table(columns: Mapping[str, str], rows: Iterable[Row]) -> alt.Chart:
    """Returns a chart with these rows as its data, and without marks.  `columns`: `string` or `number`, by name.

    The chart's specification has the rows as CSV and each text only once, because JSON objects would be ten times as
    large.
    """
    texts: dict[str, dict[str, int]] = {name: {} for name, kind in columns.items() if kind == "string"}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value, texts.get(name)) for name, value in zip(columns, row, strict=True)] for row in rows)
    form = alt.CsvDataFormat(type="csv", parse=dict.fromkeys(columns, "number"))
    chart = alt.Chart(alt.InlineData(values=text.getvalue(), format=form))
    for name, known in texts.items():
        chart = chart.transform_calculate(**{name: f"{json.dumps(list(known))}[datum.{name}]"})
    return chart


def natural(name: str) -> list[tuple[int, str]]:
    """Returns a key for sorting names, under which phone-2 comes before phone-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def dressed(chart: Chart, name: str, description: str) -> Chart:
    """Returns the chart with a name, a description for readers who cannot see it, and the report's style.

    It is as wide as the page's column; the page's CSS sets the colours of text and lines.
    """
    made: Chart = (
        chart.properties(name=name, description=description, width="container", background="transparent")
        .properties(autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure_view(stroke=None)
        .configure_axis(gridOpacity=0.35, labelLimit=190, titleFontWeight="normal", labelFontSize=12, titleFontSize=12)
        .configure_axisXQuantitative(tickCount=alt.ExprRef(TICKS))
        .configure_legend(orient="bottom", title=None, columns=4, labelLimit=220, labelFontSize=12, symbolSize=120)
    )
    return made


def height(rows: int) -> int:
    """Returns the height in pixels of a chart with this number of rows, one for each algorithm.

    Charts that are side by side use it, so that their rows are level.
    """
    return rows * max(20, min(42, 300 // max(1, rows)))


def whole(largest: float) -> alt.Axis:
    """Returns an axis whose ticks are whole numbers, for values up to `largest`."""
    return alt.Axis(format="d", tickMinStep=1, tickCount=alt.ExprRef(f"min({TICKS}, {max(1, int(largest))})"))


def _cell(value: Any, known: dict[str, int] | None) -> Any:
    """Returns a value for the CSV data: for a text its index in `known`, to which new texts are added; for a number
    (`known` is None) at most six digits."""
    if known is not None:
        return known.setdefault(value, len(known))
    return f"{value:.6g}" if isinstance(value, float) else value
