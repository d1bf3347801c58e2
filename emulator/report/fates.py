"""Charts of what became of selected devices (aggregated, late, lost, refused), of their time (useful, wasted, idle),
and of bytes (useful, wasted).  A device-round is one device that is selected in one round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import altair as alt

from emulator.record.events import Event, Refused
from emulator.report import palette
from emulator.report.figure import Chart, Figure, dressed, table
from emulator.results import units
from emulator.results.results import Row, Runs
from emulator.results.summary import device_seconds, fates, round_bytes

BYTES = {use: palette.USES[use] for use in ("useful", "wasted")}
REASONS = {  # reasons of refusals, by kind
    "device": "too little memory",
    "examples": "an impossible number of examples",
    "form": "a reply of the wrong form",
    "values": "values that are not finite",
}
Events = Callable[[str, int], Iterable[Event]]


def devices(runs: Runs, events: Events) -> Figure | None:
    """Returns the chart of device-rounds by fate, for each algorithm; a sentence if all were aggregated; None if no
    device was selected."""
    told = {label: fates([row for rows in seeds.values() for row in rows]) for label, seeds in runs.items()}
    keys = {"aggregated": "counted"}  # in records
    found = {label: {fate: float(of[keys.get(fate, fate)]) for fate in palette.FATES} for label, of in told.items()}
    found = {label: of for label, of in found.items() if any(of.values())}
    if not found:
        return None
    asked = sum(sum(of.values()) for of in found.values())
    if all(of["aggregated"] == sum(of.values()) for of in found.values()):
        said = f"All {asked:,.0f} device-rounds were aggregated: none was late, lost or refused."
        return Figure("devices", "Aggregated, late, lost, refused", said)
    chart = _bars(found, palette.FATES, "device-rounds, all seeds", 1.0)
    caption = (
        "Device-rounds, the sum over all seeds: aggregated; late for the close; lost (went off); refused (the device’s "
        f"memory cannot hold the job, or its reply is not sound). {' '.join(refusals(runs, events))}"
    ).rstrip()
    description = "What became of the selected devices, one stacked bar for each algorithm."
    return Figure(
        "devices",
        "Aggregated, late, lost, refused",
        caption,
        dressed(chart, "devices", description),
        ("algorithm", *palette.FATES),
        [(label, *(f"{number:,.0f}" for number in of.values())) for label, of in found.items()],
    )


def refusals(runs: Runs, events: Events) -> Iterator[str]:
    """Yields one sentence on refused devices: for each kind of refusal, their number and the first example; nothing if
    none was refused."""
    found: dict[str, list[Refused]] = {}
    for label, seeds in runs.items():
        for seed, rows in seeds.items():
            for event in events(label, seed) if any(row["refused"] for row in rows) else ():  # reading them takes long
                if isinstance(event, Refused):
                    found.setdefault(event.kind, []).append(event)
    if found:
        told = sorted(found.values(), key=len, reverse=True)
        listed = [f"{len(each):,} for {REASONS[each[0].kind]} ({each[0].device}: {each[0].why})" for each in told]
        yield f"Refused, each with the first: {'; '.join(listed)}."


def usage(runs: Runs) -> Figure | None:
    """Returns the chart of devices' useful, wasted and idle time for each algorithm; None if the record does not have
    the seconds of devices."""
    told = {label: device_seconds(seeds) for label, seeds in runs.items()}
    found = {label: seconds for label, seconds in told.items() if seconds and any(seconds.values())}
    if not found:
        return None
    unit = units.of_time(sum(seconds.values()) for seconds in found.values())
    chart = _bars(found, palette.USES, f"device-time, {unit.name}", unit.size)
    caption = (
        "The time of all selected devices, each from the opening of a round to its close; mean over seeds of whole "
        "runs. Useful: receiving, computing or sending for a reply that was aggregated. Wasted: the same for one that "
        "was not, or what had to be done again. Idle: waiting for the others to end, or offline."
    )
    return Figure(
        "usage",
        "Useful, wasted and idle time of devices",
        caption,
        dressed(chart, "usage", "Useful, wasted and idle time of devices, one stacked bar for each algorithm."),
        ("algorithm", *(f"{use}, {unit.name}" for use in palette.USES), "wasted, %", "idle, %"),
        [
            (
                label,
                *map(unit.show, seconds.values()),
                *(f"{100 * seconds[use] / sum(seconds.values()):.1f}" for use in ("wasted", "idle")),
            )
            for label, seconds in found.items()
        ],
    )


def wasted(runs: Runs) -> Figure | None:
    """Returns the chart of useful and wasted bytes for each algorithm; a sentence if none was wasted; None if nothing
    was sent."""
    found = {label: _bytes(seeds) for label, seeds in runs.items()}
    found = {label: sizes for label, sizes in found.items() if any(sizes.values())}
    if not found:
        return None
    unit = units.of_bytes(sum(sizes.values()) for sizes in found.values())
    title = "Useful and wasted bytes"
    if not any(sizes["wasted"] for sizes in found.values()):
        return Figure("wasted", title, "No byte was wasted: every reply was aggregated, and every byte was sent once.")
    chart = _bars(found, BYTES, unit.name, unit.size)
    caption = (
        "Bytes both ways, mean over seeds of whole runs: wasted are those of replies that were not aggregated, and "
        "those that were sent once more."
    )
    return Figure(
        "wasted",
        title,
        caption,
        dressed(chart, "wasted", "Useful and wasted bytes, one stacked bar for each algorithm."),
        ("algorithm", *(f"{fate}, {unit.name}" for fate in BYTES), "wasted, %"),
        [
            (label, *map(unit.show, sizes.values()), f"{100 * sizes['wasted'] / sum(sizes.values()):.1f}")
            for label, sizes in found.items()
        ],
    )


def _sum(seeds: Mapping[int, Sequence[Row]], key: str) -> int:
    return sum(row[key] for rows in seeds.values() for row in rows)


def _bytes(seeds: Mapping[int, Sequence[Row]]) -> dict[str, float]:
    """Returns the useful and the wasted bytes of a whole run, as means over the seeds that have rounds."""
    played = sum(map(bool, seeds.values())) or 1
    waste = _sum(seeds, "wasted_bytes") / played
    every = sum(round_bytes(row) for rows in seeds.values() for row in rows) / played
    return {"useful": every - waste, "wasted": waste}


def _bars(found: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], title: str, size: float) -> Chart:
    rows = [
        (label, fate, place, number / size)
        for label, fates in found.items()
        for place, (fate, number) in enumerate(fates.items())
        if number
    ]
    columns = {"label": "string", "fate": "string", "place": "number", "number": "number"}
    there = [fate for fate in colours if any(row[1] == fate for row in rows)]
    domain = alt.Scale(domain=there, range=[colours[fate] for fate in there])
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
