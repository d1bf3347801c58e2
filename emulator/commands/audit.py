"""`fedlapse audit`: does a record obey the laws?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.options import BAD_INPUT, Format, FormatOption


def audit(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs (LABEL-sSEED), or folders that hold several.")],
    format: FormatOption = Format.text,
) -> None:
    """Checks records against the laws that every run must obey; exit code 1 if one is broken."""
    from emulator.audit import audit_run
    from emulator.record import run_folders

    try:
        found = {folder: audit_run(folder) for path in runs for folder in run_folders(path)}
    except (OSError, ValueError) as error:
        typer.echo(f"fedlapse: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
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
