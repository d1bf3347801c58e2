"""Exports results as tables for other programs."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import Any

from emulator.record.writing import replacing
from emulator.results import records
from emulator.results.results import read

FIRST = ["label", "seed"]  # columns of each table


class ExportFormat(StrEnum):
    csv = "csv"
    parquet = "parquet"


def exported(run: Path, form: ExportFormat, out: Path | None = None) -> Path:
    """Writes each table of records.READERS to a file; returns the folder of the tables.

    `run`: the folder of the results.  `out`: the folder of the tables; None: next to `run`.  Raises ValueError if the
    results cannot be read, if `out` lies inside `run`, or if it has a file with the name of a table that is none.
    """
    found = read(run)
    folder = out or run.resolve().with_name(f"{run.resolve().name}-tables")
    if folder.resolve().is_relative_to(run.resolve()):
        raise ValueError(f"--out {folder} lies in {run}, which holds the record alone; give a folder next to it")
    files = {table: folder / f"{table}.{form}" for table in records.READERS}
    if others := [path for path in files.values() if path.exists() and not _is_table(path, form)]:
        raise ValueError(f"{others[0]} is not a table that `export` wrote; give another folder as --out")
    folder.mkdir(parents=True, exist_ok=True)
    for table, path in files.items():
        _write(path, table, list(records.READERS[table](found)), form)
    return folder


def _is_table(path: Path, form: ExportFormat) -> bool:
    """Returns true if the file's first columns are those of each table."""
    if form is ExportFormat.csv:
        with path.open("rb") as file:
            return file.readline(100).startswith(",".join(FIRST).encode())
    polars = _polars()
    try:
        return list(polars.read_parquet_schema(path))[: len(FIRST)] == FIRST
    except polars.exceptions.PolarsError:
        return False


def _write(path: Path, table: str, of: list[object], form: ExportFormat) -> None:
    if form is ExportFormat.csv:
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            records.write_csv(of, table, text)
            text.detach()
        return
    with replacing(path) as file:
        _polars().DataFrame(records.columns(of, table), infer_schema_length=None).write_parquet(file)


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise ValueError("polars is not installed, which writes parquet; pip install 'fedlapse[frames]'") from None
    return polars
