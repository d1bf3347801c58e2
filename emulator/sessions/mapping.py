"""Maps: finished runs are replayed at each point of a grid of links and device speeds, to show which algorithm is
fastest there.  A cell is one point of the grid with its result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.record.digest import digest
from emulator.record.seal import renew
from emulator.record.writing import replace_file
from emulator.replay.batch import Batch, Order
from emulator.replay.conditions import Condition
from emulator.replay.findings import ALL, ASSUMPTION, UNKNOWN, finding, goals
from emulator.replay.grid import Axis, MapCell, Point, cell, conditions
from emulator.results.units import counted, under
from emulator.sessions.replay_runs import ReplayChoice, Replaying
from emulator.sessions.replaying import Played
from emulator.terminal.stopping import uninterrupted
from scenarios.builders.machines import base_name
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario
from scenarios.text.dimensions import RATE, SECONDS, SPEED
from scenarios.text.faults import did_you_mean

GRID = "Grid"  # group of options in --help
MOST = 4096  # cells
UPLINKS, LATENCIES = "0.1..100Mbit/s", "5..500ms"  # ranges of a map without options


@dataclass(frozen=True)
class Ranges:
    """Options for the grid of a map."""

    uplink: Annotated[
        str | None,
        typer.Option(metavar="RANGE", help=f"Rates of uplinks, such as {UPLINKS}, or one value.", rich_help_panel=GRID),
    ] = None
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="RANGE", help=f"Latency one way, such as {LATENCIES}, or one value.", rich_help_panel=GRID
        ),
    ] = None
    speed: Annotated[
        str | None,
        typer.Option(
            metavar="RANGE",
            help="Speed of all devices, such as 0.1..100GFLOP/s, or one value.",
            rich_help_panel=GRID,
        ),
    ] = None
    points: Annotated[
        int,
        typer.Option(min=2, max=64, metavar="N", help="Values in each range, on a log scale.", rich_help_panel=GRID),
    ] = 7
    symmetric: Annotated[
        bool,
        typer.Option(
            "--symmetric", help="Downlinks are as fast as uplinks. Default: as in the run.", rich_help_panel=GRID
        ),
    ] = False

    def axes(self) -> list[Axis]:
        """Returns the axes of the grid, each with its values.

        Raises ValueError if no option is a range of several values, or if the grid has more than MOST cells.
        """
        uplink, latency = self.uplink, self.latency
        if uplink is latency is self.speed is None:
            uplink, latency = UPLINKS, LATENCIES
        said = (("uplink", uplink, RATE), ("latency", latency, SECONDS), ("speed", self.speed, SPEED))
        axes = [Axis.over(name, of.span(text), self.points) for name, text, of in said if text is not None]
        sizes = [len(axis.values) for axis in axes]
        if not any(size > 1 for size in sizes):
            raise ValueError(f"a map needs a range, such as --uplink {UPLINKS} --latency {LATENCIES}")
        if prod(sizes) > MOST:
            raise ValueError(f"{' x '.join(map(str, sizes))} cells are more than {MOST}; give fewer --points")
        return axes


@dataclass(frozen=True)
class Drawn:
    """A map: its cells that were replayed (fewer than the grid has if the command was stopped), and its folder."""

    batch: Batch
    cells: Sequence[MapCell]
    total: int  # cells of the grid
    goal: str  # the target of the map
    fallen: Sequence[str]  # why `goal` is not the scenario's hardest target: a sentence, or nothing if it is
    out: Path
    text: str  # map.json; empty: no cell was played, and nothing is written
    played: Played


def draw(
    ranges: Ranges,
    recorded: ReplayChoice,
    replaying: Replaying,
    *,
    target: str | None = None,
    out: Path | None = None,
    fleet: Scenario | None = None,
) -> Drawn:
    """Replays finished runs at each point of the grid, and writes map.html, map.png and map.json to OUT, by default the
    folder of the runs.

    `fleet` is as in `ReplayChoice.batch`.  Raises ValueError if there is nothing to replay or to compare.
    """
    axes = ranges.axes()
    batch = recorded.batch(fleet)
    goal, place, rate, symmetric = _target(batch, target), out or recorded.run, recorded.server_rate, ranges.symmetric
    base = Condition("map", server_rate=None if rate is None else RATE.value(rate))
    grid = list(conditions(axes, base, symmetric))
    play = replaying.player(batch)
    played = play([Order(run, condition) for _, condition in grid for run in range(len(batch.scripts))])
    cells, fallen = list(_cells(batch, grid, played, goal)), _fallen_back(batch, goal, target)
    text = ""
    if cells:
        notes = [*batch.notes, *fallen, *_notes(batch, symmetric, rate), *_open(cells, len(grid))]
        files = _drawn(batch, cells, axes, goal, notes)
        with uninterrupted():
            place.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                replace_file(place / name, content)
            renew(place, files)
        text = str(files["map.json"])
    return Drawn(batch, cells, len(grid), goal, fallen, place, text, played)


def _target(batch: Batch, named: str | None) -> str:
    names = [*(target.name for target in batch.targets), ALL]
    if named is not None and named not in names:
        raise ValueError(f"--target {named}: the scenario has no such target; {did_you_mean(named, names)}")
    if len(batch.labels) < 2:
        raise ValueError(f"{batch.source.path} holds runs of {batch.labels[0]} alone; a map compares two or more")
    reached = goals(batch.recorded)
    return named or next((name for name in _hardest_first(batch) if name in reached), reached[0])


def _hardest_first(batch: Batch) -> list[str]:
    """Returns the names of the scenario's targets, hardest first."""
    return [target.name for target in sorted(batch.targets, key=lambda target: target.hardness, reverse=True)]


