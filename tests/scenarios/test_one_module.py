"""The imports for a scenario's names: a built-in algorithm imports its own module, and a mistake in the fleet none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from scenarios.load import _read
from tests.all_of import all_of

pytestmark = pytest.mark.slow  # each is a process of its own
ROOT = Path(__file__).parents[2]
LOADED = """
import json, sys
from scenarios.load import load
try:
    load(sys.argv[1], recordings=True)
    said = ""
except ValueError as error:
    said = str(error)
print(json.dumps([said, sorted(sys.modules)]))
"""


def loaded(scenario: str | Path) -> tuple[str, set[str]]:
    """The message about the scenario, and the modules that were imported to find it."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(scenario)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said, modules = json.loads(done.stdout)
    return said, set(modules)


def test_a_built_in_name_imports_one_module():
    """The quickstart names four algorithms."""
    said, modules = loaded("quickstart")
    assert said == ""
    assert {f"algorithms.{name}" for name in ("fedavg", "fedprox", "fedcl", "fedcurv")} <= modules
    others = (
        "scaffold",
        "fednova",
        "feddyn",
        "ditto",
        "fedadam",
        "fedyogi",
        "fedavgm",
        "fedmeta",
        "fedshare",
        "agentimportance",
        "continual",
    )
    assert not {f"algorithms.{name}" for name in others} & modules
    assert all_of((ROOT / "algorithms" / f"{name}.py").is_file() for name in others)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ({"trace": {"down": ["nosuch.csv"], "symmetric": True}}, "there is no such file"),
        ({"up_mbit_s": 2, "down_mbit_s": {"lognormal": {"median": 1e6, "sigma": 3}}}, "draws must lie between"),
        ({"up_mbit_s": 2, "down_mbit_s": 3, "via": "nosuch"}, "there is no 'nosuch'"),
        ({"radio": "lte-drivin"}, "did you mean lte-driving?"),
    ],
)
def test_a_mistake_in_the_fleet_is_told_before_torch_is_imported(tmp_path, link, said):
    text, _ = _read("quickstart")
    plain = YAML(typ="safe").load(text)
    plain["fleet"][0]["link"] = link
    (tmp_path / "mine.yaml").write_text(json.dumps(plain))
    told, modules = loaded(tmp_path / "mine.yaml")
    assert said in told
    assert "torch" not in modules
