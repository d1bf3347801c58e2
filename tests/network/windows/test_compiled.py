"""The machine code on the disk: `ready` says that it is there only where numba would find it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from network.windows import compiled

LOADS = """
from network.windows import bbr, compiled, crowd, cubic, path, queue, sender, state, step
assert compiled.ready()
crowd.compile_all()
made = [each for module in (bbr, cubic, path, queue, sender, state, step) for each in vars(module).values()]
stats = [each.stats for each in made if hasattr(each, "stats")]
print(sum(sum(each.cache_hits.values()) for each in stats), sum(sum(each.cache_misses.values()) for each in stats))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in which all machine code is, and that it is noted."""
    (tmp_path / "windows_1").mkdir()
    for name in ("step.nbi", "step.1.nbc"):
        (tmp_path / "windows_1" / name).write_bytes(b"code")
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    compiled.complete()
    return tmp_path


def test_it_is_ready_once_that_is_noted(place):
    assert compiled.ready()
    (place / "complete").unlink()
    assert not compiled.ready()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"windows_1/other.nbi": 4}'])
def test_an_empty_or_damaged_note_says_nothing(place, content):
    (place / "complete").write_text(content)
    assert not compiled.ready()


def test_what_was_removed_or_cut_since_is_not_ready(place):
    (place / "windows_1" / "step.1.nbc").write_bytes(b"co")
    assert not compiled.ready()
    (place / "windows_1" / "step.1.nbc").unlink()
    assert not compiled.ready()


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Sources in another place, of which the machine code would be kept in the folder that is returned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = Path(compiled.__file__).parent

    def folder(name: str) -> Path:
        if not (tmp_path / name).exists():
            shutil.copytree(sources, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(compiled, "__file__", str(tmp_path / name / "compiled.py"))
        made = compiled._folder()
        assert made is not None
        return made

    folder.root = tmp_path
    return folder


def test_a_second_copy_of_the_sources_has_machine_code_of_its_own(copy):
    """numba looks at the path of a source: an environment beside this one compiles again."""
    assert copy("one") == copy("one")
    assert copy("one") != copy("two")


def test_sources_that_were_installed_again_are_compiled_again(copy):
    """Byte for byte the same, at another time."""
    before = copy("one")
    os.utime(copy.root / "one" / "step.py", (1, 1))
    assert copy("one") != before


def test_another_processor_has_machine_code_of_its_own(copy, monkeypatch):
    before = copy("one")
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
    assert copy("one") != before


def test_on_a_full_disk_nothing_is_kept_but_what_was_there(copy, monkeypatch):
    """numba stops with an error if it cannot write what it has compiled."""
    before = copy("one")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    assert compiled._folder() is None
    (before / compiled.COMPLETE).write_text("{}")
    assert compiled._folder() == before


@pytest.mark.slow
def test_what_is_ready_is_not_compiled_again():
    """numba's own count; the first test of this folder has had it compiled."""
    from network.windows import crowd

    if not compiled.ready():
        crowd.compile_all()
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, check=True)
    hits, misses = map(int, done.stdout.split())
    assert hits > 0
    assert misses == 0
