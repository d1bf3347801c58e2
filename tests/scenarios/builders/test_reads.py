"""Files that a user's own code reads are noted, wherever it is called from; files that fedlapse itself reads are
not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from algorithms import models
from scenarios.builders import plugins, reads
from scenarios.builders.reads import Read

NET = """
import os
import threading
from importlib import import_module
from pathlib import Path
from torch import nn
import numpy as np

HERE = Path({folder!r})
{top}

def net(classes=10):
    {inside}
    return nn.Linear(64, classes)
"""


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[..., set[Read]]:
    """Imports a module with these lines at its top and in its function, and builds its network; what it has read."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = "own_" + "".join(filter(str.isalnum, request.node.name))

    def read(top: str = "", inside: str = "pass") -> set[Read]:
        (tmp_path / f"{name}.py").write_text(NET.format(folder=str(tmp_path), top=top, inside=inside))
        before = len(reads.SEEN)
        plugins.thing(f"{name}:net")
        models.build(f"{name}:net", 1)
        found = set(list(reads.SEEN)[before:])
        return {each for each in found if each.kind not in ("module", "start")}

    return read


def file(path: Path) -> Read:
    status = path.stat()
    return Read("file", str(path), (status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@pytest.mark.parametrize("place", ["top", "inside"])
@pytest.mark.parametrize(
    "words",
    [
        'with open("some.txt") as file: file.read()',  # from where the command was started
        'with (HERE / "some.txt").open() as file: file.read()',
        'os.close(os.open(HERE / "some.txt", os.O_RDONLY))',
        'np.loadtxt(HERE / "some.txt")',  # a library opens it
        'worker = threading.Thread(target=lambda: (HERE / "some.txt").read_bytes()); worker.start(); worker.join()',
    ],
)
def test_a_file_is_noted_with_its_size_and_times(seen, tmp_path, place, words):
    (tmp_path / "some.txt").write_text("1")
    assert seen(**{place: words}) == {file(tmp_path / "some.txt")}


def test_a_file_that_is_not_there_is_noted_too(seen, tmp_path):
    words = 'try: open("some.txt")\nexcept OSError: pass'
    assert seen(top=words) == {Read("file", str(tmp_path / "some.txt"))}


def test_a_folder_is_noted_with_the_names_in_it(seen, tmp_path):
    (tmp_path / "some").mkdir()
    for name in ("b", "a"):
        (tmp_path / "some" / name).touch()
    folder = Read("folder", str(tmp_path / "some"), names=("a", "b"))
    assert seen(inside='sorted(Path("some").glob("*"))') == {folder}


def test_what_code_writes_and_reads_again_is_its_own(seen, tmp_path):
    assert seen(inside='Path("own.txt").write_text("1"); Path("own.txt").read_text()') == set()
    assert (tmp_path / "own.txt").read_text() == "1"


def test_a_module_that_is_imported_by_its_name_is_noted_as_its_source(seen, tmp_path):
    (tmp_path / "plugged_in.py").write_text("x = 1")
    assert seen(inside='import_module("plugged_in")') == {file(tmp_path / "plugged_in.py")}


@pytest.mark.parametrize("words", ['os.environ["OWN_SIZE"]', 'os.environ.get("OWN_SIZE")', 'os.getenv("OWN_SIZE")'])
def test_a_variable_is_noted(seen, monkeypatch, words):
    monkeypatch.setenv("OWN_SIZE", "3")
    reads.SEEN.pop(Read("variable", "OWN_SIZE"), None)
    assert seen(inside=words) == {Read("variable", "OWN_SIZE")}


def test_a_variable_that_own_code_sets_counts_as_it_was(seen, monkeypatch):
    monkeypatch.setenv("OWN_SET", "before")
    monkeypatch.delenv("OWN_UNSET", raising=False)
    seen(top='os.environ["OWN_SET"] = os.environ["OWN_UNSET"] = "mine"')
    assert (os.environ["OWN_SET"], os.environ["OWN_UNSET"]) == ("mine", "mine")
    assert (reads.variable("OWN_SET"), reads.variable("OWN_UNSET")) == ("before", None)
    monkeypatch.delenv("OWN_UNSET")


def test_who_reads_all_variables_notices_a_new_one(seen, monkeypatch):
    reads.forget()
    monkeypatch.delenv("OWN_LATER", raising=False)
    assert Read("variable", reads.EVERY) in seen(inside="dict(os.environ)")
    assert not reads.changed()
    monkeypatch.setenv("OWN_LATER", "1")
    assert "OWN_LATER" in reads.variable(reads.EVERY).splitlines()
    assert reads.changed()


def test_who_sets_a_variable_reads_none(seen, monkeypatch):
    monkeypatch.setenv("OWN_NEVER_READ", "1")
    names = reads.variable(reads.EVERY)
    assert seen(inside='os.environ["OWN_NEW"] = "mine"') == set()
    assert reads.variable(reads.EVERY) == names
    monkeypatch.delenv("OWN_NEW")


def test_what_fedlapse_and_python_read_is_not_noted(seen, tmp_path):
    np.save(tmp_path / "some.npy", np.zeros(1))
    np.load(tmp_path / "some.npy")  # by this test, which fedlapse has not called
    os.getenv("HOME")
    assert seen(inside="import colorsys") == set()
