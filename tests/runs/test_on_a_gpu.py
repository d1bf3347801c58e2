"""What only a GPU can show: the same bytes on each run, and the CPU's results but for rounding."""

import pytest
import torch
from safetensors.torch import load_file

from emulator.commands.play import Settings, play_scenario
from scenarios.load import build
from tests.conftest import SMALL, digests, merged

GPU = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: what --device cuda computes was not tested"),
]


def played(out, device, **training):
    """Its folder; two algorithms, devices in stacks of 2, and a network with convolutions and dropout."""
    changes = {
        "model": "tests.runs.network:small",
        "training": {"stack": 2, **training},
        "rounds": {"max": 2},
        "algorithms": ["fedavg", {"fedcurv": {"strength": 0.01}}],
    }
    settings = Settings(workers=0, out=out, quiet=True, device=device)
    assert play_scenario(build(merged(SMALL, changes)), settings) == 0
    return out


def model(out):
    return load_file(out / "fedcurv-s1" / "final.safetensors")


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_two_runs_are_equal_byte_for_byte(tmp_path, precision):
    one, other = (played(tmp_path / name, GPU, precision=precision) for name in ("one", "other"))
    assert digests(one) == digests(other)


def test_it_differs_from_the_cpu_in_rounding_only(tmp_path):
    here, there = model(played(tmp_path / "here", "cpu")), model(played(tmp_path / "there", GPU))
    for name, value in here.items():
        torch.testing.assert_close(there[name], value, rtol=1e-3, atol=1e-4)
