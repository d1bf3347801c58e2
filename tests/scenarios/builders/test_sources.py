"""Which files a computation consists of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scenarios.builders.sources import file_of, imported, sources

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: a package with a package in it, and modules beside it."""
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "srcs_a.py": "import json\nimport numpy\nimport srcs_b as b\n",
        "srcs_b.py": "def later():\n    from srcs_pack.inner import leaf\n    return leaf\n",
        "srcs_c.py": "1/0\n",
        "srcs_pack/__init__.py": "",
        "srcs_pack/inner/__init__.py": "from . import leaf\nfrom ..top import thing\n",
        "srcs_pack/inner/leaf.py": "import srcs_a\n",  # a circle
        "srcs_pack/top.py": "import srcs_missing\nthing = 1\n",
        "srcs_pack/else.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_all_that_is_imported_is_found_with_the_packages_that_hold_it_and_nothing_else(project: Path) -> None:
    found = sources(["srcs_a"])
    assert set(found) == {
        *("srcs_a", "srcs_b", "srcs_pack", "srcs_pack.inner", "srcs_pack.inner.leaf", "srcs_pack.top"),
    }
    assert found["srcs_b"] == hashlib.sha256((project / "srcs_b.py").read_bytes()).hexdigest()


def test_nothing_is_imported_to_find_it(project: Path) -> None:
    assert file_of("srcs_c") == project / "srcs_c.py"  # which cannot be imported
    assert set(sources(["srcs_c"])) == {"srcs_c"}


def test_a_file_that_python_cannot_read_counts_with_its_bytes(project: Path) -> None:
    (project / "srcs_b.py").write_text("def broken(:\n")
    assert set(sources(["srcs_a"])) == {"srcs_a", "srcs_b"}


def test_a_module_that_is_nowhere_has_no_file() -> None:
    assert file_of("srcs_missing") is file_of("sys") is file_of("json.missing") is None
    with pytest.raises(ValueError, match=r"^the module srcs_missing has no file"):
        sources(["srcs_missing"])


def test_what_is_installed_belongs_to_a_computation_only_as_a_root(project: Path) -> None:
    """A package's algorithm counts; its imports from other packages do not."""
    folder = project / "site-packages"
    folder.mkdir()
    (project / "srcs_b.py").rename(folder / "srcs_b.py")
    (project / "srcs_pack").rename(folder / "srcs_pack")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        assert set(sources(["srcs_a"])) == {"srcs_a"}
        assert set(sources(["srcs_b"])) == {"srcs_b"}


def test_the_jobs_consist_of_what_computes_and_not_of_the_whole_program() -> None:
    found = set(sources(["emulator.lab.jobs"]))
    assert found >= {
        *("emulator.lab.jobs", "emulator.messages.codec", "emulator.lab.seeds", "network.wire.encoding"),
        *("algorithms.training.local", "algorithms.models", "devices.data.dataset", "algorithms.algorithm"),
    }
    rooms = {f"emulator.{room}" for room in ("commands", "play", "report", "worlds", "conversation", "ledger")}
    assert not {name for name in found if ".".join(name.split(".")[:2]) in rooms}
    assert not found & {"algorithms.fedcurv", "algorithms.fedcl"}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import a.b, c as d", {"a.b", "c"}),
        ("from a import b, c", {"a", "a.b", "a.c"}),
        ("from . import b", {"here.sub", "here.sub.b"}),
        ("from ..b.c import d", {"here.b.c", "here.b.c.d"}),
        ("def f():\n  import late", {"late"}),
        ("from a import *", {"a", "a.*"}),
        ("not python", set()),
    ],
)
def test_imports_are_read_from_the_text(text: str, modules: set[str]) -> None:
    assert imported(text.encode(), "here.sub") == modules
