"""A chart of the bytes that were sent, by kind of payload (such as weights) and direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from emulator.record.tally import CUT
from emulator.report import critical, palette
from emulator.report.critical import Part, meanings, named, scale, seen
from emulator.report.figure import Figure, dressed, table
from emulator.results import units
from emulator.results.results import Row, Runs

DIRECTIONS = {"down": "download", "up": "upload"}
MEANINGS = {
    "frame": "Framing is what names, shapes and headers add.",
    CUT: "Cut is what unfinished transfers carried.",
    palette.OTHER: "Other: kinds that are too small to be seen by themselves.",
}


def parts(row: Row) -> dict[Part, float]:
    """Returns the bytes of one round by direction (download or upload) and kind of payload."""
    return {(DIRECTIONS[way], kind): size for way, kinds in row["bytes"].items() for kind, size in kinds.items()}


def mean(seeds: Mapping[int, Sequence[Row]]) -> dict[Part, float]:
    """Returns the bytes of a whole run by direction and kind of payload, as means over the seeds that have rounds."""
    return critical.mean(seeds, parts)


def figure(runs: Runs) -> Figure | None:
    """Returns the chart of bytes by kind and direction, for each algorithm; None if nothing was sent."""
    means = {label: {p: size for p, size in mean(seeds).items() if size} for label, seeds in runs.items()}
    means = {label: found for label, found in means.items() if found}
    if not means:
        return None
    ways = [(label, way) for label in means for way in DIRECTIONS.values()]
    bars = seen([{p: size for p, size in means[label].items() if p[0] == way} for label, way in ways])
    names, fine = named(part for bar in bars for part in bar), named(part for found in means.values() for part in found)
    unit = units.of_bytes(sum(found.values()) for found in means.values())
    rows = [
        (label, way, name, number, bar[part] / unit.size)
        for (label, way), bar in zip(ways, bars, strict=True)
        for number, (part, name) in enumerate(names.items())
        if part in bar
    ]
    columns = {"label": "string", "direction": "string", "part": "string", "place": "number", "size": "number"}
    chart = (
        table(columns, rows)
        .mark_bar(stroke="#888888", strokeWidth=0.4)
        .encode(
            y=alt.Y("label:N", title=None, sort=list(means)),
            yOffset=alt.YOffset("direction:N", sort=list(DIRECTIONS.values())),
            x=alt.X("size:Q", title=unit.name, stack="zero"),
            color=scale(names),
            order=alt.Order("place:Q"),
            tooltip=["label:N", "part:N", alt.Tooltip("size:Q", title=unit.name, format=",.4~f")],
        )
        .properties(height=40 * len(means))
    )
    totals = (f"{label} {unit.full(sum(found.values()))}." for label, found in means.items())
    caption = "Mean over seeds of whole runs, as encoded. Upper bar: to the devices; lower bar: from them."
    return Figure(
        "bytes",
        "Bytes by kind and direction",
        " ".join([caption, *meanings([*fine, *names], MEANINGS)]),
        dressed(chart, "bytes", "Bytes sent, two stacked bars for each algorithm. In all: " + " ".join(totals)),
        ("payload", *(f"{label}, {unit.name}" for label in means)),
        [(name, *(unit.show(found.get(part, 0.0)) for found in means.values())) for part, name in fine.items()],
    )
