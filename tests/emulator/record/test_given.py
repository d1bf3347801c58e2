"""The user's input is kept byte for byte, and an earlier command's input goes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from emulator.record.given import CHANGES, GIVEN, Given, given_by, keep, kept
from scenarios.load import load

FILE = (
    b"\xef\xbb\xbf# why: the caf\xc3\xa9's line\r\nname: t\r\n"
    b"fleet: [{profile: pi-4, count: 4, link: {up_mbit_s: 1, down_mbit_s: 1}}]\r\nsmall: {rounds.max: 2}\r\n\r\n"
)


def test_a_file_is_kept_to_the_byte_with_its_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(FILE)
    (tmp_path / "link.yaml").symlink_to("mine.yaml")
    out = tmp_path / "out"
    out.mkdir()
    keep(out, given_by(load(str(tmp_path / "link.yaml"), ["training.lr=0.1  # tried"], small=True).source))
    assert (out / GIVEN).read_bytes() == FILE
    assert not (out / GIVEN).is_symlink()
    assert json.loads((out / CHANGES).read_text()) == ["rounds.max=2", "training.lr=0.1  # tried"]
    assert kept(out) == Given(FILE, ["rounds.max=2", "training.lr=0.1  # tried"])


def test_of_a_pipe_what_was_read_is_kept(tmp_path: Path) -> None:
    """A pipe can be read only once."""
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(FILE,))
    writing.start()
    assert given_by(load(str(tmp_path / "pipe")).source) == Given(FILE)
    writing.join()


def test_of_a_scenario_that_comes_with_fedlapse_the_changes_are_kept(tmp_path: Path) -> None:
    given = given_by(load("quickstart", ["rounds.max=3"]).source)
    assert given == Given(None, ("rounds.max=3",))
    keep(tmp_path, given)
    assert [path.name for path in tmp_path.iterdir()] == [CHANGES]


def test_what_an_earlier_command_was_given_goes(tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.yaml"
    elsewhere.write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / GIVEN).symlink_to(elsewhere)
    keep(out, Given(b"new", ["a=1"]))
    assert ((out / GIVEN).read_bytes(), elsewhere.read_text()) == (b"new", "mine")
    keep(out, Given())
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("said", ["{}", "[1]", "[", "\xff"])
def test_changes_that_are_damaged_are_told(tmp_path: Path, said: str) -> None:
    (tmp_path / CHANGES).write_text(said, encoding="latin-1")
    with pytest.raises(ValueError, match=r"changes\.json is not as fedlapse writes it"):
        kept(tmp_path)
