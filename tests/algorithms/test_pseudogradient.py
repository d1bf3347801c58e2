"""FedAvgM, FedAdam and FedYogi: optimisers on the server, whose gradient is how far the devices' mean has moved."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
import torch
from torch import nn

from algorithms.algorithm import Algorithm, Load, Message, Party, Reply, Tensors, Training
from algorithms.fedadam import FedAdam
from algorithms.fedavg import FedAvg
from algorithms.fedavgm import FedAvgM
from algorithms.fedyogi import FedYogi
from tests.algorithms import made
from tests.all_of import all_of

TRAINING = Training(epochs=1, batch=4, lr=0.1)


def party(name: str = "server", round: int = 0, dtype: torch.dtype = torch.float32) -> Party:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(dtype)
    given = {"shape": (3,), "classes": 2, "devices": 3, "round": round, "seed": round}
    return made.party(model, name, 6 + 2 * (ord(name[0]) % 3), draw=ord(name[0]) + round, **given)


def start(dtype: torch.dtype) -> Tensors:
    draw = torch.Generator().manual_seed(5)
    state = party(dtype=dtype).model.state_dict()
    return {
        name: torch.randn(value.shape, generator=draw, dtype=dtype) if value.is_floating_point() else value.clone()
        for name, value in state.items()
        if "running" not in name
    } | {name: value.clone() for name, value in state.items() if "running" in name}


def played(algorithm: FedAvg, rounds: int, dtype: torch.dtype = torch.float32) -> list[Message]:
    """The server's states."""
    states = [algorithm.start(start(dtype), party(dtype=dtype))]
    for round in range(rounds):
        server = party("server", round, dtype)
        down = algorithm.request(states[-1], "abc", server).download
        assert down.keys() == {"weights"}
        replies = {name: algorithm.train(down, party(name, round, dtype)) for name in "abc"}
        states.append(algorithm.combine(states[-1], replies, server))
    return states


def line(model: nn.Module, state: Message, algorithm: FedAvg, *values: float) -> list[float]:
    """The one weight after each round in which the devices' mean is at these values."""
    server = replace(party(), model=model)
    found = []
    for value in values:
        replies = {"a": Reply({"weights": {"weight": torch.tensor([[value]], dtype=torch.float64)}}, 3)}
        state = algorithm.combine(state, replies, server)
        found.append(state["weights"]["weight"].item())
    return found


def one() -> tuple[nn.Module, Message]:
    model = nn.Linear(1, 1, bias=False).double()
    return model, {"weights": {"weight": torch.tensor([[1.0]], dtype=torch.float64)}}


def test_they_are_algorithms() -> None:
    algorithms: list[Algorithm] = [FedAvgM(TRAINING), FedAdam(TRAINING), FedYogi(TRAINING)]
    assert all_of(algorithm.training is TRAINING for algorithm in algorithms)


# ---- FedAvgM


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_without_momentum_it_is_fedavg_bit_for_bit(dtype: torch.dtype) -> None:
    momentum, plain = (played(a, 3, dtype) for a in (FedAvgM(TRAINING, beta=0.0), FedAvg(TRAINING)))
    for with_momentum, without in zip(momentum, plain, strict=True):
        assert all_of(torch.equal(with_momentum["weights"][name], value) for name, value in without["weights"].items())


def test_its_first_round_is_fedavg_s_whatever_the_momentum() -> None:
    momentum, plain = (played(a, 1)[1]["weights"] for a in (FedAvgM(TRAINING), FedAvg(TRAINING)))
    assert all_of(torch.equal(momentum[name], value) for name, value in plain.items())


def test_momentum_by_hand() -> None:
    # v = 2; θ = 1 + 0.5 x 2 = 2.  Δ = 4, v = 0.9 x 2 + 4 = 5.8; θ = 2 + 2.9.  Δ = 0, v = 5.22; θ = 4.9 + 2.61
    model, state = one()
    found = line(model, state, FedAvgM(TRAINING, beta=0.9, server_lr=0.5), 3.0, 6.0, 4.9)
    assert found == pytest.approx([2.0, 4.9, 7.51], rel=1e-14)


