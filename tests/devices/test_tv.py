import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def run(program: str) -> str:
    """What a fresh interpreter prints: here torchvision may have been imported already."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_torchvision_opens_through_the_door_whatever_torch_it_stands_beside():
    program = """
import gc
from devices.data import tv
datasets = tv.datasets()
gc.collect()
import torch, torchvision.transforms as transforms
scaled = transforms.Normalize((0.5,), (0.25,))(torch.ones(1, 2, 2))
print(datasets.MNIST.__name__, scaled.sum().item(), tv.datasets() is datasets)
"""
    assert run(program) == "MNIST 8.0 True"  # (1 - 0.5)/0.25 = 2, four times


@pytest.mark.slow
def test_the_door_alone_costs_no_torch():
    assert run("import sys, devices.data.idx, devices.data.tv; print('torch' in sys.modules)") == "False"


def test_another_failure_of_the_import_is_not_hidden(monkeypatch):
    from devices.data import tv

    def broken(name: str) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(tv.importlib, "import_module", broken)
    with pytest.raises(RuntimeError, match="something else"):
        tv.datasets()
