"""`fedlapse map`: which algorithm is the first to get there, over a grid of links and speeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands.options import Format, FormatOption
from emulator.commands.replay import Anyway, Fleet, Only, Run, ServerRate, Workers, scenario, told_in_one_line

if TYPE_CHECKING:
    from emulator.replays.company import Company
    from emulator.replays.grid import Axis, Cell

MOST = 4096  # cells


def map_(
    run: Run,
    uplink: Annotated[str | None, typer.Option(metavar="RANGE", help="As 0.1..100Mbit/s, or one value.")] = None,
    latency: Annotated[str | None, typer.Option(metavar="RANGE", help="One way, as 5..500ms, or one value.")] = None,
    speed: Annotated[
        str | None,
        typer.Option(metavar="RANGE", help="Of all devices, as 0.1..100GFLOP/s, or one value. Needs the run's data."),
    ] = None,
    points: Annotated[int, typer.Option(min=2, max=64, help="Values in each range, evenly spaced on a log scale.")] = 7,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="Downlink = uplink. Default: as it was.")] = False,
    target: Annotated[
        str | None, typer.Option(help="One of the scenario's, as 'accuracy 0.9'. Default: the first.")
    ] = None,
    server_rate: ServerRate = None,
    fleet: Fleet = None,
    algorithm: Only = None,
    anyway: Anyway = False,
    out: Annotated[Path | None, typer.Option(help="Folder for map.html, map.png and map.json. Default: RUN.")] = None,
    workers: Workers = None,
    format: FormatOption = Format.text,
) -> None:
    """Replays finished runs over a grid of links, and draws who reaches a target first, and by how much.

    Cells in which the seeds disagree are marked. Exit code 2 for bad input.
    """
    with told_in_one_line("map"):
        from emulator.replays.company import Company, Source

        axes = _axes(uplink, latency, speed, points)
        company = Company(Source(run, scenario(fleet), anyway, tuple(algorithm or ())))
        goal = _target(company, target)
        cells = _cells(company, axes, goal, server_rate, symmetric, workers)
        folder = out or run
        written = _draw(company, cells, axes, goal, folder, _notes(company, symmetric, server_rate))
        typer.echo(written if format is Format.json else _text(company, cells, folder, goal))


map_.__name__ = "map"  # the command's; as a name here it would hide Python's


def _axes(uplink: str | None, latency: str | None, speed: str | None, points: int) -> list[Axis]:
    from emulator.quantities import RATE, SECONDS, SPEED
    from emulator.replays.grid import Axis

    said = (("uplink", uplink, RATE), ("latency", latency, SECONDS), ("speed", speed, SPEED))
    axes = [Axis.over(name, of.span(text), points) for name, text, of in said if text is not None]
    sizes = [len(axis.values) for axis in axes]
    if not any(size > 1 for size in sizes):
        raise ValueError("a map needs a range, as --uplink 0.1..100Mbit/s --latency 5..500ms")
    total = 1
    for size in sizes:
        total *= size
    if total > MOST:
        raise ValueError(f"{' x '.join(map(str, sizes))} cells are more than {MOST}; give fewer --points")
    return axes


def _target(company: Company, named: str | None) -> str:
    from emulator.replays.findings import ALL
    from scenarios.faults import did_you_mean

    names = [target.name for target in company.targets] or [ALL]
    if named is not None and named not in names:
        raise ValueError(f"--target {named}: the scenario has no such target; {did_you_mean(named, names)}")
    if len(company.labels) < 2:
        raise ValueError(f"{company.source.path} holds runs of {company.labels[0]} alone; a map compares two or more")
    return named or names[0]


def _cells(
    company: Company,
    axes: Sequence[Axis],
    target: str,
    server_rate: str | None,
    symmetric: bool,
    workers: int | None,
) -> list[Cell]:
    from emulator.quantities import RATE
    from emulator.replays.company import Order
    from emulator.replays.conditions import Condition
    from emulator.replays.findings import finding
    from emulator.replays.grid import cell, conditions

    base = Condition("map", server_rate=None if server_rate is None else RATE.value(server_rate))
    runs = range(len(company.scripts))
    points = list(conditions(axes, base, symmetric))
    told = company.all([Order(run, condition) for _, condition in points for run in runs], workers)
    found = ((place, finding(at.name, (), [next(told) for _ in runs])) for place, at in points)
    return [cell(place, each, target) for place, each in found]


def _notes(company: Company, symmetric: bool, server_rate: str | None) -> list[str]:
    from emulator.quantities import RATE

    rate = RATE.value(server_rate) if server_rate else company.base.server_link.mean("down")
    said = ["assumed: the downlink is as fast as the uplink" if symmetric else "downlinks are as recorded"]
    said.append(f"the server's link takes {rate * 8e-6:g} Mbit/s of uploads")
    return [*said, *([company.match] if company.match else [])]


def _draw(
    company: Company, cells: Sequence[Cell], axes: Sequence[Axis], target: str, out: Path, notes: Sequence[str]
) -> str:
    """Writes map.json, map.html and map.png; the JSON."""
    from emulator.digest import digest
    from emulator.record import replace_file
    from emulator.report import winners

    shown = winners.figure(cells, axes, company.labels, target, winners.caption(company.labels, notes))
    said = {
        "scenario": company.scenario.name,
        "digest": digest(company.home),
        "target": target,
        "labels": company.labels,
        "axes": {axis.name: list(axis.values) for axis in axes},
        "notes": list(notes),
        "cells": winners.rows(cells, axes),
    }
    text = json.dumps(said, indent=1)
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "map.json", text + "\n")
    replace_file(out / "map.html", winners.page(shown, f"Made by fedlapse map from {company.scenario.name}."))
    (out / "map.png").write_bytes(winners.png(shown))
    return text


def _text(company: Company, cells: Sequence[Cell], out: Path, target: str) -> str:
    lines = [f"{company.scenario.name}: first to {target}, of {len(cells)} cells"]
    for label in company.labels:
        won = [each for each in cells if each.winner == label]
        ratios = [each.ratio for each in won if each.ratio is not None]
        most = f", up to {max(ratios):.2f}x as fast as the next" if ratios else ""
        lines.append(f"  {label}: {len(won)}{most}")
    split, open_ = sum(not each.agree for each in cells), sum(not each.exact for each in cells)
    nobody = sum(each.winner is None and each.exact for each in cells)
    for number, what in (
        (split, "the seeds disagree"),
        (open_, "the replay is not exact"),
        (nobody, "nobody gets there"),
    ):
        if number:
            lines.append(f"  {what} in {number}")
    return "\n".join([*lines, f"map: {out / 'map.html'}"])
