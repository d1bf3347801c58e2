"""A chart of the seconds of the critical path, the path of the device whose reply closes a round, for each algorithm.

A part of the path is a family (download, compute, upload, server) with a kind of payload or a phase of computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import altair as alt

from emulator.record.targets import Target, reached
from emulator.report import palette
from emulator.report.figure import Figure, dressed, height, table
from emulator.results import units
from emulator.results.results import Row, Runs

Part = tuple[str, str]  # family, kind or phase
FAMILIES = {"down_s": "download", "compute_s": "compute", "up_s": "upload", "server_s": "server"}
MEANINGS = {  # meanings of parts, for captions of charts that have them
    palette.WAITING: "Waiting is what that path does not explain (nobody online, a deadline, a device that was lost).",
    palette.OTHER: "Other: parts that are too short to be seen by themselves.",
}
SEEN = 0.005  # of the longest bar: a part shorter than this in every bar is invisible and gets no colour


def parts(row: Row) -> dict[Part, float]:
    """Returns the seconds of each part of one round's critical path; their sum is the length of the round."""
    path = row["critical"]
    found = {(palette.SET_UP, ""): path["setup_s"], (palette.WAITING, ""): path["wait_s"]}
    for key, family in FAMILIES.items():
        found.update({(family, name): seconds for name, seconds in path[key].items()})
    return found


def mean(seeds: Mapping[int, Sequence[Row]], parts: Callable[[Row], Mapping[Part, float]] = parts) -> dict[Part, float]:
    """Returns the amount of each part in a whole run, as a mean over the seeds that have rounds.

    `parts`: returns the amounts of one round by part; by default seconds of the critical path.
    """
    runs = [rows for rows in seeds.values() if rows]
    total: dict[Part, float] = {}
    for rows in runs:
        for row in rows:
            for part, seconds in parts(row).items():
                total[part] = total.get(part, 0.0) + seconds / len(runs)
    return total


def named(found: Iterable[Part]) -> dict[Part, str]:
    """Returns the name of each part, such as `download Fisher`; the dict has the parts in their order in a round."""
    ordered = sorted(set(found), key=lambda part: palette.place(*part))
    return {part: palette.part(*part) for part in ordered}


def seen(bars: Sequence[Mapping[Part, float]]) -> list[dict[Part, float]]:
    """Returns the bars without parts that are too short to be visible in every bar.

    Where such parts are visible together, their sum is the part OTHER.
    """
    least = SEEN * max((sum(bar.values()) for bar in bars), default=0.0)
    shown = {part for bar in bars for part, amount in bar.items() if amount > least}
    made = []
    for bar in bars:
        rest = sum(amount for part, amount in bar.items() if part not in shown)
        whole = {part: amount for part, amount in bar.items() if part in shown and amount > 0}
        made.append({**whole, (palette.OTHER, ""): rest} if rest > least else whole)
    return made


def scale(names: Mapping[Part, str], legend: alt.Legend | None = None) -> alt.Color:
    domain, colours = list(names.values()), palette.of_parts(names)
    return alt.Color(
        "part:N", scale=alt.Scale(domain=domain, range=colours), sort=domain, legend=legend or alt.Legend()
    )


def meanings(found: Iterable[Part], known: Mapping[str, str]) -> list[str]:
    """Returns those of the `known` sentences that explain a family, kind or phase of the parts in `found`."""
    there = {name for part in found for name in part}
    return [said for name, said in known.items() if name in there]


def until(seeds: Mapping[int, Sequence[Row]], target: Target | None) -> dict[int, list[Row]]:
    """Returns, by seed, the rounds up to the one in which the target was reached, for the seeds that reached it.

    Without a target, returns all rounds of the seeds that have any.
    """
    found: dict[int, list[Row]] = {}
    for seed, rows in seeds.items():
        last = reached(rows, target) if target else rows[-1] if rows else None
        if last is not None:
            found[seed] = [row for row in rows if row["round"] <= last["round"]]
    return found


def unit_of(runs: Runs, target: Target | None) -> units.Unit:
    """Returns the unit of time that suits the times to the target, or without a target the lengths of the runs."""
    return units.of_time(rows[-1]["time_s"] for seeds in runs.values() for rows in until(seeds, target).values())


def figure(runs: Runs, target: Target | None, end: float | None = None) -> Figure | None:
    """Returns the chart of the critical path's seconds, over the rounds up to the target, or without a target over
    whole runs; None if there are no such rounds.

    `end`: the end of the axis, s; None: by the data.
    """
    means = {label: mean(until(seeds, target)) for label, seeds in runs.items()}
    fine = {part for found in means.values() for part, seconds in found.items() if seconds > 1e-9}
    if not fine:
        return None
    bars = seen([_families(found) for found in means.values()])
    names, unit = named(part for bar in bars for part in bar), unit_of(runs, target)
    rows = [
        (label, names[part], number, bar[part] / unit.size, 100 * bar[part] / sum(bar.values()))
        for label, bar in zip(means, bars, strict=True)
        for number, part in enumerate(names)
        if part in bar
    ]
    columns = {"label": "string", "part": "string"} | dict.fromkeys(("place", "time", "share"), "number")
    axis = alt.Scale(domain=[0, end / unit.size], nice=False) if end else alt.Undefined
    chart = (
        table(columns, rows)
        .mark_bar(stroke="#888888", strokeWidth=0.4, height=alt.RelativeBandSize(band=0.6))
        .encode(
            y=alt.Y("label:N", title=None, scale=alt.Scale(domain=list(runs))),
            x=alt.X("time:Q", title=f"virtual time, {unit.name}", stack="zero", scale=axis),
            color=scale(names),
            order=alt.Order("place:Q"),
            tooltip=[
                "label:N",
                "part:N",
                alt.Tooltip("time:Q", title=f"time, {unit.name}", format=",.3~f"),
                alt.Tooltip("share:Q", title="%", format=".1f"),
            ],
        )
        .properties(height=height(len(runs)))
    )
    over = f"the seeds that reached {target.name}, up to there" if target else "all seeds, whole runs"
    caption = f"Mean over {over}: of each round, the path of the device whose reply closed it."
    said = (f"{label} {unit.full(sum(bar.values()))}." for label, bar in zip(means, bars, strict=True) if bar)
    description = f"Seconds of the critical path, one stacked bar for each algorithm; mean over {over}. "
    shown = named(fine)
    return Figure(
        "seconds",
        "Where these seconds went" if target else "Where the seconds went",
        " ".join([caption, *meanings([*fine, *names], MEANINGS)]),
        dressed(chart, "seconds", description + " ".join(said)),
        ("part", *(f"{label}, {unit.name}" for label in means)),
        [(name, *(unit.show(found.get(part, 0.0)) for found in means.values())) for part, name in shown.items()],
    )


def _families(found: Mapping[Part, float]) -> dict[Part, float]:
    total: dict[Part, float] = {}
    for (family, _), seconds in found.items():
        total[family, ""] = total.get((family, ""), 0.0) + seconds
    return total
