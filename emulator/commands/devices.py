"""`fedlapse devices`: lists the hardware profiles, and the source of each number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from devices.profiles import NAMED, Said, Table, shipped
from emulator.commands.options import Format, FormatOption
from emulator.commands.scores import lines
from emulator.terminal.errors import told_in_one_line
from emulator.wording.layout import columns, filled, grid, printed
from scenarios.builders import boards
from scenarios.text.faults import BadScenario, did_you_mean

SPEEDS = ("speed_conv", "speed_dense", "speed_recurrent", "speed_grouped", "speed_pointwise")
POWERS = ("power_idle", "power_compute", "power_radio")
# Two tables of the quantities in devices/profiles.csv: (heading, quantities).
COMPUTING = (
    ("GFLOP/s", ("speed",)),
    ("conv / dense / recurrent / grouped / 1 x 1", SPEEDS),
    ("GB/s / of convolutions", ("memory_bandwidth", "bandwidth_conv")),
    ("ms a step", ("overhead",)),
    ("ms an operator / convolution", ("overhead_operator", "overhead_conv")),
    ("MB", ("memory",)),
)
FURTHER = (
    ("W idle / computing / radio", POWERS),
    ("wake-up s", ("wakeup",)),
    ("jitter cv", ("jitter",)),
    ("sustained", ("sustained",)),
    ("after s", ("heating",)),
)


def devices(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NAME | FILE]",
            help="One profile, or a file of your own profiles, as `fedlapse calibrate` prints it.",
        ),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Print profiles of the phones in a file of AI-Benchmark's scores or FedScale's capacities.",
            rich_help_panel="Profiles of phones",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            metavar="GLOB", help="Only phones whose name this pattern matches.", rich_help_panel="Profiles of phones"
        ),
    ] = "*",
    mflop: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            metavar="X",
            help="MFLOP of the forward pass that FedScale measured.",
            rich_help_panel="Profiles of phones",
        ),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """List the device profiles.

    It shows for each number whether it was measured or assumed.

    \b
    Examples:
      fedlapse devices pi-4
      fedlapse devices --score scores.csv --only 'Google*' > phones.csv
    """
    if score is None and (only != "*" or mflop is not None):
        raise typer.BadParameter("--only and --mflop need --score FILE")
    if score is not None and (file is not None or format is not Format.text):
        raise typer.BadParameter("--score prints a profiles file; leave out FILE and --format")
    with told_in_one_line():
        if score is not None:
            typer.echo("\n".join(lines(score, only, mflop)))
            return
        one = alone(str(file)) if file is not None else None
        known = one or read(file)
    if format is Format.json:
        typer.echo(_json(known))
    else:
        typer.echo(_one(known) if one else _text(known))


def alone(name: str) -> Table | None:
    """Returns a table with only the built-in profile of this name; None if the name is that of a file.

    Raises BadScenario if there is neither such a profile nor such a file.
    """
    if name in (known := shipped()):
        return {name: known[name]}
    if not Path(name).suffix and not Path(name).exists():
        raise BadScenario(f"there is no profile or file {name!r}; {did_you_mean(name, known, 'a file, or one of')}")
    return None


def _one(known: Table) -> str:
    """Returns a table with a single profile as text: each number with its source."""
    ((name, said),) = known.items()
    table = grid(name, "quantity", numbers=["value"])
    table.add_column("unit")
    table.add_column("source")
    for quantity, one in said.items():
        table.add_row(NAMED[quantity].key, _number(one), one.unit, f"{one.source} ({one.date})")
    return printed([table], columns())


def read(file: Path | None = None) -> Table:
    """Returns the profiles that come with fedlapse and, if `file` is given, those in the file.

    Raises BadScenario if a scenario could not use the file, for example because it repeats a built-in name.
    """
    known = shipped()
    own = boards.read(str(file)) if file is not None else {}
    if taken := sorted(own.keys() & known.keys()):
        raise BadScenario(f"{file}: {taken[0]!r} is a profile that comes with fedlapse; give yours another name")
    return known | own


def _json(known: Table) -> str:
    said = {
        name: {quantity: {**asdict(one), "measured": one.measured} for quantity, one in quantities.items()}
        for name, quantities in known.items()
    }
    return json.dumps(said, indent=1)


def _text(known: Table) -> str:
    width = columns()
    legend = (
        "~: assumed, not measured. -: not given; a kind of layer then has the speed of the first column, and other "
        "effects are left out. A scenario can set its own numbers (speed_gflop_s, memory_bandwidth_gb_s, ..., or "
        "`profiles:`). Jitter, wake-up and throttling only apply if a scenario turns them on; joules always do."
    )
    parts = [_grid("Device profiles: computing", known, COMPUTING), _grid("Power and further effects", known, FURTHER)]
    own = [filled(f"{name}: {sources(of)}", width, "  ") for name, of in known.items() if name not in shipped()]
    source = "\n".join(["`fedlapse devices NAME` shows the source of each number.", *own])
    return printed([*parts, filled(legend, width), source], width)


def sources(quantities: Mapping[str, Said]) -> str:
    """Returns the sources of a profile's numbers, each once after the quantities that come from it.

    For example: `speed: measured: ...; memory, overhead: assumed (2026-11-21)`.
    """
    said: dict[tuple[str, str], list[str]] = {}
    for quantity, one in quantities.items():
        said.setdefault((one.source, one.date), []).append(quantity.replace("_", " "))
    dates = sorted({date for _, date in said})
    each = [f"{', '.join(which)}: {source}" for (source, _), which in said.items()]
    return f"{'; '.join(each)} ({', '.join(dates)})"


def _grid(title: str, known: Table, columns: Sequence[tuple[str, Sequence[str]]]) -> Grid:
    table = grid(title, "profile", numbers=[heading for heading, _ in columns])
    for name, said in known.items():
        table.add_row(name, *(_numbers(said, quantities) for _, quantities in columns))
    return table


def _numbers(said: Mapping[str, Said], quantities: Sequence[str]) -> str:
    if not any(quantity in said for quantity in quantities):
        return "-"
    numbers = [_number(said.get(quantity)) for quantity in quantities]
    while numbers[-1] == "-":
        numbers.pop()
    return " / ".join(numbers)


def _number(said: Said | None) -> str:
    if said is None:
        return "-"
    value = f"{said.value:.4g}" if said.value < 1000 else f"{said.value:.0f}"
    return value if said.measured else f"~{value}"
