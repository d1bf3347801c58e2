"""The losses that training notes on its way, for the server's choice of devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algorithms.algorithm import Losses, Party, Training
from algorithms.fedavg import FedAvg
from algorithms.keeptrace import keep_trace
from algorithms.stack import train
from algorithms.training.local import sgd
from algorithms.training.tensors import tensors_of
from tests.algorithms.made import cross_entropy, party
from tests.all_of import all_of

STILL = Training(epochs=3, batch=8, lr=1e-12)  # so that all losses are those of the initial model


def linear() -> torch.nn.Sequential:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).double()


def noting(power: int, n: int, name: str = "a") -> tuple[Party, float]:
    """A device with n examples, and (mean of loss^p)^(1/p) of the initial model on them."""
    model = linear()
    device = replace(party(model, name, n, draw=n), losses=Losses(power))
    with torch.no_grad():
        each = cross_entropy(model(device.x), device.y)
    return device, float((each**power).mean() ** (1 / power))


@pytest.mark.parametrize("power", [1, 2])
def test_it_is_the_mean_over_all_examples_of_all_steps(power: int) -> None:
    """20 examples in batches of 8, so the last batch of an epoch is shorter and must not weigh more."""
    device, due = noting(power, 20)
    assert device.losses
    assert device.losses.mean is None
    sgd(device, tensors_of(device.model), STILL)
    assert device.losses.examples == 3 * 20
    assert device.losses.mean == pytest.approx(due, rel=1e-9)


@pytest.mark.parametrize("power", [1, 2])
def test_in_a_stack_each_device_has_its_own(power: int) -> None:
    """Of different sizes, so that batches are padded."""
    devices, due = zip(*(noting(power, n, f"d{n}") for n in (20, 5, 13)), strict=True)
    download = {"weights": {name: value.clone() for name, value in tensors_of(devices[0].model).items()}}
    train(FedAvg(STILL), [download] * 3, devices)
    assert [device.losses.mean for device in devices] == pytest.approx(due, rel=1e-9)


def test_a_keep_trace_notes_each_step_once_though_it_repeats_some() -> None:
    device, due = noting(2, 20)
    keep_trace(device, {name: value.clone() for name, value in tensors_of(device.model).items()}, STILL, every=3)
    assert device.losses
    assert device.losses.examples == 3 * 20
    assert device.losses.mean == pytest.approx(due, rel=1e-9)


def test_noting_changes_no_bit_of_the_training() -> None:
    device, _ = noting(2, 20)
    weights = {name: value.clone() for name, value in tensors_of(device.model).items()}
    trained = sgd(device, weights, Training(epochs=2, batch=8, lr=0.1))
    plain = sgd(replace(device, losses=None), weights, Training(epochs=2, batch=8, lr=0.1))
    assert all_of(torch.equal(value, plain[name]) for name, value in trained.items())
