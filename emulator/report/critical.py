"""Where the seconds went: the critical path by payload kind and compute phase, per algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import altair as alt

from emulator.report import palette
from emulator.report.figure import Figure, dressed, table
from emulator.results import units
from emulator.results.results import Row, Runs

Part = tuple[str, str]  # family, kind or phase
FAMILIES = {"down_s": "download", "compute_s": "compute", "up_s": "upload", "server_s": "server"}
STEMS = {"fisher": "Fisher", "importance": "Ω", "omega": "Ω"}  # what a kind or phase begins with -> what it is


def parts(row: Row) -> dict[Part, float]:
    """The seconds of one round's critical path; they sum to its length."""
    path = row["critical"]
    found = {(palette.SET_UP, ""): path["setup_s"], (palette.WAITING, ""): path["wait_s"]}
    for key, family in FAMILIES.items():
        found.update({(family, name): seconds for name, seconds in path[key].items()})
    return found


def mean(seeds: Mapping[int, Sequence[Row]]) -> dict[Part, float]:
    """Of whole runs, over the seeds that have rounds; the parts sum to the mean of their ends."""
    runs = [rows for rows in seeds.values() if rows]
    total: dict[Part, float] = {}
    for rows in runs:
        for row in rows:
            for part, seconds in parts(row).items():
                total[part] = total.get(part, 0.0) + seconds / len(runs)
    return total


def named(found: Iterable[Part]) -> dict[Part, str]:
    """Names of parts, in the order that a round has them."""
    ordered = sorted(set(found), key=lambda part: palette.place(*part))
    return {part: palette.part(*part) if part[1] else part[0] for part in ordered}


def scale(names: Mapping[Part, str]) -> alt.Color:
    domain, colours = list(names.values()), palette.of_parts(names)
    return alt.Color("part:N", scale=alt.Scale(domain=domain, range=colours), sort=domain)


def figure(runs: Runs) -> Figure | None:
    """None if no round was completed."""
    means = {label: {p: s for p, s in mean(seeds).items() if s > 1e-9} for label, seeds in runs.items()}
    means = {label: found for label, found in means.items() if found}
    if not means:
        return None
    names = named(part for found in means.values() for part in found)
    unit = units.of_time(sum(found.values()) for found in means.values())
    rows = [
        (label, name, number, found[part] / unit.size, 100 * found[part] / sum(found.values()))
        for label, found in means.items()
        for number, (part, name) in enumerate(names.items())
        if part in found
    ]
    columns = {"label": "string", "part": "string"} | dict.fromkeys(("place", "time", "share"), "number")
    chart = (
        table(columns, rows)
        .mark_bar(stroke="#888888", strokeWidth=0.4)
        .encode(
            y=alt.Y("label:N", title=None, sort=list(means)),
            x=alt.X("time:Q", title=f"virtual time, {unit.name}", stack="zero"),
            color=scale(names),
            order=alt.Order("place:Q"),
            tooltip=["label:N", "part:N", _tip(unit), alt.Tooltip("share:Q", title="%", format=".1f")],
        )
        .properties(height=34 * len(means))
    )
    caption = (
        "Mean over seeds of whole runs: of each round, the path of the device whose reply closed it; "
        "waiting is what that path does not explain (nobody online, a deadline, a device that was lost)."
    )
    description = "Seconds of the critical path, one stacked bar for each algorithm. " + " ".join(sentences(runs))
    return Figure(
        "seconds",
        "Where the seconds went",
        caption,
        dressed(chart, "seconds", description),
        ("part", *(f"{label}, {unit.name}" for label in means)),
        [(name, *(unit.show(found.get(part, 0.0)) for found in means.values())) for part, name in names.items()],
    )


def sentences(runs: Runs) -> Iterator[str]:
    """Of each algorithm that sends or computes more than FedAvg does: what that cost in seconds."""
    for label, seeds in runs.items():
        found = mean(seeds)
        carried, computed = _extras(found, ("download", "upload")), _extras(found, ("compute", "server"))
        unit = units.of_time([sum(found.values())])
        said = [f"{unit.some(seconds)} {unit.name} carried {what} payloads" for what, seconds in carried.items()]
        said += [f"{unit.some(seconds)} {unit.name} computed {what}" for what, seconds in computed.items()]
        if said:
            over = f" (mean of {len(seeds)} seeds)" if len(seeds) > 1 else ""
            yield f"Of {label}’s {unit.full(sum(found.values()))}{over}, {units.joined(said)}."


def _extras(found: Mapping[Part, float], families: Sequence[str]) -> dict[str, float]:
    """Seconds by what they were for, beyond weights, framing, training and combining."""
    extras: dict[str, float] = {}
    for (family, name), seconds in found.items():
        usual = name in ("weights", "frame", "cut", "train", "combine", "request")
        if family in families and not usual and seconds > 0:
            what = STEMS.get(name.split("_")[0], name)
            extras[what] = extras.get(what, 0.0) + seconds
    return extras


def _tip(unit: units.Unit) -> alt.Tooltip:
    return alt.Tooltip("time:Q", title=f"time, {unit.name}", format=",.3~f")
