"""`fedlapse map`: which algorithm is the first to get there, over a grid of links and speeds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.lines import say
from emulator.commands.options import Format
from emulator.commands.reliance import soundness_told
from emulator.commands.replay.cli import Recorded, Replaying
from emulator.commands.replay.play import Played
from emulator.commands.stopping import uninterrupted
from emulator.record.digest import digest
from emulator.record.folders import home
from emulator.record.record import replace_file
from emulator.record.seal import renew
from emulator.replay.batch import Batch, Order, Source
from emulator.replay.conditions import Condition
from emulator.replay.findings import ALL, ASSUMPTION, UNKNOWN, finding, goals
from emulator.replay.grid import Axis, Cell, Point, cell, conditions
from emulator.results.units import counted, under
from scenarios.text.dimensions import RATE, SECONDS, SPEED
from scenarios.text.faults import did_you_mean

MOST = 4096  # cells
UPLINKS, LATENCIES = "0.1..100Mbit/s", "5..500ms"  # of a map of which nothing is said
REASONS = 3  # for which cells are not exact, that are told
DOUBTS: dict[str, Callable[[Cell], bool]] = {
    "tie": lambda cell: cell.tie,
    "the seeds disagree": lambda cell: not cell.agree and not cell.tie,
    "no algorithm gets there": lambda cell: cell.winner is None and cell.known,
    "it is not known": lambda cell: not cell.known,
    "accuracies are assumed": lambda cell: cell.assumed,
}


Uplink = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help=f"Rates of uplinks, such as {UPLINKS}, or one value."),
]
Latency = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help=f"Latency one way, such as {LATENCIES}, or one value."),
]
Speed = Annotated[
    str | None,
    typer.Option(
        metavar="RANGE",
        help="Speed of all devices and kinds of layers, such as 0.1..100GFLOP/s, or one value.",
    ),
]
Points = Annotated[
    int,
    typer.Option(min=2, max=64, help="Values in each range, evenly spaced on a log scale."),
]
Symmetric = Annotated[
    bool,
    typer.Option("--symmetric", help="Downlinks are as fast as uplinks. Default: as in the run."),
]
Goal = Annotated[
    str | None,
    typer.Option(
        help="Such as 'accuracy 0.9', or 'all rounds'. Default: the hardest that was reached, else all rounds.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for map.html, map.png and map.json. Default: RUN."),
]


def map_(
    *,
    uplink: Uplink = None,
    latency: Latency = None,
    speed: Speed = None,
    points: Points = 7,
    symmetric: Symmetric = False,
    target: Goal = None,
    recorded: Recorded,
    out: Out = None,
    replaying: Replaying,
) -> None:
    """Replays finished runs over a grid of links, and draws which algorithm reaches a target first, and by how much.

    Without a range: uplinks of 0.1 to 100 Mbit/s and latencies of 5 to 500 ms. Cells in which the seeds disagree are
    marked. Exit codes: 0; 1 a worker was killed, or an algorithm failed; 2 bad input; 130 Ctrl-C.
    """
    if recorded.train:
        replaying.have_workers_ready()
    with soundness_told([home(recorded.run)]):
        axes = _axes(uplink, latency, speed, points)
        batch = recorded.batch()
        goal = _target(batch, target)
        grid = _points(axes, recorded.server_rate, symmetric)
        play = replaying.player(batch)
        played = play([Order(run, condition) for _, condition in grid for run in range(len(batch.scripts))])
        cells = list(_cells(batch, grid, played, goal))
        _say_why(played, len(cells), len(grid))
        if cells:
            fallen = _fallen_back(batch, goal, target)
            notes = [*batch.notes, *fallen, *_notes(batch, symmetric, recorded.server_rate), *_open(cells, len(grid))]
            files = _drawn(batch, cells, axes, goal, notes)
            _write(out or recorded.run, files)
            if replaying.format is Format.json:
                typer.echo(files["map.json"], nl=False)
            else:
                said = _text(batch, cells, len(grid), out or recorded.run, goal, fallen)
                say("\n".join([*said, *filter(None, [played.trained])]))
        if played.code:
            raise typer.Exit(played.code)


def _axes(uplink: str | None, latency: str | None, speed: str | None, points: int) -> list[Axis]:

    if uplink is latency is speed is None:
        uplink, latency = UPLINKS, LATENCIES
    said = (("uplink", uplink, RATE), ("latency", latency, SECONDS), ("speed", speed, SPEED))
    axes = [Axis.over(name, of.span(text), points) for name, text, of in said if text is not None]
    sizes = [len(axis.values) for axis in axes]
    if not any(size > 1 for size in sizes):
        raise ValueError(f"a map needs a range, such as --uplink {UPLINKS} --latency {LATENCIES}")
    total = 1
    for size in sizes:
        total *= size
    if total > MOST:
        raise ValueError(f"{' x '.join(map(str, sizes))} cells are more than {MOST}; give fewer --points")
    return axes


def _target(batch: Batch, named: str | None) -> str:

    names = [*(target.name for target in batch.targets), ALL]
    if named is not None and named not in names:
        raise ValueError(f"--target {named}: the scenario has no such target; {did_you_mean(named, names)}")
    if len(batch.labels) < 2:
        raise ValueError(f"{batch.source.path} holds runs of {batch.labels[0]} alone; a map compares two or more")
    reached = goals(batch.recorded)
    return named or next((name for name in _hardest_first(batch) if name in reached), reached[0])


def _hardest_first(batch: Batch) -> list[str]:
    """The scenario's targets, as the verdict looks at them."""
    ordered = sorted(batch.targets, key=lambda each: (each.value, each.hold), reverse=True)
    return [target.name for target in ordered]


