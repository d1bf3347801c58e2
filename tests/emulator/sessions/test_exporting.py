"""Tables of results: `export` replaces those that it wrote, and no file of others."""

from pathlib import Path

import polars
import pytest

from emulator.results.records import READERS
from emulator.sessions.exporting import ExportFormat, exported
from tests.emulator.audit.straggling import declare, events, rows, write


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder, events(), rows())
    declare(folder)
    return folder


@pytest.mark.parametrize("form", ExportFormat)
def test_tables_are_replaced(run: Path, tmp_path: Path, form: ExportFormat) -> None:
    tables = exported(run, form)
    first = {path.name: path.read_bytes() for path in tables.iterdir()}
    assert first.keys() == {f"{table}.{form}" for table in READERS}
    assert exported(run, form, tables) == tables
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == first


@pytest.mark.parametrize("form", ExportFormat)
def test_a_users_file_of_that_name_stays_and_nothing_is_written(run: Path, tmp_path: Path, form: ExportFormat) -> None:
    mine = tmp_path / f"devices.{form}"
    if form is ExportFormat.csv:
        mine.write_text("name,label,seed\nphone,a,1\n")
    else:
        polars.DataFrame({"name": ["phone"], "label": ["a"], "seed": [1]}).write_parquet(mine)
    before = mine.read_bytes()
    with pytest.raises(ValueError, match=rf"devices\.{form} is not a table that `export` wrote"):
        exported(run, form, tmp_path)
    assert mine.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == f".{form}"] == [mine.name]


def test_what_is_no_parquet_at_all_stays(run: Path, tmp_path: Path) -> None:
    (tmp_path / "rounds.parquet").write_text("mine")
    with pytest.raises(ValueError, match="is not a table"):
        exported(run, ExportFormat.parquet, tmp_path)
