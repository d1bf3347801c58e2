"""A terminal shows the progress of reading a large file, and shows nothing for other files."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import pytest
from rich.console import Console

from devices import traces as devices_traces
from emulator.terminal.reading import told_while_read
from network.foreign_files import BadFile, tell
from network.traces.read import read


def screen(terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)


def seen(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_file_that_takes_longer_than_a_second_is_told_of() -> None:
    console, now = screen(), itertools.count(0.0, 0.6)
    with told_while_read(console, lambda: next(now)):
        tell("folder/a.csv", 0.25)  # begins at 0.0, and 0.6 s have passed
        assert seen(console) == ""
        tell("folder/a.csv", 0.5)  # 1.2 s
        tell("folder/a.csv", 1.0)
        tell("folder/b.csv", 0.1)  # another one, of which less than a second is known
    assert "reading a.csv, 50%" in seen(console)
    assert "25%" not in seen(console)
    assert "b.csv" not in seen(console)


def test_nothing_is_told_where_no_terminal_is() -> None:
    console, now = screen(terminal=False), itertools.count(0.0, 10.0)
    with told_while_read(console, lambda: next(now)):
        tell("a.csv", 0.5)
    assert seen(console) == ""


@pytest.mark.parametrize("wrong", [False, True])
def test_a_file_is_told_of_until_it_is_read_or_refused(tmp_path: Path, monkeypatch, wrong: bool) -> None:
    monkeypatch.setattr("network.traces.trace_text.BLOCK", 100)
    path = tmp_path / "[x].csv"
    path.write_text("time_s,down_mbit_s\n" + "".join(f"{i},1\n" for i in range(100)) + ("x,\n" if wrong else "100,\n"))
    console, now = screen(), itertools.count(0.0, 10.0)

    with told_while_read(console, lambda: next(now)):
        if wrong:
            with pytest.raises(BadFile, match="line 102"):
                read(path)
        else:
            read(path)
        ended = seen(console)
        assert ended.endswith("\x1b[2K")  # the line was cleared, and what follows has it
        assert "reading [x].csv, 99%" in ended


def test_logs_of_phones_are_told_of_too(tmp_path: Path) -> None:
    phones = {str(i): {"active": [0], "inactive": [1], "finish_time": 2} for i in range(100)}
    (tmp_path / "x.json").write_text(json.dumps(phones))
    console, now = screen(), itertools.count(0.0, 10.0)

    with told_while_read(console, lambda: next(now)):
        devices_traces.read(tmp_path / "x.json")

    assert "reading x.json, " in seen(console)
