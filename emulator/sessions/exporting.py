"""Exports results as tables for other programs."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path

from emulator.record.writing import replacing
from emulator.results import records
from emulator.results.results import read


class ExportFormat(StrEnum):
    csv = "csv"
    parquet = "parquet"


def exported(run: Path, form: ExportFormat, out: Path | None = None) -> Path:
    """Writes each table of records.READERS to a file; returns the folder of the tables.

    `run`: the folder of the results.  `out`: the folder of the tables; None: next to `run`.  Raises ValueError if the
    results cannot be read, or if `out` lies inside `run`.
    """
    found = read(run)
    folder = out or run.resolve().with_name(f"{run.resolve().name}-tables")
    if folder.resolve().is_relative_to(run.resolve()):
        raise ValueError(f"--out {folder} lies in {run}, which holds the record alone; give a folder next to it")
    folder.mkdir(parents=True, exist_ok=True)
    for table, of in records.READERS.items():
        _write(folder / f"{table}.{form}", table, list(of(found)), form)
    return folder


def _write(path: Path, table: str, of: list[object], form: ExportFormat) -> None:
    if form is ExportFormat.csv:
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
