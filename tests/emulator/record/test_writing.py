"""A file that takes the place of another is on the disk before it gets the name, or the other stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.analysis.stamps import KeptSettings
from emulator.record.writing import replace_file, replacing


@pytest.fixture
def calls(monkeypatch):
    """The system's calls that matter, in their order."""
    made = []
    fsync, rename = os.fsync, os.replace

    def synced(file):
        made.append(("fsync", os.fstat(file).st_ino))
        fsync(file)

    def renamed(one, other, **how):
        made.append(("rename", Path(one).stat().st_ino))
        rename(one, other, **how)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr("os.replace", renamed)
    return made


def _kept(path):
    kept = KeptSettings(path)
    kept.add({"one": {"fedavg": {1: (0.5,)}}})
    kept.write()


@pytest.mark.parametrize("write", [lambda path: replace_file(path, "new"), _kept])
def test_it_is_on_the_disk_before_it_gets_its_name(tmp_path, calls, write):
    path = tmp_path / "file"
    path.write_text("old")
    write(path)
    written = path.stat().st_ino
    assert calls == [("fsync", written), ("rename", written)]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"new", None])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_take_the_place_is_told_by_its_name_and_taken_away(tmp_path):
    path = tmp_path / "file"
    (path / "mine").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as raised:
        replace_file(path, "new")
    assert raised.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path]