def _fallen_back(batch: Batch, target: str, named: str | None) -> list[str]:
    """Returns a sentence that says so if no run reached the scenario's hardest target, and the map shows another one;
    else, or if the user named the target, []."""
    first = next(iter(_hardest_first(batch)), target)
    if named is not None or target == first:
        return []
    return [f"no run of the record reaches {first}, so this is the time to {called(batch, target)}"]


def called(batch: Batch, target: str) -> str:
    return f"the end of {batch.every}" if target == ALL else target


def _cells(batch: Batch, points: Sequence[Point], played: Played, target: str) -> Iterator[MapCell]:
    """Yields the cell of each point at which every run was replayed; a stopped command may have left some out."""

    runs = len(batch.scripts)
    for number, (place, condition) in enumerate(points[: len(played.results) // runs]):
        results = played.results[number * runs : (number + 1) * runs]
        yield cell(place, finding(condition.name, (), results), target)


def _notes(batch: Batch, symmetric: bool, server_rate: str | None) -> list[str]:
    rate = RATE.value(server_rate) if server_rate else batch.base.server_link.mean("down")
    said = ["assumed: the downlink is as fast as the uplink" if symmetric else "downlinks are as recorded"]
    said.append(f"the server's link takes {rate * 8e-6:g} Mbit/s of uploads")
    said += ["the runs of every cell were really trained"] if batch.source.train else []
    return [*said, *([batch.match] if batch.match else []), under(batch.network)]


def _open(cells: Sequence[MapCell], total: int) -> Iterator[str]:
    """Yields a line for each limit of the map: cells that were not played, cells without a known result, and cells with
    assumed accuracies."""

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


def _own(batch: Batch) -> list[dict[str, Any]]:
    """Returns the kinds of devices of the fleet with their values on all axes, a name for each distinct place."""
    found = {}
    for name in sample(batch.base.links):
        link, profile = batch.base.links[name], batch.base.fleet[name].profile
        at = {"uplink": link.mean("up"), "latency": link.latency, "speed": profile.flops_per_s}
        found[base_name(profile), *at.values()] = {"name": base_name(profile), **at}
    return list(found.values())


def _drawn(
    batch: Batch, cells: Sequence[MapCell], axes: Sequence[Axis], target: str, notes: Sequence[str]
) -> dict[str, str | bytes]:
    """Returns the contents of map.html, map.png and map.json, by name."""
    from emulator.report import winners  # altair takes a second to import

    goal, own = called(batch, target), _own(batch)
    shown = winners.figure(cells, axes, batch.labels, goal, winners.caption(cells, batch.labels, notes), own)
    said = {
        "scenario": batch.scenario.name,
        "network": batch.network,
        "digest": digest(batch.home),
        "target": goal,
        "labels": batch.labels,
        "axes": {axis.name: list(axis.values) for axis in axes},
        "notes": list(notes),
        "fleet": own,
        "cells": winners.rows(cells, axes),
    }
    page = winners.page(shown, f"Made by fedlapse map from {batch.scenario.name}.")
    return {"map.html": page, "map.png": winners.png(shown), "map.json": json.dumps(said, indent=1) + "\n"}