def test_momentum_is_that_of_torch_s_sgd() -> None:
    model, state = one()
    means = (3.0, -2.0, 0.5, 7.0)
    theta = nn.Parameter(state["weights"]["weight"].clone())
    optimiser, expected = torch.optim.SGD([theta], lr=0.7, momentum=0.8), []
    for mean in means:
        theta.grad = theta.detach() - mean
        optimiser.step()
        expected.append(theta.item())
    assert line(model, state, FedAvgM(TRAINING, beta=0.8, server_lr=0.7), *means) == pytest.approx(expected, rel=1e-13)


# ---- FedAdam; FedYogi is in test_fedyogi.py


def test_adam_by_hand() -> None:
    """Two rounds of m ← 0.9 m + 0.1 Δ, v ← 0.99 v + 0.01 Δ², θ ← θ + 0.01 m / (√v + 0.001)."""
    model, weights = one()
    algorithm = FedAdam(TRAINING)
    found = line(model, algorithm.start(weights["weights"], replace(party(), model=model)), algorithm, 3.0, 0.5)
    theta, m, v = 1.0, 0.0, 0.001**2
    for there, mean in zip(found, (3.0, 0.5), strict=True):
        delta = mean - theta
        m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
        theta += 0.01 * m / (sqrt(v) + 0.001)
        assert there == pytest.approx(theta, rel=1e-13)


@pytest.mark.parametrize("algorithm", [FedAdam(TRAINING), FedYogi(TRAINING)])
def test_a_mean_that_does_not_move_leaves_the_model(algorithm: FedAvg) -> None:
    model, weights = one()
    assert line(model, algorithm.start(weights["weights"], replace(party(), model=model)), algorithm, 1.0) == [1.0]


def test_a_step_hardly_depends_on_the_scale_of_the_change() -> None:
    model, weights = one()
    algorithm = FedAdam(TRAINING, beta1=0.0, beta2=0.0, tau=1e-9)
    for mean in (1.5, 101.0):  # without memory a step is η times the sign
        state = algorithm.start(weights["weights"], replace(party(), model=model))
        assert line(model, state, algorithm, mean) == pytest.approx([1.01], rel=1e-10)


# ---- all


@pytest.mark.parametrize("algorithm", [FedAvgM(TRAINING), FedAdam(TRAINING), FedYogi(TRAINING)])
def test_moments_are_float64_of_parameters_alone_and_buffers_come_from_the_mean(algorithm: FedAvg) -> None:
    before, after = played(algorithm, 2)[1:]
    names = dict(party().model.named_parameters()).keys()
    for kind in after.keys() - {"weights"}:
        assert after[kind].keys() == names
        assert {value.dtype for value in after[kind].values()} == {torch.float64}
    server = party("server", 1)
    replies = {name: algorithm.train({"weights": before["weights"]}, party(name, 1)) for name in "abc"}
    mean = FedAvg(TRAINING).combine({}, replies, server)["weights"]
    for name in after["weights"].keys() - names:
        assert torch.equal(after["weights"][name], mean[name])
    server.model.load_state_dict(after["weights"])


@pytest.mark.parametrize(
    ("algorithm", "moved"), [(FedAvgM(TRAINING), 3 + 4), (FedAdam(TRAINING), 3 + 8), (FedYogi(TRAINING), 3 + 8)]
)
def test_the_server_s_work_grows_by_the_step(algorithm: FedAvg, moved: int) -> None:
    load = Load(1, examples=20, parameters=1000, replies=4)
    (phase,) = algorithm.combine_work(load)
    assert phase.traffic == 1000 * (4 + 1 + moved)
    assert algorithm.device_work(load) == FedAvg(TRAINING).device_work(load)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (FedAvgM, "beta", 1.5),
        (FedAvgM, "server_lr", -1.0),
        (FedAdam, "beta1", 1.0),
        (FedAdam, "beta2", -0.1),
        (FedAdam, "tau", 0.0),
        (FedAdam, "server_lr", -1.0),
        (FedYogi, "beta2", 1.0),
    ],
)
def test_a_field_out_of_its_range_is_named(kind: type[FedAvg], field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}; it must be"):
        kind(TRAINING, **{field: value})
