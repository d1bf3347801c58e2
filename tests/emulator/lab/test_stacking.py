"""The number of devices that train together on a CPU and on a GPU, and the reasons why devices train one by one."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms import models
from emulator.lab import stacking
from emulator.lab.build import built
from emulator.lab.lab import CPU
from scenarios.load import build, dump, parse
from tests.conftest import SMALL, merged
from tests.runs.nets import DENSE, NORMED

GPU = "cuda:0"


class Functional(nn.Module):
    """Dropout that is no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        dropped: Tensor = self.head(F.dropout(x.flatten(1), 0.2, self.training))
        return dropped


class Read(nn.Module):
    """Looks at a value of its own, which vmap has not."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(x.flatten(1))
        return found * (1.0 if float(found.detach().sum().item()) > 0 else 2.0)


class Counting(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.calls = nn.Linear(64, 10), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        found: Tensor = self.head(x.flatten(1))
        return found


class Drawing(nn.Module):
    """Asks Python for chance."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(x.flatten(1))
        return found * random.choice((1.0, 1.0))


def wide() -> nn.Sequential:
    """83 million parameters without memory: 250 million have room for three such models."""
    with torch.device("meta"):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 1_106_700), nn.Linear(1_106_700, 10))


def named(what: object) -> str:
    return f"{__name__}:{what.__name__}"  # type: ignore[attr-defined]


def whys(model: str, place: str = CPU, **training: object) -> dict[str, str]:
    """By label: what `check` says of FedAvg and UGA."""
    scenario = build(merged(SMALL, {"model": model, "training": training, "algorithms": ["fedavg", "uga"]}))
    return stacking.why_alone(scenario, built(scenario, (place,))[1])


@pytest.mark.parametrize(
    ("model", "said", "size"),
    [
        ("digits-cnn", "auto", 50),
        ("digits-cnn", 7, 7),
        ("digits-cnn", 1, 1),
        (DENSE, "auto", 50),
        (NORMED, "auto", 1),
    ],
)
def test_on_a_gpu_auto_takes_what_can_be_stacked(model: str, said: int | str, size: int) -> None:
    """In batches of any size; on a CPU these have 1, 7, 1, 1 and 1 in batches of 65 (tests/runs/test_stacks.py)."""
    made = build(merged(SMALL, {"model": model, "training": {"stack": said, "batch": 65}}))
    scenario, lab = built(made, (GPU,))
    assert scenario.training.stack == size
    assert lab.stack == {"fedavg": size}


def test_on_a_gpu_large_models_have_small_stacks_and_recurrent_ones_none() -> None:
    assert stacking._that_pay(models.build("lstm-tiny", 0, 80), 10, 4, GPU)[0] == 1
    assert stacking._that_pay(wide(), 10, 4, GPU)[0] == 3


def test_a_resolved_scenario_keeps_its_number_on_any_device() -> None:
    """So a run that began on a GPU is resumed with the same stacks on a CPU, and the other way round."""
    made = build(merged(SMALL, {"model": "digits-cnn", "algorithms": [{"fedprox": {"training": {"stack": "auto"}}}]}))
    for first, second, size in ((GPU, CPU, 50), (CPU, GPU, 1)):
        scenario, lab = built(made, (first,))
        again, resumed = built(parse(dump(scenario), "scenario.yaml"), (second,))
        assert again.training.stack == size
        assert resumed.stack == lab.stack == {"fedprox": size}


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (NORMED, "BatchNorm1d keeps running_mean in addition to its parameters"),
        (named(Functional), "forward draws random numbers, as torch.nn.functional.dropout does"),
        (named(Counting), "the model keeps something in addition to its weights"),
        (named(Drawing), "forward draws from Python's or NumPy's generator"),
        (named(Read), "torch.func.vmap cannot run the model: vmap: "),
    ],
)
def test_why_a_model_cannot_be_stacked(model: str, why: str) -> None:
    for place in (CPU, GPU):
        found = whys(model, place, stack=4)
        assert found["fedavg"].startswith(why)
        assert found["uga"] == "the algorithm has a training loop of its own"


def test_why_auto_stacks_nothing_on_a_cpu() -> None:
    assert "speed up dense networks only, and the model has Conv2d" in whys("digits-cnn")["fedavg"]
    assert "up to batches of 64, and training.batch is 65" in whys(DENSE, batch=65)["fedavg"]
    assert (
        "up to 250,000 parameters, and the model has 616,610"
        in stacking._that_pay(models.build("cifar-mlp", 0, 10), 10, 4, CPU)[1]
    )


@pytest.mark.parametrize(
    ("model", "asked", "size"),
    [
        (nn.Linear(99, 100), 4, 25),  # 10,000 parameters
        (nn.Linear(99, 100), 100, 25),
        (nn.Linear(99, 100), 101, 26),
        (nn.Linear(99, 100), 400, 100),
        (nn.Linear(99, 100), 5000, 250),
        (nn.Linear(100, 100), 5000, 25),  # 10,100
        (models.build("mlp", 0, 10), 5000, 25),  # 159,010
    ],
)
def test_on_a_cpu_auto_stacks_more_devices_of_a_small_model_if_there_are_four_such_stacks(
    model: nn.Module, asked: int, size: int
) -> None:
    assert stacking._that_pay(model, 10, asked, CPU) == (size, "")


def test_nothing_is_said_of_stacks_and_of_those_who_ask_for_none() -> None:
    assert whys(DENSE, batch=10) == {"uga": "the algorithm has a training loop of its own"}
    assert whys("digits-cnn", stack=3) == {"uga": "the algorithm has a training loop of its own"}
    assert whys(NORMED, stack=1) == {}