def _fallen_back(batch: Batch, target: str, named: str | None) -> list[str]:
    """Why the map is not of the scenario's hardest target, though nobody asked for another."""
    first = next(iter(_hardest_first(batch)), target)
    if named is not None or target == first:
        return []
    return [f"no run of the record reaches {first}, so this is the time to {_called(batch, target)}"]


def _called(batch: Batch, target: str) -> str:

    return f"the end of {batch.every}" if target == ALL else target


def _points(axes: Sequence[Axis], server_rate: str | None, symmetric: bool) -> list[Point]:

    base = Condition("map", server_rate=None if server_rate is None else RATE.value(server_rate))
    return list(conditions(axes, base, symmetric))


def _cells(batch: Batch, points: Sequence[Point], played: Played, target: str) -> Iterator[Cell]:
    """Those of which every run was replayed."""

    runs = len(batch.scripts)
    for number, (place, condition) in enumerate(points[: len(played.results) // runs]):
        results = played.results[number * runs : (number + 1) * runs]
        yield cell(place, finding(condition.name, (), results), target)


def _notes(batch: Batch, symmetric: bool, server_rate: str | None) -> list[str]:

    rate = RATE.value(server_rate) if server_rate else batch.base.server_link.mean("down")
    said = ["assumed: the downlink is as fast as the uplink" if symmetric else "downlinks are as recorded"]
    said.append(f"the server's link takes {rate * 8e-6:g} Mbit/s of uploads")
    said += ["every cell's runs were really played"] if batch.source.train else []
    return [*said, *([batch.match] if batch.match else []), under(batch.network)]


def _open(cells: Sequence[Cell], total: int) -> Iterator[str]:
    """What is not as it should be, for whoever looks at the map."""

    if len(cells) < total:
        yield f"stopped after {len(cells)} of {total} cells"
    if unknown := [each.why for each in cells if not each.known]:
        why, _ = Counter(unknown).most_common(1)[0]
        often = "most often: " if len(set(unknown)) > 1 else ""
        yield f"{UNKNOWN} in {_cells_of(len(unknown))} ({often}{why})"
    if assumed := sum(each.assumed for each in cells):
        yield f"assumed in {_cells_of(assumed)}: {ASSUMPTION}"


def _cells_of(number: int) -> str:

    return counted(number, "cell")


def _drawn(
    batch: Batch, cells: Sequence[Cell], axes: Sequence[Axis], target: str, notes: Sequence[str]
) -> dict[str, str | bytes]:
    """The files of the map, by name."""
    from emulator.report import winners  # altair takes a second to import

    goal = _called(batch, target)
    shown = winners.figure(cells, axes, batch.labels, goal, winners.caption(cells, batch.labels, notes))
    said = {
        "scenario": batch.scenario.name,
        "network": batch.network,
        "digest": digest(batch.home),
        "target": goal,
        "labels": batch.labels,
        "axes": {axis.name: list(axis.values) for axis in axes},
        "notes": list(notes),
        "cells": winners.rows(cells, axes),
    }
    page = winners.page(shown, f"Made by fedlapse map from {batch.scenario.name}.")
    return {"map.html": page, "map.png": winners.png(shown), "map.json": json.dumps(said, indent=1) + "\n"}


def _write(out: Path, drawn: Mapping[str, str | bytes]) -> None:

    with uninterrupted():
        out.mkdir(parents=True, exist_ok=True)
        for name, content in drawn.items():
            replace_file(out / name, content)
        renew(out, drawn)


def _text(
    batch: Batch,
    cells: Sequence[Cell],
    total: int,
    out: Path,
    target: str,
    fallen: Sequence[str],
) -> Iterator[str]:
    played = f"{total} cells"
    if len(cells) < total:
        played = f"the {len(cells)} of {total} cells that were played"
    goal = _called(batch, target)
    yield f"{batch.scenario.name}: which algorithm is first to {goal}, in {played}, network model {batch.network}"
    yield from (f"  {why}" for why in fallen)
    for label in batch.labels:
        yield _wins(label, [each for each in cells if each.first == label])
    yield from _without_winner(cells)
    yield from _two_alone(batch.labels, cells)
    yield from _unknown(cells)
    yield from _assumed(cells, batch.source)
    yield f"map: {out / 'map.html'}"


def _wins(label: str, won: Sequence[Cell]) -> str:
    """In how many cells an algorithm is first, and by how much at most."""
    ratios = [each.ratio for each in won if each.ratio is not None]
    most = f", up to {max(ratios):.2f}x as fast as the next" if ratios else ""
    return f"  {label} in {len(won)}{most}"


def _without_winner(cells: Sequence[Cell]) -> Iterator[str]:
    """In how many cells nobody is clearly first, or not for sure."""
    for what, holds in DOUBTS.items():
        if number := sum(map(holds, cells)):
            why = ": the first two are less than 1 % apart, or not distinguishable" if what == "tie" else ""
            yield f"  {what} in {number}{why}"


def _two_alone(labels: Sequence[str], cells: Sequence[Cell]) -> Iterator[str]:
    """Where a third is as fast as the first, it may hide which of two is first."""
    if len(labels) > 2 and any(each.tie for each in cells):
        yield f"  two alone: -a NAME -a NAME, such as -a {labels[-2]} -a {labels[-1]}"


def _unknown(cells: Sequence[Cell]) -> Iterator[str]:
    """Why cells are not known, or not exact, the most frequent reasons first."""

    reasons = Counter(each.why for each in cells if each.why)
    for why, number in reasons.most_common(REASONS):
        yield f"    in {number}: {why}"
    if len(reasons) > REASONS:
        yield f"    and {counted(len(reasons) - REASONS, 'other reason')} in map.json"


def _assumed(cells: Sequence[Cell], source: Source) -> Iterator[str]:
    """What --anyway has assumed, or would assume."""

    if any(each.assumed for each in cells):
        yield f"    assumed: {ASSUMPTION}"
    if any(each.why for each in cells) and not (source.anyway or source.train):
        yield "    --train goes on, and trains what differs"
        yield f"    --anyway goes on: {ASSUMPTION}"


def _say_why(played: Played, cells: int, total: int) -> None:
    """Why it ended early, if it did, and what is left; at once, as drawing takes seconds."""
    if not played.whole:
        left = f"{cells} of {total} cells are drawn" if cells else "no cell was done, and nothing is written"
        say(f"fedlapse: {played.why}; {left}", err=True)
