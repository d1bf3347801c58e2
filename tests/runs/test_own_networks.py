"""Runs of networks that tie weights, keep something beside their weights, or draw by themselves."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load as tensors
from safetensors.torch import save

from algorithms import models
from algorithms.algorithm import Message, Party, Phase, Reply, Request, Tensors
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from emulator.audit.audit import audit
from emulator.lab import stacking
from emulator.lab.build import lab_of
from emulator.lab.jobs import message_sizes
from emulator.pricing.costs import Costs
from emulator.pricing.memory import footprint
from emulator.record.run import Run
from scenarios.builders import sets
from scenarios.load import build
from scenarios.schema.scenario import Data
from tests.conftest import SMALL, Play, merged
from tests.runs.nets import CENTRED, DEEP, DENSE, TWICE, Deep, Twice

PARAMETERS = 64 * 64 + 64 * 10 + 10  # of Twice


def disturb() -> None:
    """Whatever a process may have drawn before."""
    random.seed()
    np.random.seed()  # noqa: NPY002
    torch.seed()


# ---- one weight with two names


@pytest.fixture(scope="module")
def tied(play: Play) -> Any:
    return play("fedadam", model=TWICE)


@pytest.mark.slow
def test_the_model_on_disk_is_what_load_state_dict_takes(tied: Any) -> None:
    model, saved = Twice(), tensors(tied.model)
    model.load_state_dict(saved)
    assert model.a.weight is model.b.weight
    assert torch.equal(model.a.weight, saved["a.weight"])
    assert saved.keys() == model.state_dict().keys()


@pytest.mark.slow
def test_it_travels_once(tied: Any) -> None:
    """The 4,746 float32 values of 4 devices; what names and shapes take is the frame."""
    assert tied.rounds[0]["bytes"]["down"]["weights"] == tied.rounds[0]["bytes"]["up"]["weights"] == 4 * 4 * PARAMETERS


@pytest.mark.slow
def test_a_model_whose_two_names_have_two_values_is_a_fault(play: Play) -> None:
    run = play("fedavg", model=TWICE)
    file = run.folder / "final.safetensors"
    assert not audit(run.folder).faults
    about = {"second_names": '{"b.weight": "a.weight"}'}
    file.write_bytes(save({**tensors(run.model), "b.weight": torch.zeros(64, 64)}, about))
    assert any("b.weight and a.weight are one tensor" in fault for fault in audit(run.folder).faults)


def test_it_is_in_memory_once_and_stacks_like_any_other() -> None:
    made = build(merged(SMALL, {"model": TWICE, "training": {"batch": 10}}))
    lab = lab_of(made)
    found = footprint(lab, "fedavg", Costs(lab, "fedavg", 1).heaviest(), 0, 0, 0)
    assert (found.parameters, found.gradients) == (4 * PARAMETERS, 4 * PARAMETERS)
    down, up = message_sizes(lab, Run("fedavg", 1))
    assert 4 * PARAMETERS < down == up < 4 * PARAMETERS + 500
    assert lab.stack == {"fedavg": stacking.MOST}


# ---- what a network keeps


@pytest.mark.slow
def test_a_run_does_not_depend_on_those_that_its_process_played_before(play: Play) -> None:
    changes = {"model": CENTRED, "evaluate": {"every": 1}}
    first = play("fedavg", **changes)
    play("fedprox", seed=2, **changes)
    again = play("fedavg", **changes)
    for file in ("events.jsonl", "rounds.jsonl", "final.safetensors"):
        assert (first.folder / file).read_bytes() == (again.folder / file).read_bytes()


@pytest.mark.parametrize(("model", "is_"), [(DENSE, stacking.MOST), (CENTRED, 1), (DEEP, 1)])
def test_what_keeps_or_draws_one_thing_for_all_is_not_stacked(model: str, is_: int) -> None:
    lab = lab_of(build(merged(SMALL, {"model": model, "training": {"batch": 10}})))
    assert lab.stack == {"fedavg": is_}


# ---- what draws


@dataclass(frozen=True)
class Drawing(FedAvg):
    """FedAvg whose every half draws from generators that are one for the process."""

    cohort_rule: ClassVar[Literal["drawn", "own"]] = "own"

    def start(self, weights: Tensors, server: Party) -> Message:
        return super().start({name: value + _noise() for name, value in weights.items()}, server)

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        return random.sample(list(names), count)

    def request(self, state: Message, names: Sequence[str], server: Party) -> Request:
        return Request({"weights": {name: value + _noise() for name, value in state["weights"].items()}})

    def train(self, download: Message, device: Party) -> Reply:
        reply = super().train(download, device)
        return Reply({"weights": {n: v + _noise() for n, v in reply.upload["weights"].items()}}, reply.examples)

    def combine(self, state: Message, replies: Mapping[str, Reply], server: Party) -> Message:
        mean = super().combine(state, replies, server)["weights"]
        return {"weights": {name: value + _noise() for name, value in mean.items()}}


def _noise() -> float:
    return 1e-3 * (random.random() + float(np.random.random()) + float(torch.rand(())))  # noqa: NPY002


@pytest.mark.slow
def test_draws_of_networks_and_algorithms_follow_from_the_seed(play: Play) -> None:
    algorithm = {"algorithm": f"{__name__}:Drawing", "name": "drawing"}
    runs = []
    for _ in range(3):
        disturb()
        runs.append(play(algorithm, model=DEEP, rounds={"fraction": 0.5}))
    for file in ("events.jsonl", "rounds.jsonl", "final.safetensors"):
        assert len({(run.folder / file).read_bytes() for run in runs}) == 1
    assert play(algorithm, seed=2, model=DEEP, rounds={"fraction": 0.5}).model != runs[0].model


def test_a_price_does_not_depend_on_what_was_drawn_before() -> None:
    phase = Phase("train", "batch", 100, 10)
    flops = set()
    for _ in range(20):
        disturb()
        flops.add(Meter(Deep(), (1, 8, 8), models.cross_entropy).flops(phase))
    assert len(flops) == 1


def numbers() -> Any:
    """Examples that are drawn from NumPy's global generator."""
    from devices.data.dataset import Dataset

    x = np.random.random((20, 4)).astype(np.float32)  # noqa: NPY002
    y = np.array([random.randrange(2) for _ in range(20)])
    return Dataset("numbers", x, y, x[:4], y[:4], classes=2)


def test_a_data_set_that_is_drawn_is_the_same_each_time() -> None:
    found = []
    for _ in range(2):
        disturb()
        found.append(sets.dataset(Data(set=f"{__name__}:numbers")))
    assert np.array_equal(found[0].x, found[1].x)
    assert np.array_equal(found[0].y, found[1].y)
    assert len(np.unique(found[0].x)) > 70


def test_a_network_that_draws_when_it_is_built_is_the_same_each_time() -> None:
    found = []
    for _ in range(2):
        disturb()
        found.append(models.build(f"{__name__}:scattered", 3))
    assert torch.equal(found[0].weight, found[1].weight)


def scattered() -> Any:
    layer = torch.nn.Linear(4, 4)
    layer.weight.data = torch.from_numpy(np.random.random((4, 4)).astype(np.float32)) * random.random()  # noqa: NPY002
    return layer
