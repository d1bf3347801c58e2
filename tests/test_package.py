"""The distribution: its names are common, so it must be sure that they are its own."""

import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

PACKAGES = ("algorithms", "devices", "emulator", "network", "scenarios")


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
