"""A chart of the seconds of each round's critical path, in the run that the reader chooses on the page.

The reader can click on the bar of a round to choose this round.  Rounds are counted from 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import altair as alt

from emulator.report.critical import named, parts, scale, seen
from emulator.report.curves import thinned
from emulator.report.figure import Figure, dressed, table
from emulator.results import units
from emulator.results.results import Row, Runs

POINTS = 5_000  # bars on a page, and as many bars of devices
PARTS = 10  # assumed bars of a round
DEVICES = 60  # shown devices of a run
Run = tuple[str, int]  # label, seed


def kept(runs: Runs) -> dict[Run, list[Row]]:
    """Returns the rounds that fit on a page, by run.

    If not all do: only the first seed of each label and, if these have too many rounds, evenly spaced ones.
    """
    every = {(label, seed): rows for label, seeds in runs.items() for seed, rows in seeds.items() if rows}
    if sum(max(PARTS, bars(row)) for rows in every.values() for row in rows) > POINTS:
        firsts: dict[str, Run] = {}
        for run in every:
            firsts.setdefault(run[0], run)
        every = {run: every[run] for run in firsts.values()}
    most = POINTS // PARTS // max(1, len(every))
    return {run: thinned(rows, most) for run, rows in every.items()}


def bars(row: Row) -> int:
    """Returns the number of bars that the activities of one round's devices and server need at most, if each activity
    happens once."""
    return 3 * min(int(row["asked"]), DEVICES) + 3


def figure(runs: Runs) -> Figure | None:
    shown = kept(runs)
    if not shown:
        return None
    every = [(number, row) for number, rows in enumerate(shown.values()) for row in rows]
    drawn = [
        (number, row["round"] + 1, part, seconds)
        for (number, row), bar in zip(every, seen([parts(row) for _, row in every]), strict=True)
        for part, seconds in bar.items()
    ]
    names = named(part for _, _, part, _ in drawn)
    unit = units.of_time(sum(parts(row).values()) for rows in shown.values() for row in rows)
    places = {part: number for number, part in enumerate(names)}
    rows = [(run, round, names[part], places[part], seconds / unit.size) for run, round, part, seconds in drawn]
    columns = {"run": "number", "round": "number", "part": "string", "place": "number", "time": "number"}
    x = alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=4))
    here = table(columns, rows).transform_filter("datum.run == run").encode(x=x)
    one = here.transform_aggregate(n="count()", groupby=["round"])
    is_chosen = "datum.round == round"
    chart = alt.LayerChart(
        layer=[
            one.mark_rect(fill=None, stroke="#777777", strokeDash=[3, 2], strokeWidth=1.5).encode(
                opacity=alt.condition(is_chosen, alt.value(1), alt.value(0))
            ),
            one.mark_point(shape="triangle-down", filled=True, size=90, color="#777777").encode(
                y=alt.value(-7), opacity=alt.condition(is_chosen, alt.value(1), alt.value(0))
            ),
            here.mark_bar(stroke="#888888", strokeWidth=0.3, cursor="pointer").encode(
                y=alt.Y("time:Q", title=f"virtual time, {unit.name}", stack="zero"),
                color=scale(names, alt.Legend(values=alt.ExprRef(f"{_there(rows, len(shown))}[run]"))),
                order=alt.Order("place:Q"),
                tooltip=["round:O", "part:N", alt.Tooltip("time:Q", title=f"time, {unit.name}", format=",.3~f")],
            ),
        ]
    )
    chart = chart.add_params(alt.param(name="run", value=0), alt.param(name="round", value=0))
    description = "Seconds of the critical path of each round of the chosen run, stacked in the order of a round."
    return Figure(
        "rounds",
        "Each round’s seconds",
        "Choose a run above; a round there, or with a click on its bar, and the next picture shows its devices. Rounds "
        "are counted from 1." + left_out(runs, shown),
        dressed(chart.properties(height=240), "rounds", description),
    )


def _there(rows: Sequence[Any], runs: int) -> str:
    """Returns a Vega expression: a list of lists, with the names of the parts that each run has, in their order."""
    ordered = sorted(rows, key=itemgetter(3))
    return json.dumps([list(dict.fromkeys(row[2] for row in ordered if row[0] == run)) for run in range(runs)])


def left_out(runs: Runs, shown: dict[Run, list[Row]]) -> str:
    """Returns a sentence on what a page holds if it leaves out runs or rounds; "" if it has all of them.

    `shown`: the rounds on the page, by run.
    """
    all_runs = sum(bool(rows) for seeds in runs.values() for rows in seeds.values())
    said = []
    if len(shown) < all_runs:
        said.append("the first seed of each algorithm")
    if any(len(rows) < len(runs[label][seed]) for (label, seed), rows in shown.items()):
        said.append(f"at most {max(map(len, shown.values()))} evenly spaced rounds of a run")
    return f" To stay small, this page holds {' and '.join(said)}." if said else ""
