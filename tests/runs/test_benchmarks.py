"""The benchmarks that come along: what they say is theirs, and they play, cut short and on noise."""

import json

import numpy as np
import pytest

from devices.data.dataset import Dataset
from scenarios.load import load
from tests.all_of import all_of

NAME = "benchmarks/cifar10-cross-device"


def noise() -> Dataset:
    """In CIFAR-10's form."""
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((100, 3, 32, 32), dtype=np.float32), np.arange(100) % 10
    return Dataset("noise", x[:80], y[:80], x[80:], y[80:], 10)


def test_the_cross_device_benchmark_is_pfl_researchs():
    """1,000 devices x 50 images are CIFAR-10's 50,000; 50 in a round; E = 1, B = 10, 1,500 rounds."""
    found = load(NAME)
    (group,) = found.fleet
    assert (group.count, group.count * found.rounds.fraction, found.rounds.max) == (1000, 50, 1500)
    assert (found.training.epochs, found.training.batch, found.training.stack) == (1, 10, 50)
    assert (found.data.set, found.data.split.kind, found.data.validation) == ("cifar10", "iid", 0)


@pytest.mark.slow
def test_it_plays_in_stacks(fedlapse, tmp_path):
    short = ("fleet.0.count=4", "rounds.fraction=0.5", "evaluate.every=2", "--rounds", "2", "--workers", "0", "-q")
    done = fedlapse("compare", NAME, f"data.set={__name__}:noise", *short, "--out", "out")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()]
    assert [row["counted"] for row in rows] == [2, 2]
    # each way 4 bytes for each of 1,626,442 parameters (tests/algorithms/test_models.py), beside safetensors' header
    assert all_of(0 <= row["bytes"]["up"]["weights"] - 2 * 4 * 1_626_442 < 2 * 2000 for row in rows)
    assert "stack: 50" in (tmp_path / "out" / "scenario.yaml").read_text()
