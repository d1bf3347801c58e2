"""Facts of jobs with a user's own code hold only while what it has read is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.ledger import inputs as module
from emulator.ledger.facts import Fact, FactsFile
from emulator.ledger.inputs import FILE, Inputs
from scenarios.builders.reads import Read, listing, sign

KEY = "k" * 64


class Session:
    """The facts of one job that one command after the other remembers."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: dict[Read, None] = {}
        monkeypatch.setattr(module, "SEEN", self.seen)
        self.told: list[str] = []
        self.facts = FactsFile(path, self.told.append)
        self.inputs = Inputs(self.facts, "s", self.told.append)

    def reads(self, *paths: Path) -> None:
        for path in paths:
            self.seen[Read("file", str(path), sign(str(path)))] = None

    def put(self, result: int, own: bool = True) -> None:
        self.inputs.put(Fact(KEY, "train", "s", [], result), own)

    @property
    def known(self) -> int | None:
        fact = self.inputs.known(KEY)
        return None if fact is None else int(fact.result)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Session]:
    monkeypatch.chdir(tmp_path)
    return lambda: Session(tmp_path / "facts.sqlite", monkeypatch)


def test_what_reads_nothing_has_one_fact_as_ever(session):
    one = session()
    one.put(1)
    assert (one.known, one.facts.counts()) == (1, {"train": 1})


def test_a_file_that_changes_makes_another_result_and_changed_back_it_is_the_first_again(session, tmp_path):
    path = tmp_path / "scale"
    for text, known, result in (("1", None, 1), ("22", None, 2), ("1", 1, 3), ("22", 2, 4), ("333", None, 5)):
        path.write_text(text)
        one = session()
        assert one.known == known
        one.reads(path)
        one.put(result)
        assert one.known == (known or result)


def test_a_file_that_is_not_there_is_a_state_like_others(session, tmp_path):
    path, one = tmp_path / "scale", session()
    one.reads(path)
    one.put(1)
    assert session().known == 1
    path.touch()
    assert session().known is None
    path.unlink()
    assert session().known == 1


def test_what_a_job_reads_may_depend_on_what_it_has_read(session, tmp_path):
    which, a, b = (tmp_path / name for name in ("which", "a", "b"))
    for path, text in ((which, "a"), (a, "1"), (b, "1")):
        path.write_text(text)
    one = session()
    one.reads(which, a)
    one.put(1)
    which.write_text("bb")
    two = session()
    assert two.known is None
    two.reads(which, b)
    two.put(2)
    assert session().known == 2
    b.write_text("22")
    assert session().known is None
    which.write_text("a")
    assert session().known == 1


@pytest.mark.parametrize("what", ["variable", "folder", "start", "module"])
def test_each_kind_of_input_is_compared(session, tmp_path, monkeypatch, what):
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("OWN_SCALE", "1")
    monkeypatch.setattr(module, "file_of", lambda name: tmp_path / name)
    name = {"variable": "OWN_SCALE", "folder": str(tmp_path / "folder"), "start": "", "module": "net"}[what]
    one = session()
    one.seen[Read(what, name, names=listing(name) if what == "folder" else None)] = None
    one.put(1)
    assert session().known == 1
    (tmp_path / "folder" / "new").touch()
    monkeypatch.setenv("OWN_SCALE", "2")
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setattr(module, "file_of", lambda name: tmp_path / "elsewhere" / name)
    assert session().known is None


def test_a_large_file_is_read_once_and_again_only_if_its_size_or_times_have_changed(session, tmp_path, monkeypatch):
    path, read = tmp_path / "large", []
    path.write_text("1")

    def sha256(name: str) -> str:
        read.append(name)
        return Path(name).read_text()

    monkeypatch.setattr(module, "_sha256", sha256)
    one = session()
    one.reads(path)
    one.put(1)
    assert (session().known, session().known, len(read)) == (1, 1, 1)
    path.touch()
    assert (session().known, session().known, len(read)) == (1, 1, 2)
    assert session().facts.counts()[FILE] == 2


def test_what_has_changed_since_it_was_read_is_not_remembered_and_the_user_is_told(session, tmp_path):
    path, one = tmp_path / "scale", session()
    path.write_text("1")
    one.reads(path)
    path.write_text("22")
    one.put(1)
    assert (one.known, session().known) == (None, None)
    assert one.told == [f"{path} has changed since it was read; what comes of it is not remembered"]


def test_a_job_without_own_code_depends_on_no_file(session, tmp_path):
    path, one = tmp_path / "scale", session()
    path.write_text("1")
    one.reads(path)
    one.put(1, own=False)
    path.write_text("22")
    assert session().known == 1


def test_a_list_that_is_lost_is_made_again(session, tmp_path):
    path, one = tmp_path / "scale", session()
    path.write_text("1")
    one.reads(path)
    one.put(1)
    with sqlite3.connect(tmp_path / "facts.sqlite") as file:
        file.execute("DELETE FROM facts WHERE job = 'names'")
    file.close()
    two = session()
    assert two.known is None
    two.reads(path)
    two.put(1)
    assert session().known == 1


def test_values_of_variables_are_not_kept(session, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_TOKEN", "a-secret-of-mine")
    one = session()
    one.seen[Read("variable", "OWN_TOKEN")] = None
    one.put(1)
    rows = [one.facts.get(key) for key, _ in list(one.facts.keys())]
    assert len(rows) == 3
    assert "OWN_TOKEN" in str(rows)
    assert "a-secret-of-mine" not in str(rows)
