"""The report's charts as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.report import drawing, timeline
from emulator.report.comparison import compare
from emulator.report.page import figures
from emulator.results.results import Results

WIDTH = 760
OF_A_RUN = ("rounds", "timeline", "rates")  # figures that show one run


def pictures(results: Sequence[Results]) -> Iterator[tuple[str, bytes]]:
    """Yields (file name, contents) of each chart twice, as NAME.svg and NAME.png, on white and with its title.

    Raises ValueError if there is nothing to compare.
    """
    all_ = compare(results)
    for figure in figures(all_):
        if not figure.chart:
            continue
        spec = figure.spec()
        below = [f"network model {all_.summary['network']}"]
        if figure.name in OF_A_RUN:
            below.insert(0, str(timeline.choices(all_.runs)[0]["name"]))
        spec |= {
            "background": "white",
            "title": {"text": figure.title, "subtitle": ", ".join(below), "anchor": "start"},
        }
        if not figure.name.startswith("map"):  # cells of a map have a fixed size
            spec["width"] = WIDTH
        yield f"{figure.name}.svg", drawing.svg(spec).encode()
        yield f"{figure.name}.png", drawing.png(spec, scale=2)
