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
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the tables. Default: RUN-tables, next to RUN.")
    ] = None,
) -> None:
    """Export results as tables, in CSV or Parquet.

    There is one table each of targets, settings, rounds, devices, transfers and events.

    \b
    Example:
      fedlapse export runs/campus-0001 --format parquet
    """
    with soundness_told([run]):
        typer.echo(f"tables: {exported(run, format, out)}")
