"""A user's module is imported anew before a call if its file, or what it has read, has changed; else it stays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.builders import own_code, reads
from scenarios.builders.plugins import UnknownName, thing

MODULE = """
import os
from pathlib import Path

FOUND = [Path("data.txt").read_text(), os.environ.get("OWN_SETTING", "none"), {more}]
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_module.py").write_text(MODULE.format(more=0))
    (tmp_path / "data.txt").write_text("one")
    own_code.renew()
    yield
    sys.modules.pop("own_module", None)
    reads.forget()


def edited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_module.py").write_text(MODULE.format(more=1))


def read_otherwise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "data.txt").write_text("two")


def set_otherwise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_SETTING", "other")


def started_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "data.txt").write_text("three")
    monkeypatch.chdir(folder / "elsewhere")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (edited, ["one", "none", 1]),
        (read_otherwise, ["two", "none", 0]),
        (set_otherwise, ["one", "other", 0]),
        (started_elsewhere, ["three", "none", 0]),
    ],
)
def test_what_has_changed_is_imported_anew_in_the_next_call(
    change: Callable[[Path, pytest.MonkeyPatch], None],
    found: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ["one", "none", 0]
    assert thing("own_module:FOUND") == before
    change(tmp_path, monkeypatch)
    assert thing("own_module:FOUND") == before  # a call does not see it in its midst
    own_code.renew()
    assert thing("own_module:FOUND") == found


def test_what_has_not_changed_stays() -> None:
    first = thing("own_module:FOUND")
    own_code.renew()
    assert thing("own_module:FOUND") is first


def test_what_was_made_of_files_is_made_anew_in_each_call() -> None:
    made = []

    @own_code.kept_for_a_call(maxsize=1)
    def make(name: str) -> str:
        made.append(name)
        return name

    for _ in range(2):
        assert (make("a"), make("a")) == ("a", "a")
        own_code.renew()
    assert made == ["a", "a"]


def test_the_program_itself_is_no_place_for_it() -> None:
    with pytest.raises(UnknownName, match="'__main__:Own' lies in the program itself"):
        thing("__main__:Own")
