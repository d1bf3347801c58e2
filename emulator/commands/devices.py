"""`fedlapse devices`: which profiles are there, and who measured them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from emulator.commands.options import Format, FormatOption

if TYPE_CHECKING:
    from rich.table import Table

QUANTITIES = ("speed", "memory_bandwidth", "overhead", "memory")  # as in devices/profiles.csv
Profiles = dict[str, dict[str, dict[str, Any]]]  # profile -> quantity -> value, unit, measured, source, date


def devices(format: FormatOption = Format.text) -> None:
    """Lists the device profiles, and for each number whether somebody measured it."""
    import json

    known = read()
    typer.echo(json.dumps(known, indent=1) if format is Format.json else _text(known))


def read() -> Profiles:
    """What devices/profiles.csv says."""
    import csv
    from importlib import resources

    lines = resources.files("devices").joinpath("profiles.csv").read_text(encoding="utf-8").splitlines()
    known: Profiles = {}
    for row in csv.DictReader(lines):
        known.setdefault(row["name"], {})[row["quantity"]] = {
            "value": float(row["value"]),
            "unit": row["unit"],
            "measured": row["source"].startswith("measured"),
            "source": row["source"],
            "date": row["date"],
        }
    return known


def _text(known: Profiles) -> str:
    from emulator.commands.plan_text import columns, filled, printed

    width = columns()
    legend = "~ assumed: nobody measured it.  A scenario may give its own: speed_gflop_s, memory_bandwidth_gb_s, ..."
    sources = [filled(f"{name}: {_sources(quantities)}", width, "  ") for name, quantities in known.items()]
    return printed([_table(known), filled(legend, width), "\n".join(["Sources", *sources])], width)


def _sources(quantities: dict[str, dict[str, Any]]) -> str:
    said = [f"{quantity.replace('_', ' ')} {quantities[quantity]['source']}" for quantity in QUANTITIES]
    dates = sorted({one["date"] for one in quantities.values()})
    return f"{'. '.join(said)}. ({', '.join(dates)})"


def _table(known: Profiles) -> Table:
    from emulator.commands.plan_text import grid

    units = next(iter(known.values()))
    headings = [f"{quantity.replace('_', ' ')}, {units[quantity]['unit']}" for quantity in QUANTITIES]
    table = grid("Device profiles", "profile", numbers=headings)
    for name, quantities in known.items():
        table.add_row(name, *(_number(quantities[quantity]) for quantity in QUANTITIES))
    return table


def _number(said: dict[str, Any]) -> str:
    return f"{'' if said['measured'] else '~'}{said['value']:g}"
