"""SCAFFOLD: local steps that are corrected by what all devices know together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Algorithm, Load, Message, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.scaffold import CORRECTION, SCAFFOLD
from algorithms.training.seeding import seeded
from tests.algorithms import made
from tests.algorithms.made import same_bits


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def party(name: str = "a", round: int = 0, dtype: torch.dtype = torch.float32, memory: Message | None = None) -> Party:
    seeded(3)
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3)
    given = {"draw": ord(name[0]), "round": round, "seed": 100 * round, "memory": memory or {}}
    return made.party(nn.Sequential(*layers).to(dtype), name, 15 + ord(name[0]) % 7, **given)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)
A, C = (0.5, 1.0, 2.0, 4.0), (3.0, -1.0, 0.5, 2.0)  # losses ½ a (θ - c)²
OPTIMUM = sum(a * c for a, c in zip(A, C, strict=True)) / sum(A)


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def quadratic(k: int, round: int, memory: Mapping[str, Message]) -> Party:
    """Device k of the four, with one example."""
    x = number(A[k] ** 0.5)
    model = nn.Linear(1, 1, bias=False).double()
    return Party(str(k), 4, model, half_square, x, C[k] * x[0], round, 0, 1, dict(memory.get(str(k), {})))


class Play:
    """Rounds among the four quadratics from θ = 0; those asked are counted."""

    def __init__(self, algorithm: FedAvg) -> None:
        self.algorithm, self.round = algorithm, 0
        self.state: Message = algorithm.start({"weight": number(0.0)}, quadratic(0, 0, {}))
        self.memory: dict[str, Message] = {}

    def play(self, asked: Sequence[int] = range(4), counted: Sequence[int] | None = None) -> None:
        server = quadratic(0, self.round, {})
        down = self.algorithm.request(self.state, [str(k) for k in asked], server).download
        replies = {str(k): self.algorithm.train(down, quadratic(k, self.round, self.memory)) for k in asked}
        kept = {str(k): replies[str(k)] for k in (asked if counted is None else counted)}
        self.state = self.algorithm.combine(self.state, kept, server)
        for name, reply in kept.items():
            self.memory[name] = self.memory.get(name, {}) | reply.if_counted
        self.round += 1

    @property
    def theta(self) -> float:
        return self.state["weights"]["weight"].item()

    @property
    def total(self) -> float:
        return self.state["control"]["weight"].item()


def test_it_is_an_algorithm() -> None:
    algorithm: Algorithm = SCAFFOLD(ROUGH)
    assert algorithm.training is ROUGH


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_its_first_round_is_fedavg_s_bit_for_bit(dtype: torch.dtype) -> None:
    states = []
    for algorithm in (SCAFFOLD(ROUGH), FedAvg(ROUGH)):
        server = party("server", dtype=dtype)
        state = algorithm.start(copied(server.model), server)
        down = algorithm.request(state, "abc", server).download
        replies = {name: algorithm.train(down, party(name, dtype=dtype)) for name in "abc"}
        states.append(algorithm.combine(state, replies, server)["weights"])
    assert same_bits(*states)


LOCAL = Training(epochs=5, batch=1, lr=0.1)


@pytest.mark.slow
def test_on_unlike_quadratics_it_ends_at_the_global_optimum_and_fedavg_does_not() -> None:
    scaffold, fedavg = Play(SCAFFOLD(LOCAL)), Play(FedAvg(LOCAL))
    for _ in range(120):
        scaffold.play()
        fedavg.play()
    assert scaffold.theta == pytest.approx(OPTIMUM, abs=1e-12)
    reached = [1 - (1 - 0.1 * a) ** 5 for a in A]  # how far K steps go towards each device's own optimum
    ends = sum(r * c for r, c in zip(reached, C, strict=True)) / sum(reached)
    assert fedavg.theta == pytest.approx(ends, abs=1e-12)
    assert abs(ends - OPTIMUM) > 0.05


@pytest.mark.slow
def test_it_gets_there_too_when_half_of_the_devices_take_part_and_uploads_are_lost() -> None:
    draw, scaffold = np.random.default_rng(0), Play(SCAFFOLD(LOCAL))
    for _ in range(400):
        asked = sorted(int(k) for k in draw.choice(4, 2, replace=False))
        scaffold.play(asked, asked[: int(draw.integers(1, 3))])
    assert scaffold.theta == pytest.approx(OPTIMUM, abs=1e-10)


def test_at_the_global_optimum_it_stays() -> None:
    scaffold = Play(SCAFFOLD(LOCAL))
    slopes = {str(k): A[k] * (OPTIMUM - C[k]) for k in range(4)}
    scaffold.state = {
        "weights": {"weight": number(OPTIMUM)},
        "control": {"weight": number(sum(slopes.values()))},
    }
    scaffold.memory = {k: {"control": {"weight": number(g)}} for k, g in slopes.items()}
    scaffold.play()
    assert scaffold.theta == pytest.approx(OPTIMUM, abs=1e-14)
    assert scaffold.total == pytest.approx(0.0, abs=1e-12)


def test_a_round_whose_rate_is_zero_changes_nothing() -> None:
    cosine = Training(epochs=5, batch=1, lr=0.1, lr_schedule="cosine", lr_rounds=2)  # 0.1, 0.05, 0, 0 ...
    scaffold = Play(SCAFFOLD(cosine))
    for _ in range(2):
        scaffold.play()
    theta, total, memory = scaffold.theta, scaffold.total, dict(scaffold.memory)
    for _ in range(2):
        scaffold.play()
    assert (scaffold.theta, scaffold.total, scaffold.memory) == (theta, total, memory)
    assert total != 0
    fresh = Play(SCAFFOLD(replace(LOCAL, lr=0.0)))
    fresh.play()
    assert (fresh.theta, fresh.total) == (0.0, 0.0)


def test_two_rounds_by_hand() -> None:
    """Full batches, K = 1, η = 0.1: then c_i is the gradient at the model that came down."""
    one_step, eta = Training(epochs=1, batch=1, lr=0.1), 0.1
    scaffold = Play(SCAFFOLD(one_step))
    slopes = [-a * c for a, c in zip(A, C, strict=True)]  # at 0
    scaffold.play([0, 1])
    theta = -eta * (slopes[0] + slopes[1]) / 2
    assert scaffold.theta == pytest.approx(theta, rel=1e-14)
    assert scaffold.total == pytest.approx(slopes[0] + slopes[1], rel=1e-14)
    c = scaffold.total / 4  # of all four, though two have not been asked yet
    scaffold.play([1, 2])
    corrected = [A[1] * (theta - C[1]) - slopes[1] + c, A[2] * (theta - C[2]) + c]
    assert scaffold.theta == pytest.approx(theta - eta * sum(corrected) / 2, rel=1e-13)
    assert scaffold.memory["2"]["control"]["weight"].item() == pytest.approx(A[2] * (theta - C[2]), rel=1e-13)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_on_a_slope_that_is_everywhere_the_same_the_control_is_that_slope(momentum: float) -> None:
    def slope(outputs: Tensor, y: Tensor) -> Tensor:
        return outputs[:, 0] * y

    device = replace(
        quadratic(0, 3, {}), loss=slope, x=torch.full((7, 1), 2.0).double(), y=torch.full((7,), 1.5).double()
    )
    down = {"weights": {"weight": number(1.0)}, "control": {"weight": number(0.4)}}
    algorithm = SCAFFOLD(Training(epochs=2, batch=3, lr=0.05, lr_decay=0.9, momentum=momentum))
    reply = algorithm.train(down, device)
    assert reply.if_counted["control"]["weight"].item() == pytest.approx(3.0, rel=1e-12)
    again = algorithm.train(down, replace(device, memory=reply.if_counted))
    assert again.if_counted["control"]["weight"].item() == pytest.approx(3.0, rel=1e-12)
    assert again.upload["control"]["weight"].item() == pytest.approx(0.0, abs=1e-12)


def test_the_server_s_sum_is_that_of_what_the_devices_keep() -> None:
    draw, scaffold = np.random.default_rng(1), Play(SCAFFOLD(LOCAL))
    for _ in range(10):
        asked = sorted(int(k) for k in draw.choice(4, 3, replace=False))
        scaffold.play(asked, asked[:2])
        kept = sum(memory["control"]["weight"].item() for memory in scaffold.memory.values())
        assert scaffold.total == pytest.approx(kept, rel=1e-12, abs=1e-12)


def test_the_device_keeps_what_the_server_decodes() -> None:
    def coarse(kind: str, tensors: Tensors) -> Tensors:
        assert kind == "control"
        return {name: value.to(torch.bfloat16).to(value.dtype) for name, value in tensors.items()}

    device = replace(party(), send=coarse)
    down: Message = {"weights": copied(device.model)}
    first = SCAFFOLD(ROUGH).train(down, device)
    down["control"] = {name: 0.1 * value for name, value in first.upload["control"].items()}
    second = SCAFFOLD(ROUGH).train(down, replace(device, memory=first.if_counted))
    for name, value in second.if_counted["control"].items():
        assert value.dtype == torch.float64
        assert torch.equal(value, first.upload["control"][name].double() + second.upload["control"][name].double())


def test_the_server_goes_part_of_the_way() -> None:
    whole, half = Play(SCAFFOLD(LOCAL)), Play(SCAFFOLD(LOCAL, server_lr=0.5))
    whole.play()
    half.play()
    assert half.theta == pytest.approx(whole.theta / 2, rel=1e-14)
    assert half.total == whole.total


def test_the_order_of_arrival_leaves_no_trace() -> None:
    algorithm, server = SCAFFOLD(ROUGH), party("server")
    state: Message = {"weights": copied(server.model)}
    replies = {name: algorithm.train(state, party(name)) for name in "abcd"}
    forwards = algorithm.combine(state, replies, server)
    backwards = algorithm.combine(state, dict(reversed(replies.items())), server)
    assert all(same_bits(forwards[kind], backwards[kind]) for kind in ("weights", "control"))


def test_the_payload_is_twice_that_of_fedavg_and_buffers_have_no_control() -> None:
    algorithm, server = SCAFFOLD(ROUGH, server_lr=0.5), party("server")
    state = algorithm.start(copied(server.model), server)
    parameters = dict(server.model.named_parameters()).keys()
    for round in range(3):
        down = algorithm.request(state, "ab", server).download
        assert down.keys() == ({"weights", "control"} if round else {"weights"})
        replies: dict[str, Reply] = {name: algorithm.train(down, party(name, round)) for name in "ab"}
        state = algorithm.combine(state, replies, server)
        for message in (replies["a"].upload, *([down] if round else [])):
            assert message.keys() == {"weights", "control"} == set(algorithm.downloads) == set(algorithm.uploads)
            assert message["control"].keys() == parameters
            assert {value.dtype for value in message["control"].values()} == {torch.float32}
        server.model.load_state_dict(state["weights"])
        most = max(reply.upload["weights"]["1.num_batches_tracked"] for reply in replies.values())
        assert state["weights"]["1.num_batches_tracked"] == most


def test_the_work_of_a_round() -> None:
    algorithm = SCAFFOLD(ROUGH)
    first = Load(0, examples=20, parameters=1000, kinds=("weights",), replies=4)
    later = replace(first, round=1, kinds=("weights", "control"))
    train = Phase("train", "batch", 20, batch=8, epochs=2, traffic=sgd_traffic(1000, 0.9))
    assert algorithm.device_work(first) == (train,)
    assert algorithm.device_work(later) == (replace(train, traffic=train.traffic + 1000 * CORRECTION),)
    assert (algorithm.device_floats(first), algorithm.device_floats(later)) == (0, 1000)
    (combine,) = algorithm.combine_work(later)
    assert combine.traffic == 1000 * (4 + 1 + 3 + 4 + 4)  # models, mean, step, controls, their float64 sum


def test_a_negative_server_lr_is_refused() -> None:
    with pytest.raises(ValueError, match="server_lr is -1"):
        SCAFFOLD(ROUGH, server_lr=-1.0)
