"""The files that are distributed: the wheel, the source distribution, the container, and the citation."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.all_of import all_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("algorithms", "devices", "emulator", "fedlapse", "network", "scenarios")
BUILD = "from setuptools import build_meta as made; made.build_wheel('dist'); made.build_sdist('dist')"
LINES = 80  # of a page
EXTRA = {
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "CHANGELOG.md",
    "CITATION.cff",
    "MANIFEST.in",
    "PKG-INFO",
    "setup.cfg",
}


def committed():
    """Every file of the repository, as a clean clone has it."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    assert len(names) > 300
    return names


def ours(names):
    return {name for name in names if name.partition("/")[0] in PACKAGES}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with both, built from a clean copy by the setuptools that is here: another would have to be fetched."""
    place = tmp_path_factory.mktemp("clone")
    for name in committed():
        copy = place / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    (place / "dist").mkdir()
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return place / "dist"


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == ours(committed())
    assert len(names) > 300


@pytest.mark.slow
def test_the_source_distribution_has_what_the_wheel_is_made_of(built):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as tar:
        names = {member.name.partition("/")[2] for member in tar if member.isfile()}
    assert {name for name in names if ".egg-info/" not in name} == ours(committed()) | EXTRA


@pytest.mark.slow
def test_the_wheel_installs_the_command_and_says_what_it_is(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (points,) = (name for name in files.namelist() if name.endswith("entry_points.txt"))
        (metadata,) = (name for name in files.namelist() if name.endswith("/METADATA"))
        assert "fedlapse = emulator.__main__:main" in files.read(points).decode()
        told = Parser().parsestr(files.read(metadata).decode())
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Requires-Python"] == ">=3.11"
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


SIZE = 3_000_000  # bytes of the wheel, at most; `make release` checks the same
QUICK = "compare quickstart --rounds 1 --seed 1 --workers 0 --quiet --no-ledger --out out"
LESS = ("training.epochs=1", "network.model=tcp", "algorithms=[fedavg]")


@pytest.mark.slow
def test_the_wheel_is_small_and_plays_the_quickstart_in_an_environment_of_its_own(built, tmp_path):
    """It is installed without dependencies; a line in a .pth file lends it those that are here, but not this folder."""
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size <= SIZE
    python = tmp_path / "empty" / "bin" / "python"
    venv.create(tmp_path / "empty", symlinks=True, with_pip=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True, timeout=300
    )
    place = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    Path(place.strip(), "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    command = [python.with_name("fedlapse"), *QUICK.split(), *LESS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").is_file()
    said = subprocess.check_output([python, "-c", "import emulator; print(emulator.__file__)"], cwd=tmp_path, text=True)
    assert said.startswith(str(tmp_path))


def test_the_changelog_begins_with_this_version_and_fits_a_page():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    assert first.startswith(PROJECT["version"])
    assert len(first.splitlines()) <= LINES


def test_the_citation_is_of_this_version_and_has_what_its_schema_requires():
    """https://github.com/citation-file-format: cff-version, message, title and authors must be there."""
    cited = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert all(cited[key] for key in ("message", "title", "authors"))
    assert all_of(author["name"] for author in cited["authors"])
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert cited["title"] in readme
    assert f"Version {cited['version']}" in readme


def test_the_container_installs_what_the_package_is_made_of_and_plays_the_demo():
    steps = dict(re.findall(r"^([A-Z]+) (.+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE))
    demo = re.search(
        r"^demo:.*\n(?:\t@.*\n)*\t\S+/fedlapse (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert demo[1] == "compare scenarios/quickstart.yaml"
    assert (steps["ENTRYPOINT"], steps["CMD"]) == (
        '["fedlapse"]',
        '["compare"]',
    )  # which takes the quickstart by itself
    assert steps["USER"] == "fedlapse"
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"}
    assert sent == {*PACKAGES, "LICENSE", "README.md", "pyproject.toml"}


def test_the_pages_say_how_to_use_the_container():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert "docker build -t fedlapse ." in page
    assert (ROOT / "Dockerfile").read_text(encoding="utf-8").count("https://download.pytorch.org/whl/cpu") == 1
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in page
