"""What became of the devices that were asked, and of the bytes that were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from emulator import units
from emulator.report.figure import Chart, Figure, dressed, table
from emulator.results import Row, Runs
from emulator.summary import round_bytes

FATES = {"counted": "#009E73", "late": "#E69F00", "lost": "#D55E00", "refused": "#7B3294"}
BYTES = {"counted": "#009E73", "wasted": "#D55E00"}


def devices(runs: Runs) -> Figure | None:
    """None if nobody was asked."""
    found = {label: {fate: float(_sum(seeds, fate)) for fate in FATES} for label, seeds in runs.items()}
    found = {label: fates for label, fates in found.items() if any(fates.values())}
    if not found:
        return None
    chart = _bars(found, FATES, "device-rounds, all seeds", 1.0)
    caption = (
        "Device-rounds over all seeds: counted; late for the close; lost (went off); refused (their reply was not "
        "sound)."
    )
    description = "What became of the devices that were asked, one stacked bar for each algorithm."
    return Figure(
        "devices",
        "Counted, late, lost, refused",
        caption,
        dressed(chart, "devices", description),
        ("algorithm", *FATES),
        [(label, *(f"{number:,.0f}" for number in fates.values())) for label, fates in found.items()],
    )


def wasted(runs: Runs) -> Figure | None:
    """None if nothing was sent."""
    found = {label: _bytes(seeds) for label, seeds in runs.items()}
    found = {label: sizes for label, sizes in found.items() if any(sizes.values())}
    if not found:
        return None
    unit = units.of_bytes(sum(sizes.values()) for sizes in found.values())
    chart = _bars(found, BYTES, f"{unit.name}, all seeds", unit.size)
    caption = "Bytes both ways over all seeds: wasted are those of device-rounds that were not counted."
    return Figure(
        "wasted",
        "Bytes that counted, and wasted ones",
        caption,
        dressed(chart, "wasted", "Bytes that counted and wasted bytes, one stacked bar for each algorithm."),
        ("algorithm", *(f"{fate}, {unit.name}" for fate in BYTES), "wasted, %"),
        [
            (label, *map(unit.show, sizes.values()), f"{100 * sizes['wasted'] / sum(sizes.values()):.1f}")
            for label, sizes in found.items()
        ],
    )


def _sum(seeds: Mapping[int, Sequence[Row]], key: str) -> int:
    return sum(row[key] for rows in seeds.values() for row in rows)


def _bytes(seeds: Mapping[int, Sequence[Row]]) -> dict[str, float]:
    waste = _sum(seeds, "wasted_bytes")
    every = sum(round_bytes(row) for rows in seeds.values() for row in rows)
    return {"counted": float(every - waste), "wasted": float(waste)}


def _bars(found: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], title: str, size: float) -> Chart:
    rows = [
        (label, fate, place, number / size)
        for label, fates in found.items()
        for place, (fate, number) in enumerate(fates.items())
        if number
    ]
    columns = {"label": "string", "fate": "string", "place": "number", "number": "number"}
    domain = alt.Scale(domain=list(colours), range=list(colours.values()))
    chart: alt.Chart = (
        table(columns, rows)
        .mark_bar(stroke="#888888", strokeWidth=0.4)
        .encode(
            y=alt.Y("label:N", title=None, sort=list(found)),
            x=alt.X("number:Q", title=title, stack="zero"),
            color=alt.Color("fate:N", scale=domain),
            order=alt.Order("place:Q"),
            tooltip=["label:N", "fate:N", alt.Tooltip("number:Q", title=title, format=",.4~f")],
        )
        .properties(height=28 * len(found))
    )
    return chart
