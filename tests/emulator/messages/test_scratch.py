"""Temporary folders: whose process is gone, they go; all others stay."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from emulator.messages.scratch import Scratch, clear


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_a_killed_process(folder: Path) -> Path:
    """A folder with a lock file that nobody holds."""
    folder.mkdir()
    (folder / "x.npy").write_bytes(b"data")
    (folder / "lock").touch()
    return folder


def test_the_folder_of_a_process_that_is_gone_is_removed(temporary: Path) -> None:
    dead = left_by_a_killed_process(temporary / "fedlapse-dead")
    scratch = Scratch()
    clear()
    assert not dead.exists()
    assert scratch.path.is_dir()
    scratch.close()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_living_process_stays(temporary: Path) -> None:
    first, second = Scratch(), Scratch()
    clear()
    assert first.path.is_dir()
    assert second.path.is_dir()
    first.close()
    second.close()


@pytest.mark.slow
def test_a_living_process_elsewhere_keeps_its_folder_until_it_is_killed(temporary: Path) -> None:
    code = (
        "import sys, tempfile, time\ntempfile.tempdir = sys.argv[1]\n"
        "from emulator.messages.scratch import Scratch\nmine = Scratch()\nprint(mine.path, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(temporary)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        clear()
        assert folder.is_dir()
        process.kill()
    clear()
    assert not folder.exists()


def test_a_folder_without_a_lock_is_not_known_to_be_dead_and_stays(temporary: Path) -> None:
    (temporary / "fedlapse-young").mkdir()
    (temporary / "fedlapse-young" / "lock.new").touch()
    clear()
    assert (temporary / "fedlapse-young").is_dir()


def test_an_empty_folder_without_a_lock_goes_once_its_process_has_had_the_time_for_one(temporary: Path) -> None:
    young, old = temporary / "fedlapse-young", temporary / "fedlapse-old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, times=(0, 0))
    clear()
    assert (young.exists(), old.exists()) == (True, False)


@pytest.mark.parametrize("at", ["file", "folder"])
def test_a_folder_whose_removal_was_broken_off_is_found_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    scratch = Scratch()
    (scratch.path / "a").write_bytes(b"data")
    (scratch.path / "b").mkdir()
    (scratch.path / "b" / "c").write_bytes(b"data")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*((Path, "unlink") if at == "file" else (shutil, "rmtree")), killed)
    with pytest.raises(KeyboardInterrupt):
        scratch.close()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    scratch.at_exit.cancel()  # its process ends
    scratch.file.close()
    clear()
    assert list(temporary.iterdir()) == []


def test_a_folder_of_another_user_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = left_by_a_killed_process(temporary / "fedlapse-theirs")
    monkeypatch.setattr("emulator.messages.scratch.os.getuid", lambda: theirs.stat().st_uid + 1)
    clear()
    assert theirs.is_dir()


def test_a_link_is_not_followed(temporary: Path) -> None:
    elsewhere = left_by_a_killed_process(temporary / "elsewhere")
    (temporary / "fedlapse-link").symlink_to(elsewhere)
    clear()
    assert (elsewhere / "x.npy").read_bytes() == b"data"


def test_where_no_more_files_can_be_opened_no_folder_is_left(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(OSError, match="Too many open files"):
        Scratch()
    assert list(temporary.iterdir()) == []
