"""The example package of docs/: installed, found by its entry point, and run."""

import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.builders import plugins

EXAMPLE = Path(__file__).parents[3] / "docs" / "example"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package, installed by pip into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    sources = tmp_path_factory.mktemp("source") / "example"
    sources.mkdir()
    for file in EXAMPLE.rglob("*"):
        if file.suffix in (".py", ".toml") and "build" not in file.parts:
            copy = sources / file.relative_to(EXAMPLE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    # Built with the setuptools that is here: another would have to be fetched.
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(target))
    command = [sys.executable, "-m", "pip", "install", *options, str(sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def absent():
    """No module of the package is known, neither before a test nor after it."""

    def forget():
        plugins.kinds.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "greenhouse"]:
            del sys.modules[name]

    forget()
    yield
    forget()


@pytest.fixture
def present(installed, absent, monkeypatch):
    monkeypatch.syspath_prepend(installed)


def test_its_scenario_runs_by_dotted_paths_and_strength_0_is_fedavg(present, fedlapse, tmp_path):
    """In a worker too, which imports it anew."""
    quick = ("training.epochs=1", "--rounds", "2", "--workers", "1", "--out", "out", "-q")
    done = fedlapse("compare", EXAMPLE / "greenhouse.yaml", *quick)
    assert done.returncode == 0, done.stderr
    models = {name: (tmp_path / "out" / f"{name}-s1" / "final.safetensors").read_bytes() for name in NAMES}
    assert models["not-held"] == models["fedavg"] != models["holdhead"]


NAMES = ("fedavg", "holdhead", "not-held")


def test_installed_it_has_a_name_of_its_own(present, fedlapse, tmp_path):
    quick = ("training.epochs=1", "--rounds", "1", "--workers", "0", "--out", "out")
    done = fedlapse("compare", EXAMPLE / "greenhouse.yaml", "algorithms=[holdhead]", *quick)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "holdhead-s1" / "rounds.jsonl").is_file()
    assert "holdhead" in plugins.kinds()  # what `fedlapse algorithms` lists


def test_without_it_the_error_names_what_is_missing(absent, fedlapse):
    done = fedlapse("check", EXAMPLE / "greenhouse.yaml")
    assert done.returncode == 2
    assert "No module named 'greenhouse'" in done.stderr
    assert "Traceback" not in done.stderr
