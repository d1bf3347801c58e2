"""`fedlapse audit`: does a record obey the laws?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.errors import told_in_one_line
from emulator.commands.options import Format, FormatOption


def audit(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs (LABEL-sSEED), or folders that hold several."),
    ],
    format: FormatOption = Format.text,
) -> None:
    """Checks records against the laws of all runs, and against their scenario; exit code 1 if one is broken."""
    from emulator.audit import audit as laws
    from emulator.record.record import run_folders

    with told_in_one_line(ValueError):
        audited = {folder: laws.audit(folder) for path in runs for folder in run_folders(path)}
    found = {folder: each.faults for folder, each in audited.items()}
    for why, number in Counter(each.unjudged for each in audited.values() if each.unjudged).items():
        typer.echo(f"fedlapse: {number} of {len(found)} not judged by the laws of the scenario: {why}", err=True)
    if format == Format.json:
        typer.echo(json.dumps({str(folder): faults for folder, faults in found.items()}, indent=1))
    else:
        _print(found)
    raise typer.Exit(1 if any(found.values()) else 0)


def _print(found: dict[Path, list[str]]) -> None:
    for folder, faults in found.items():
        typer.echo(f"{'✗' if faults else '✓'} {folder}")
        for fault in faults:
            typer.echo(f"    {fault}")
    sound = sum(not faults for faults in found.values())
    typer.echo(f"{sound} of {len(found)} records obey the laws")
