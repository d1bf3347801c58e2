"""FedProx: a spring to the broadcast model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Party, Tensors, Training
from algorithms.counting.cost import PULL_PLAIN, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from algorithms.training.seeding import seeded
from tests.algorithms.made import cross_entropy, same_bits


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def device() -> Party:
    seeded(3)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 1, 4, 4, generator=draw), torch.randint(3, (20,), generator=draw)
    return Party("a", 1, model, cross_entropy, x, y, 0, 0, 5)


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def quadratic(a: float, c: float) -> Party:
    """A device whose loss is ½ a (θ - c)²."""
    model = nn.Linear(1, 1, bias=False).double()
    return Party("a", 1, model, half_square, number(a**0.5), number(a**0.5 * c)[0], 0, 0, 1)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


def test_without_mu_it_is_fedavg_bit_for_bit() -> None:
    party = device()
    down = {"weights": copied(party.model)}
    plain = FedAvg(ROUGH).train(down, party)
    prox = FedProx(ROUGH, mu=0.0).train(down, party)
    assert same_bits(prox.upload["weights"], plain.upload["weights"])
    assert prox.leverage == {}


def test_the_local_optimum_is_that_of_the_loss_and_its_spring() -> None:
    # a (θ - c) + μ (θ - θ_t) = 0; a step takes 0.3 (a + μ) = 0.9 of the way that is left
    a, c, mu, start = 2.0, 5.0, 1.0, -1.0
    algorithm = FedProx(Training(epochs=40, batch=1, lr=0.3), mu)
    reply = algorithm.train({"weights": {"weight": number(start)}}, quadratic(a, c))
    optimum = (a * c + mu * start) / (a + mu)
    assert reply.upload["weights"]["weight"].item() == pytest.approx(optimum, rel=1e-14)


def test_the_first_step_feels_no_spring_and_the_second_feels_mu_times_the_way_gone() -> None:
    eta, mu = 0.1, 0.7
    one = 1 - eta * (1 - 3)  # the loss ½ (θ - 3)² from θ = 1
    two = one - eta * ((one - 3) + mu * (one - 1))
    for epochs, expected in ((1, one), (2, two)):
        algorithm = FedProx(Training(epochs=epochs, batch=1, lr=eta), mu)
        reply = algorithm.train({"weights": {"weight": number(1.0)}}, quadratic(1.0, 3.0))
        assert reply.upload["weights"]["weight"].item() == pytest.approx(expected, rel=1e-15)


def test_leverage_is_rate_times_steps_times_mu() -> None:
    party = replace(device(), round=2)
    training = replace(ROUGH, lr_decay=0.5)
    reply = FedProx(training, mu=0.4).train({"weights": copied(party.model)}, party)
    # lr 0.05 / 4, two epochs of ceil(20 / 8) = 3 steps
    assert reply.leverage["p99"] == reply.leverage["max"] == pytest.approx(0.05 / 4 * 6 * 0.4)
    assert reply.leverage["step"] == pytest.approx(0.05 / 4 * 0.4)


def test_as_many_bytes_as_fedavg() -> None:
    party = device()
    algorithm = FedProx(ROUGH, mu=0.4)
    request = algorithm.request({"weights": copied(party.model)}, ["a"], party)
    assert request.download.keys() == algorithm.train(request.download, party).upload.keys() == {"weights"}


def test_the_spring_moves_floats_and_costs_nothing_without_mu() -> None:
    load = Load(round=0, examples=20, parameters=1000)
    plain = sgd_traffic(1000, 0.9)
    assert FedProx(ROUGH, mu=0.4).device_work(load)[0].traffic == plain + 1000 * PULL_PLAIN
    assert FedProx(ROUGH, mu=0.0).device_work(load) == FedAvg(ROUGH).device_work(load)


def test_a_negative_mu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mu is -0\.1"):
        FedProx(ROUGH, mu=-0.1)
