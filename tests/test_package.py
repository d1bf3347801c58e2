"""The distribution: its names are common, so it must be sure that they are its own."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGES = ("algorithms", "devices", "emulator", "network", "scenarios")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_else_installed_claims_the_name(package):
    assert set(packages_distributions().get(package, ["fedlapse"])) == {"fedlapse"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["emulator.worlds.interface", "emulator.conversation.rounds", "emulator.audit.audit", "emulator.__main__"]
)
def test_importing_it_costs_no_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


TRAINS = """
import sys
from dataclasses import replace

from benchmarks.training import RUN, SHAPES, lab_of
from emulator.lab import jobs, training
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING

lab, store = lab_of(replace(SHAPES["many"], devices=2, examples=10), tests=10), Memory()
state = jobs.start(lab, store, RUN)
opening = jobs.request(lab, store, RUN, 0, state.message, lab.names)
trained = training.train(lab, store, RUN, lab.names[0], 0, opening.download.ref, NOTHING, True)
jobs.combine(lab, store, RUN, 0, state.message, {lab.names[0]: (trained.upload.ref, 10)}, opening.download.ref)
jobs.evaluate(lab, store, RUN, state.weights, "test", 0, 0)
sys.exit("torch._dynamo" in sys.modules)
"""


@pytest.mark.slow
def test_a_worker_loads_no_compiler():
    """The compiler takes a second of CPU and 70 MB, and torch.optim.SGD loads it."""
    assert subprocess.run([sys.executable, "-c", TRAINS], check=False, cwd=ROOT).returncode == 0


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions and those for types count too: they only hide a circle."""
    files = [file.relative_to(ROOT) for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    names = {".".join(file.with_suffix("").parts): file for file in files if file.name != "__init__.py"}
    imports = {name: {found for found in imported(ROOT / file) if found in names} for name, file in names.items()}
    assert sum(map(len, imports.values())) > len(names)
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the files


def imported(file: Path) -> Iterator[str]:
    """Modules, and names that may be modules, that a file imports from."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
