"""Keys are the same in another process, folder, locale and time zone, and for another order of a scenario's lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.lab.build import lab_of
from emulator.lab.jobs import evaluate, request, start
from emulator.lab.training import train
from emulator.ledger.key import Keys
from emulator.messages.store import NOTHING, Ref
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, merged

ROOT = Path(__file__).parents[3]
PACKAGES = ("algorithms", "devices", "emulator", "network", "scenarios")
SCENARIO = merged(SMALL, {"algorithms": [{"fedcl": {"interval": 2, "importance": "sq"}, "name": "mine"}]})
WITH_ENCODINGS = {"fedcl": {"interval": 2, "encoding": {"up": {"weights": "int8"}, "down": {"importance": "bfloat16"}}}}

PRINTED = """
import json, sys
from tests.emulator.ledger.test_key_elsewhere import SCENARIO, keys_of
import algorithms
print(json.dumps([algorithms.__file__, keys_of(SCENARIO)]))
"""


def keys_of(scenario: Mapping[str, Any]) -> list[str]:
    lab = lab_of(build(scenario))
    keys, ref = Keys(lab, "here"), Ref.of(b"some")
    run = Run(next(iter(lab.algorithms)), 1)
    jobs: list[tuple[Any, ...]] = [
        (start, run),
        (request, run, 2, ref, lab.names),
        *((train, run, name, 2, ref, NOTHING, True) for name in lab.names),
        (evaluate, run, ref, "validation", 0, 0),
    ]
    return [keys.key(job, args) for job, *args in jobs]


def backwards(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: backwards(held) for key, held in reversed(value.items())}
    return [backwards(each) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_the_order_of_a_scenarios_keys_does_not_count() -> None:
    whole = merged(SCENARIO, {"algorithms": [WITH_ENCODINGS]})
    assert str(backwards(whole)) != str(whole)
    assert keys_of(backwards(whole)) == keys_of(whole) != keys_of(SCENARIO)


@pytest.mark.slow
def test_another_process_with_other_files_environment_and_hashes_has_the_same_keys(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    elsewhere = {"LC_ALL": "C", "TZ": "Asia/Tokyo", "HOSTNAME": "other", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    printed = subprocess.run(
        [sys.executable, "-c", PRINTED],
        env={**os.environ, **elsewhere, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    where, found = json.loads(printed.stdout)
    assert Path(where).is_relative_to(tmp_path)
    assert found == keys_of(SCENARIO)
