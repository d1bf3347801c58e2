"""Ditto: FedAvg's global model, and a personal one on each device."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Party, Tensors, Training
from algorithms.counting.cost import PULL_PLAIN
from algorithms.ditto import Ditto
from algorithms.fedavg import FedAvg
from tests.algorithms import made
from tests.algorithms.made import same_bits

ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_the_global_model_has_the_bits_of_fedavg() -> None:
    down = {"weights": copied(made.cnn())}
    memory = {"personal": {name: 0.5 * value for name, value in copied(made.cnn()).items()}}
    for kept in ({}, memory):
        device = made.party(made.cnn(), memory=kept)
        found, wanted = Ditto(ROUGH).train(down, device), FedAvg(ROUGH).train(down, device)
        assert same_bits(found.upload["weights"], wanted.upload["weights"])
        assert same_bits(found.memory["personal"], found.model)
        assert not same_bits(found.model, wanted.upload["weights"])


def test_without_the_penalty_the_personal_model_is_trained_alone() -> None:
    device = made.party(made.cnn(), memory={"personal": {n: 0.5 * v for n, v in copied(made.cnn()).items()}})
    found = Ditto(ROUGH, strength=0.0).train({"weights": copied(made.cnn())}, device)
    alone = FedAvg(ROUGH).train({"weights": device.memory["personal"]}, device)
    assert same_bits(found.model, alone.upload["weights"])


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_the_personal_optimum_lies_between_the_device_s_own_and_the_global_model(strength: float) -> None:
    a, c, start = 2.0, 5.0, -1.0  # the loss ½ a (θ - c)²

    def half_square(outputs: Tensor, y: Tensor) -> Tensor:
        return 0.5 * (outputs[:, 0] - y) ** 2

    x = torch.full((1, 1), a**0.5, dtype=torch.float64)
    device = Party("a", 1, nn.Linear(1, 1, bias=False).double(), half_square, x, c * x[0], 0, 0, 1)
    down = {"weights": {"weight": torch.full((1, 1), start).double()}}
    found = Ditto(Training(epochs=80, batch=1, lr=0.2), strength=strength).train(down, device)
    assert found.model["weight"].item() == pytest.approx((a * c + strength * start) / (a + strength), rel=1e-12)


def test_the_second_training_is_charged() -> None:
    load = Load(0, examples=20, parameters=1000)
    (plain,) = FedAvg(ROUGH).device_work(load)
    second = replace(plain, name="personal", traffic=plain.traffic + 1000 * PULL_PLAIN)
    assert Ditto(ROUGH).device_work(load) == (plain, second)
    assert Ditto(ROUGH, strength=0.0).device_work(load) == (plain, replace(plain, name="personal"))
    assert Ditto(ROUGH).device_floats(load) == 1000
    parts = Ditto(replace(ROUGH, epochs=1.5)).device_work(load)  # three steps of the first pass, two of the second
    assert [(phase.name, phase.examples) for phase in parts] == [
        ("train", 20), ("train", 16), ("personal", 20), ("personal", 16)]  # fmt: skip


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(ValueError, match="strength is -1"):
        Ditto(ROUGH, strength=-1.0)
