"""`fedlapse calibrate`: measures the speed of this computer in training."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated

import typer

from devices.device import numbers_of
from devices.profiles import COLUMNS, NAMED
from emulator.commands.devices import POWERS
from emulator.forecast.calibration import Measured, measure
from emulator.sessions.machine import processor
from emulator.terminal.lines import busy


class CalibrationFormat(StrEnum):
    csv = "csv"
    yaml = "yaml"


def calibrate(
    name: Annotated[str, typer.Option(help="Name of the profile that is printed.")] = "host",
    seconds: Annotated[float, typer.Option(help="How long to measure, about, in s.", min=0.1, max=600)] = 10.0,
    threads: Annotated[int, typer.Option(help="Threads that training uses.", min=1)] = 1,
    format: Annotated[
        CalibrationFormat, typer.Option(help="For a profiles file, or for `profiles:` of a scenario.")
    ] = CalibrationFormat.csv,
) -> None:
    """Measures this computer, and prints a profile of it: speed by kind of layer, bandwidth, overheads, memory."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        raise typer.BadParameter(f"{name!r} cannot name a profile; use letters, digits, dots and hyphens")
    if threads > (cores := os.cpu_count() or 1):  # torch crashes with thousands
        raise typer.BadParameter(f"{threads} threads on {cores} cores; it must be {cores} at most")
    with busy(f"measuring this computer for about {seconds:.0f} s"):
        found = measure(seconds, threads)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    lines = csv_lines if format is CalibrationFormat.csv else yaml_lines
    typer.echo("\n".join(lines(name, found, memory, source(threads))))


def source(threads: int) -> str:
    """Returns a text on where the measured numbers come from: the processor, the version of torch, and the number of
    threads."""
    import torch

    with_threads = f"{threads} thread{'s' * (threads > 1)}"
    on = processor().replace('"', "").replace(",", " ")  # must fit into a line of CSV
    return f"measured: fedlapse calibrate on {on} with torch {torch.__version__} and {with_threads}"


def csv_lines(name: str, found: Measured, memory: int, said: str) -> list[str]:
    """Returns the lines of a CSV file of device profiles with this profile alone.

    `memory`: of this computer, in bytes.  `said`: the source of the numbers.
    """
    numbers, today = numbers_of(found.profile(name, said, memory)), date.today()
    lines = [f'{name},{what},{value:.4g},{NAMED[what].unit},"{said}",{today}' for what, value in numbers.items()]
    return [",".join(COLUMNS), *lines, f"# {_unmeasured(POWERS)}, in W"]


def yaml_lines(name: str, found: Measured, memory: int, said: str) -> list[str]:
    """Returns the lines of a scenario's section `profiles:` with this profile alone.  The parameters are as in
    `csv_lines`."""
    numbers = numbers_of(found.profile(name, said, memory))
    lines = [f"{NAMED[what].key}: {value:.6g}" for what, value in numbers.items()]
    source = f'source: "{said} ({date.today()})"'
    more = f"# {_unmeasured([NAMED[power].key for power in POWERS])}"
    return ["profiles:", f'  "{name}":', *(f"    {line}" for line in (*lines, source, more))]


def _unmeasured(keys: Sequence[str]) -> str:
    return f"power is not measured, so no joules are known; add {', '.join(keys)}"
