"""Charts for print: as large as a column of a paper, with letters and lines in proportion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.report.figure import Chart

POINT = 25.4 / 72  # mm; a pixel of a chart is a point on paper
COLUMN = 84.0  # mm, a column of a two-column paper
FLAT = 0.75  # height of a chart over its width
SMALLER = 2 / 3  # letters of 12 pixels become letters of 8 points
LENGTHS = {"fontSize", "labelFontSize", "titleFontSize", "strokeWidth", "thickness", "dx", "dy", "offset", "width"}
AREAS = {"size", "symbolSize"}  # of symbols, pixels²


def printed(chart: Chart, width: float | None, height: float | None, font: str) -> Any:
    """Returns the chart `width` x `height` mm in all, without a title; by default 84 mm wide, and 0.75 times as high as
    it is wide.  `font`: the name of a font; "" for the chart's own."""
    wide = width or COLUMN
    spec = _smaller(chart.to_dict())
    config = spec.setdefault("config", {})
    config["legend"] = {**config.get("legend", {}), "columns": max(1, int(wide // 30))}
    # A turned title is longer than a low chart is high, and would be cut.
    config["axisY"] = {"titleAngle": 0, "titleAlign": "left", "titleX": 0, "titleY": -6}
    config |= {"font": font} if font else {}
    size = {"width": wide / POINT, "height": (height or FLAT * wide) / POINT}
    fit = {"autosize": {"type": "fit", "contains": "padding"}, "padding": 1, "title": ""}
    return type(chart).from_dict({**spec, **size, **fit})


def _smaller(spec: Any) -> Any:
    if isinstance(spec, list):
        return [_smaller(each) for each in spec]
    if not isinstance(spec, Mapping):
        return spec
    return {key: _scaled(key, value) for key, value in spec.items()}


def _scaled(key: str, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * (SMALLER if key in LENGTHS else SMALLER**2 if key in AREAS else 1)
    return value if key in ("data", "datasets") else _smaller(value)
