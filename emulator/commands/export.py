"""`fedlapse export`: results as tables for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.sessions.exporting import ExportFormat, exported
from emulator.terminal.reliance import soundness_told


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `compare` or `run` wrote.")],
    format: Annotated[ExportFormat, typer.Option(help="parquet needs the extra `frames`.")] = ExportFormat.csv,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables. Default: RUN-tables, beside RUN.")] = None,
) -> None:
    """Writes targets, settings, rounds, devices, transfers and events of a finished run as one table each."""
    with soundness_told([run]):
        typer.echo(f"tables: {exported(run, format, out)}")
