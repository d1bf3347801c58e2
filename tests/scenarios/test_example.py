"""The example package of docs/: installed, found by its entry point, and run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"

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
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


def fedlapse(*arguments, cwd, path):
    return subprocess.run(
        [sys.executable, "-m", "emulator", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_its_scenario_runs_by_dotted_paths_and_strength_0_is_fedavg(installed, tmp_path):
    done = fedlapse(
        *("compare", EXAMPLE / "greenhouse.yaml", "--rounds", "3", "--workers", "2", "--out", "out", "-q"),
        cwd=tmp_path,
        path=installed,
    )
    assert done.returncode == 0, done.stderr
    models = {name: (tmp_path / "out" / f"{name}-s1" / "final.safetensors").read_bytes() for name in NAMES}
    assert models["not-held"] == models["fedavg"] != models["holdhead"]


NAMES = ("fedavg", "holdhead", "not-held")


def test_installed_it_has_a_name_of_its_own(installed, tmp_path):
    arguments = ("compare", EXAMPLE / "greenhouse.yaml", "algorithms=[holdhead]", "--rounds", "1", "--workers", "0")
    done = fedlapse(*arguments, "--out", "out", cwd=tmp_path, path=installed)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "holdhead-s1" / "rounds.jsonl").is_file()
    listed = fedlapse("algorithms", "--format", "json", cwd=tmp_path, path=installed)
    assert "holdhead" in listed.stdout, listed.stderr


def test_without_it_the_error_names_what_is_missing(tmp_path):
    done = fedlapse("check", EXAMPLE / "greenhouse.yaml", cwd=tmp_path, path="")
    assert done.returncode == 2
    assert "No module named 'greenhouse'" in done.stderr
    assert "Traceback" not in done.stderr
