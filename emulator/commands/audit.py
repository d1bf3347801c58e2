"""`fedlapse audit`: does a record obey the laws?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs (LABEL-sSEED), or folders that hold several.")],
) -> None:
    """Checks records against the laws that every run must obey; exit code 1 if one is broken."""
    from emulator.audit import audit_run
    from emulator.record import run_folders

    broken = 0
    try:
        folders = [folder for path in runs for folder in run_folders(path)]
        for folder in folders:
            faults = audit_run(folder)
            broken += bool(faults)
            typer.echo(f"{'✗' if faults else '✓'} {folder}")
            for fault in faults:
                typer.echo(f"    {fault}")
    except (OSError, ValueError) as error:
        typer.echo(f"fedlapse audit: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{len(folders) - broken} of {len(folders)} records obey the laws")
    raise typer.Exit(1 if broken else 0)
