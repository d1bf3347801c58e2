"""A ledger never answers with what a user's code gave before something that it reads has changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scenarios.builders.reads import forget
from tests.conftest import SMALL, digests, merged

OWN = """
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from algorithms.fedavg import FedAvg
from devices.data.dataset import Dataset


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.layer = nn.Linear(64, classes)
        self.scale = float(Path("scale.txt").read_text())

    def forward(self, x):
        return self.layer(x.flatten(1) * self.scale * float(os.environ["OWN_SCALE"]))


@dataclass(frozen=True)
class Late(FedAvg):
    def course(self, download, device):
        if device.round == 1:
            json.loads(Path("late.json").read_text())
        return (yield from super().course(download, device))


def data():
    rng = np.random.default_rng(1)
    x = rng.random((100, 1, 8, 8), dtype=np.float32) * float(Path("range.txt").read_text())
    y = np.arange(100) % 10
    return Dataset("own", x[:80], y[:80], x[80:], y[80:], 10)
"""


class Project:
    """A folder with own code, and commands in it, each of which finds nothing in this process of those before it."""

    def __init__(self, folder: Path, fedlapse: Any, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.fedlapse, self.patch, self.played = folder, fedlapse, patch, 0
        changes = {"model": "own:Net", "seeds": [1], "evaluate": {"personalise_every": "never"}}
        (folder / "s.yaml").write_text(json.dumps(merged(SMALL, changes)))
        (folder / "own.py").write_text(OWN)
        for name in ("scale.txt", "range.txt", "late.json"):
            (folder / name).write_text("1")

    def play(self, *words: str, workers: int = 0, scale: str = "1") -> tuple[dict[str, str], str]:
        """The files that a run leaves, and what it says of the ledger."""
        self.played += 1
        out = self.folder / f"out-{self.played}"
        forget()
        sys.modules.pop("own", None)
        self.patch.setenv("OWN_SCALE", scale)
        told = ("--ledger", self.folder / "ledger", "--out", out, "-q", "--workers", workers)
        done = self.fedlapse("compare", "s.yaml", *words, *told)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stdout.splitlines() if line.startswith("training:")]
        return digests(out / "fedavg-s1"), said[0] if said else ""


@pytest.fixture
def project(tmp_path: Path, fedlapse: Any, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, fedlapse, monkeypatch)


@pytest.mark.slow
def test_a_file_and_a_variable_that_a_model_reads_are_compared(project):
    """In workers; the tests below play in the process of the commands."""
    before, said = project.play(workers=2)
    assert said.startswith("training: 0 of ")
    (project.folder / "scale.txt").write_text("0.01")
    after, said = project.play(workers=2)
    assert said.startswith("training: 0 of ")
    assert project.play(workers=2, scale="0.01")[1].startswith("training: 0 of ")
    (project.folder / "scale.txt").write_text("1")
    again, said = project.play(workers=2)
    assert again == before != after
    assert said == "training: 8 of 8 device-rounds from the ledger, 0 computed"


@pytest.mark.slow
def test_the_rounds_before_a_file_is_read_stay_known(project):
    """An algorithm reads a file in round 1, and FedAvg beside it reads nothing."""
    words = ("model=digits-cnn", "algorithms=[fedavg, {'own:Late': {}, name: late}]")
    project.play(*words)
    (project.folder / "late.json").write_text("22")
    assert project.play(*words)[1].startswith("training: 12 of 16 device-rounds from the ledger, 4 computed")


@pytest.mark.slow
def test_a_file_that_a_data_set_reads_changes_the_data_and_with_them_the_results(project):
    words = ("data.set=own:data", "model=digits-cnn")
    before, _ = project.play(*words)
    again, said = project.play(*words)
    assert (again == before, " 0 computed" in said) == (True, True)
    (project.folder / "range.txt").write_text("2")
    after, said = project.play(*words)
    assert (after != before, said.startswith("training: 0 of ")) == (True, True)
