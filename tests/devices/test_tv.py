import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def run(program: str) -> str:
    """The output of a fresh interpreter; in this process torchvision may have been imported already."""
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


USERS = {
    "an algorithm, a data set": "from scenarios.builders.plugins import thing; net = thing('mine:net')",
    "a model": "from scenarios.builders import sets; from algorithms import models; net = models.build('mine:net', 0)",
    "a program": "import fedlapse; from mine import net",
    "what a worker unpickles": "import emulator.compute.executors; from mine import net",
}


@pytest.mark.slow
def test_users_files_may_import_torchvision(tmp_path):
    """Its networks are built of torch's layers alone.  Each way is tried in a process of its own, in which torch is
    imported already."""
    (tmp_path / "mine.py").write_text(
        "from torchvision import models, transforms\ndef net(): return models.squeezenet1_1(num_classes=3)\n"
    )
    program = f"""
import os, sys
import torch
sys.path.append({str(tmp_path)!r})
for how in {list(USERS.values())!r}:
    if not os.fork():
        exec(how)
        net = net if isinstance(net, torch.nn.Module) else net()
        print(tuple(net(torch.zeros(1, 3, 32, 32)).shape), flush=True)
        os._exit(0)
    os.wait()
"""
    assert run(program) == "\n".join(["(1, 3)"] * len(USERS))


@pytest.mark.slow
def test_to_look_for_torchvision_imports_nothing():
    """transformers asks whether it is there, by `find_spec`, long before anybody uses it."""
    program = """
import sys, fedlapse
from importlib.util import find_spec
print(find_spec("torchvision").name, "torch" in sys.modules)
"""
    assert run(program) == "torchvision False"
