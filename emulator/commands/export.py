"""`fedlapse export`: results as tables for other programs."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands.reliance import soundness_told
from emulator.record.writing import replacing
from emulator.results import records
from emulator.results.results import read


class Form(StrEnum):
    csv = "csv"
    parquet = "parquet"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `compare` or `run` wrote.")],
    format: Annotated[Form, typer.Option(help="parquet needs the extra `frames`.")] = Form.csv,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables. Default: RUN-tables, beside RUN.")] = None,
) -> None:
    """Writes rounds, events, transfers and devices of a finished run as one table each."""
    with soundness_told([run]):
        found = read(run)
        folder = out or run.resolve().with_name(f"{run.resolve().name}-tables")
        if folder.resolve().is_relative_to(run.resolve()):
            raise ValueError(f"--out {folder} lies in {run}, which holds the record alone; give a folder beside it")
        folder.mkdir(parents=True, exist_ok=True)
        for table, of in records.READERS.items():
            _write(folder / f"{table}.{format}", table, list(of(found)), format)
        typer.echo(f"tables: {folder}")


def _write(path: Path, table: str, of: list[object], format: Form) -> None:
    if format is Form.csv:
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            records.write_csv(of, table, text)
            text.detach()
        return
    try:
        import polars
    except ImportError:
        raise ValueError("polars is not installed, which writes parquet; pip install 'fedlapse[frames]'") from None
    with replacing(path) as file:
        polars.DataFrame(records.columns(of, table), infer_schema_length=None).write_parquet(file)
