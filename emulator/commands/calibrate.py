"""`fedlapse calibrate`: measures the speed of this computer in training, or fits a profile to measured steps."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from devices.device import Profile, numbers_of, profiles
from devices.profiles import COLUMNS, NAMED, Said
from emulator.commands.devices import POWERS, sources
from emulator.forecast.calibration import measure
from emulator.forecast.fitting import RATES, Judged, off
from emulator.results.units import counted
from emulator.sessions.machine import processor
from emulator.terminal.errors import told_in_one_line
from emulator.terminal.lines import busy, say
from emulator.wording.layout import columns, grid, printed
from scenarios.text.faults import BadScenario, did_you_mean

SECONDS = 20.0  # of measuring


class CalibrationFormat(StrEnum):
    csv = "csv"
    yaml = "yaml"


def calibrate(
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the profile.")] = "host",
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="How long to measure, about.", min=0.1, max=600, show_default="20")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads that training uses.", min=1, show_default="1")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.csv", help="Fit a profile to the steps in this table."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="With --from: a similar profile, which gives what the steps do not determine.",
            show_default="pi-4",
        ),
    ] = None,
    format: Annotated[
        CalibrationFormat, typer.Option(help="For a profiles file, or for `profiles:` of a scenario.")
    ] = CalibrationFormat.csv,
) -> None:
    """Measure this computer, and print its profile.

    The profile has the speed by kind of layer, bandwidth, overheads and memory. It times training steps of small
    networks, and prints on stderr how well each is predicted from the others.

    With --from it fits a profile to training steps that you measured on another board. FILE.csv has a row for each,
    with the seconds of one step of plain SGD:

    \b
      network,batch,seconds,shape
      mnist-cnn,32,0.41,
      torchvision:resnet18,16,9.62,3x224x224
      mine:network,16,1.07,3x64x64

    A network is a model that comes with fedlapse, torchvision:NAME, timm:NAME, or your own module:function. Further
    columns are `trains` (all, or head: the last layer alone) and `software`.

    \b
    Examples:
      fedlapse calibrate --name my-laptop > my-laptop.csv
      fedlapse calibrate --from steps.csv --name my-board > my-board.csv
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        raise typer.BadParameter(f"{name!r} cannot name a profile; use letters, digits, dots and hyphens")
    if table is None and like is not None:
        raise typer.BadParameter("--like needs --from FILE.csv")
    if table is not None and (seconds or threads):
        raise typer.BadParameter("--seconds and --threads are for measuring; leave them out with --from")
    if (threads or 1) > (cores := os.cpu_count() or 1):  # torch crashes with thousands
        raise typer.BadParameter(f"{threads} threads on {cores} cores; it must be {cores} at most")
    with told_in_one_line():
        said, judged = _fitted(table, like or "pi-4") if table else _measured(seconds or SECONDS, threads or 1)
    say(_error(judged), err=True)
    if judged:
        typer.echo(_table(judged), err=True)
    typer.echo("\n".join((csv_lines if format is CalibrationFormat.csv else yaml_lines)(name, said)))


def _measured(seconds: float, threads: int) -> tuple[dict[str, Said], Sequence[Judged]]:
    """Returns the numbers of this computer, and how well its networks are predicted."""
    with busy(f"measuring this computer for about {seconds:.0f} s"):
        found = measure(seconds, threads)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = f"{source(threads)}; {_error(found.judged)}"
    return said_of(found.profile("", said, memory), RATES, said, "", said), found.judged


def _fitted(table: Path, like: str) -> tuple[dict[str, Said], Sequence[Judged]]:
    """Returns the numbers that fit a table of measured steps, and how well its steps are predicted.  Raises OSError and
    BadScenario."""
    from emulator.forecast.step_table import fit, read

    if like not in profiles():
        raise BadScenario(f"there is no profile {like!r}; {did_you_mean(like, profiles())}")
    with busy(f"counting the work of the networks in {table}"):
        steps = read(table)
        found = fit(steps, profiles()[like])
    software = ", ".join(dict.fromkeys(step.software for step in steps if step.software))
    with_software = f" with {software}" if software else ""
    factors = f"{counted(found.factors, 'factor')} fitted to {counted(len(steps), 'step')} in {table.name}"
    factors += with_software
    say(f"{factors}; all other proportions are from {like}", err=True)
    one = found.factors == 1 < len(found.told)
    kind = f"assumed: in proportion to the rates of {like}" if one else "measured"
    measured = f"{kind}: {factors}; {_error(found.judged)}"
    drawn, others = f"assumed: in proportion to the rates of {like}", f"assumed: as {like}"
    return said_of(found.profile, found.told, measured, drawn, others), found.judged


def _error(judged: Sequence[Judged]) -> str:
    if not judged:
        return "it is fitted to a single network, so its error for others is unknown; measure five or more"
    return f"a network that is left out is off by {off(judged)}"


def _table(judged: Sequence[Judged]) -> str:
    rows = grid("", "step of a network", numbers=("measured s", "predicted from the others", "error"))
    for name, took, seconds in judged:
        rows.add_row(name, f"{took:.4g}", f"{seconds:.4g}", f"{100 * (seconds / took - 1):+.0f} %")
    return printed([rows], columns())


def source(threads: int) -> str:
    """Returns a text on where the measured numbers come from: the processor, the version of torch, and the number of
    threads."""
    import torch

    with_threads = f"{threads} thread{'s' * (threads > 1)}"
    return f"measured: fedlapse calibrate on {processor()} with torch {torch.__version__} and {with_threads}"


def said_of(profile: Profile, told: Collection[str], measured: str, drawn: str, others: str) -> dict[str, Said]:
    """Returns the numbers of a profile, by quantity, with their sources.

    `measured`: the source of the rates `told` (names as in fitting.RATES), and of the single speed if those of
    convolutions and dense layers are among them; `drawn`: that of all other rates; `others`: that of all other numbers.
    """
    one = {"flops_per_s"} if {"conv_flops_per_s", "dense_flops_per_s"} <= {*told} else set()
    sources = {"flops_per_s": drawn} | dict.fromkeys(RATES, drawn) | dict.fromkeys([*told, *one], measured)
    return {
        name: Said(value, NAMED[name].unit, sources.get(NAMED[name].field, others), f"{date.today()}")
        for name, value in numbers_of(profile).items()
    }


def csv_lines(name: str, said: Mapping[str, Said]) -> list[str]:
    """Returns the lines of a CSV file of device profiles with this profile alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([name, what, f"{one.value:.4g}", one.unit, one.source, one.date] for what, one in said.items())
    unmeasured = [] if POWERS[0] in said else [f"# {_unmeasured(POWERS)}, in W"]
    return [*text.getvalue().splitlines(), *unmeasured]


def yaml_lines(name: str, said: Mapping[str, Said]) -> list[str]:
    """Returns the lines of a scenario's section `profiles:` with this profile alone."""
    lines = [f"{NAMED[what].key}: {one.value:.6g}" for what, one in said.items()]
    unmeasured = [] if POWERS[0] in said else [f"# {_unmeasured([NAMED[power].key for power in POWERS])}"]
    quoted = json.dumps(sources(said), ensure_ascii=False)
    return ["profiles:", f'  "{name}":', *(f"    {line}" for line in (*lines, f"source: {quoted}", *unmeasured))]


def _unmeasured(keys: Sequence[str]) -> str:
    return f"power is not measured, so no joules are known; add {', '.join(keys)}"
