"""FedCL: an importance from the server's proxy set."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Load, Message, Party, Phase, Tensors, Training
from algorithms.counting.cost import PULL, PULL_PLAIN, SQUARES, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedprox import FedProx
from algorithms.importance.batched import CHUNK
from network.wire.form import FRAME
from network.wire.payload import sizes
from tests.algorithms import made
from tests.algorithms.made import same_bits


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def party(name: str = "a", round: int = 0, data: int = 0, memory: Message | None = None) -> Party:
    return made.party(made.cnn(), name, draw=data, devices=2, round=round, seed=5, memory=memory or {})


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def random_importance(model: nn.Module) -> Tensors:
    draw = torch.Generator().manual_seed(8)
    return {name: torch.rand(value.shape, generator=draw) for name, value in model.named_parameters()}


def ones(model: nn.Module) -> Tensors:
    return {name: torch.ones_like(value).detach() for name, value in model.named_parameters()}


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


# ---- equal to others, bit for bit


@pytest.mark.parametrize("scale", [0.0, 1.0, float("inf")])
def test_without_strength_it_is_fedavg_whatever_the_importance(scale: float) -> None:
    device = party()
    down = {"weights": copied(device.model)}
    omega = {name: value * scale for name, value in random_importance(device.model).items()}
    plain = FedAvg(ROUGH).train(down, device)
    fedcl = FedCL(ROUGH, strength=0.0).train({**down, "importance": omega}, device)
    assert same_bits(fedcl.upload["weights"], plain.upload["weights"])


def test_an_importance_of_zero_is_fedavg() -> None:
    device = party()
    down = {"weights": copied(device.model)}
    zeros = {name: torch.zeros_like(value) for name, value in ones(device.model).items()}
    fedcl = FedCL(ROUGH, strength=0.7).train({**down, "importance": zeros}, device)
    assert same_bits(fedcl.upload["weights"], FedAvg(ROUGH).train(down, device).upload["weights"])


@pytest.mark.parametrize("mu", [1.0, 0.1, 2e-4])
def test_an_importance_of_one_is_fedprox(mu: float) -> None:
    device = party()
    down = {"weights": copied(device.model)}
    fedcl = FedCL(ROUGH, strength=mu / 2).train({**down, "importance": ones(device.model)}, device)
    prox = FedProx(ROUGH, mu).train(down, device)
    assert same_bits(fedcl.upload["weights"], prox.upload["weights"])
    assert not same_bits(prox.upload["weights"], FedAvg(ROUGH).train(down, device).upload["weights"])


def test_with_one_estimate_in_all_and_the_identity_it_is_fedprox_from_round_1_on() -> None:
    fedcl, prox = FedCL(ROUGH, interval=10**9, strength=0.3, fallback="identity"), FedProx(ROUGH, mu=0.6)
    server = party("server")
    state = fedcl.start(copied(server.model), server)
    for t in range(3):
        down = fedcl.request(state, ["a", "b"], replace(server, round=t)).download
        devices = {name: party(name, t, data) for data, name in enumerate("ab")}
        replies = {name: fedcl.train(down, device) for name, device in devices.items()}
        if t > 0:
            expected = {name: prox.train({"weights": state["weights"]}, d) for name, d in devices.items()}
            assert all(same_bits(replies[k].upload["weights"], expected[k].upload["weights"]) for k in "ab")
        state = fedcl.combine(state, replies, server)


def test_estimated_every_round_both_fallbacks_are_one() -> None:
    device = party()
    server = party("server", round=3, data=7)
    replies = []
    for fallback in ("identity", "keep_last"):
        algorithm = FedCL(ROUGH, fallback=fallback, strength=20.0)
        down = algorithm.request({"weights": copied(party().model)}, ["a"], server).download
        replies.append(algorithm.train(down, device).upload["weights"])
    assert same_bits(replies[0], replies[1])


def test_estimating_an_importance_does_not_shift_the_training() -> None:
    device = party()
    down = {"weights": copied(device.model)}
    before = FedCL(ROUGH, strength=0.0).train(down, device).upload["weights"]
    down = FedCL(ROUGH, strength=0.0).request(down, ["a"], replace(device, name="server")).download
    assert same_bits(FedCL(ROUGH, strength=0.0).train(down, device).upload["weights"], before)


# ---- against a law


def test_the_local_optimum_is_that_of_the_loss_and_its_spring() -> None:
    # a (θ - c) + 2 λ Ω (θ - θ_t) = 0; a step takes 0.3 (a + 2 λ Ω) = 0.9 of the way that is left
    a, c, strength, omega, start = 2.0, 5.0, 0.2, 2.5, -1.0
    model = nn.Linear(1, 1, bias=False).double()
    device = Party("a", 1, model, half_square, number(a**0.5), number(a**0.5 * c)[0], 0, 0, 1)
    algorithm = FedCL(Training(epochs=40, batch=1, lr=0.3), strength=strength)
    down = {"weights": {"weight": number(start)}, "importance": {"weight": number(omega)}}
    optimum = (a * c + 2 * strength * omega * start) / (a + 2 * strength * omega)
    theta = algorithm.train(down, device).upload["weights"]["weight"].item()
    assert theta == pytest.approx(optimum, rel=1e-14)


@pytest.mark.parametrize("kind", ["abs", "sq"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_importance_is_the_mean_over_the_proxy_set_at_the_broadcast_model(kind: str, dtype: torch.dtype) -> None:
    server = party("server", data=4)
    server.model.to(dtype)
    server = replace(server, x=server.x.to(dtype))
    weights = {name: value + 0.25 for name, value in copied(server.model).items()}
    omega = FedCL(ROUGH, importance=kind).request({"weights": weights}, ["a"], server).download["importance"]  # type: ignore[arg-type]
    model = party().model.to(dtype).eval()
    model.load_state_dict(weights)
    sums = {name: torch.zeros(value.shape).double() for name, value in model.named_parameters()}
    for x, y in zip(server.x, server.y, strict=True):
        slopes = torch.autograd.grad(F.cross_entropy(model(x[None]), y[None]), list(model.parameters()))
        for name, slope in zip(sums, slopes, strict=True):
            sums[name] += (slope.abs() if kind == "abs" else slope**2).double() / len(server.y)
    assert omega.keys() == sums.keys()
    for name, expected in sums.items():
        assert omega[name].dtype == dtype
        torch.testing.assert_close(omega[name], expected.to(dtype), rtol=1e-4, atol=1e-7)


# ---- what travels, and what is kept


def tensor_bytes(message: Message) -> int:
    """On the link, without the frame."""
    arrays = {kind: {name: value.numpy() for name, value in tensors.items()} for kind, tensors in message.items()}
    return sum(size for kind, size in sizes(arrays).items() if kind != FRAME)


@pytest.mark.parametrize(("interval", "ratio"), [(1, 1.5), (10, 1.05), (3, 1 + 7 / 40)])
def test_the_payload_of_twenty_rounds_of_two_devices(interval: int, ratio: float) -> None:
    """|θ| 4 m (2 T + ⌈T / N⌉) bytes."""
    algorithm = FedCL(ROUGH, interval=interval)
    server, rounds, total = party("server"), 20, 0
    weights = copied(server.model)
    theta = sum(value.numel() for value in weights.values())
    up = tensor_bytes(algorithm.train({"weights": weights}, party()).upload)
    for t in range(rounds):
        request = algorithm.request({"weights": weights}, ["a", "b"], replace(server, round=t))
        total += sum(tensor_bytes(request.download | request.extra.get(name, {})) + up for name in "ab")
    assert total == theta * 4 * 2 * (2 * rounds + ceil(rounds / interval))
    assert total / (4 * 2 * 2 * rounds * theta) == pytest.approx(ratio)


def test_without_strength_the_importance_still_travels() -> None:
    server = party("server")
    request = FedCL(ROUGH, strength=0.0).request({"weights": copied(server.model)}, ["a"], server)
    assert request.download.keys() == {"weights", "importance"} == set(FedCL.downloads)


def test_keep_last_remembers_the_importance_and_uses_it_again() -> None:
    algorithm = FedCL(ROUGH, interval=10, fallback="keep_last", strength=5.0)
    device = party()
    down = {"weights": copied(device.model)}
    omega = random_importance(device.model)
    fresh = algorithm.train({**down, "importance": omega}, device)
    again = algorithm.train(down, replace(device, memory=fresh.memory))
    assert same_bits(fresh.memory["importance"], omega)
    assert same_bits(again.memory["importance"], omega)
    assert same_bits(again.upload["weights"], fresh.upload["weights"])


def test_keep_last_without_any_importance_so_far_uses_no_penalty() -> None:
    device = party(round=1)
    down = {"weights": copied(device.model)}
    newcomer = FedCL(ROUGH, interval=10, fallback="keep_last", strength=5.0).train(down, device)
    assert same_bits(newcomer.upload["weights"], FedAvg(ROUGH).train(down, device).upload["weights"])
    assert (newcomer.memory, newcomer.leverage) == ({}, {})


def test_a_fresh_importance_replaces_the_remembered_one() -> None:
    algorithm = FedCL(ROUGH, interval=2, fallback="keep_last", strength=5.0)
    device = party(memory={"importance": ones(party().model)})
    omega = random_importance(device.model)
    down = {"weights": copied(device.model), "importance": omega}
    assert same_bits(algorithm.train(down, device).memory["importance"], omega)


@pytest.mark.parametrize(
    ("interval", "fallback", "kept"),
    [(2, "keep_last", True), (2, "catch_up", True), (2, "identity", False), (1, "keep_last", False)],
)
def test_an_importance_is_remembered_only_where_a_later_round_may_need_it(
    interval: int, fallback: Any, kept: bool
) -> None:
    device = party()
    down = {"weights": copied(device.model), "importance": random_importance(device.model)}
    assert bool(FedCL(ROUGH, interval=interval, fallback=fallback).train(down, device).memory) is kept


def test_a_device_without_an_importance_trains_as_fedavg_unless_told_otherwise() -> None:
    """The paper's text puts 1 in the place of a missing importance.  This is FedProx with μ = 2λ, and must be asked
    for."""
    device = party(round=1)
    down = {"weights": copied(device.model)}
    plain = FedAvg(ROUGH).train(down, device).upload["weights"]
    assert same_bits(FedCL(ROUGH, interval=10, strength=5.0).train(down, device).upload["weights"], plain)


def test_where_1_stands_for_an_importance_it_says_so_with_the_mu_that_this_is() -> None:
    device = party(round=1)
    down = {"weights": copied(device.model)}
    algorithm = FedCL(ROUGH, interval=10, strength=5.0, fallback="identity")
    without, known = (
        algorithm.train(down | more, device) for more in ({}, {"importance": random_importance(device.model)})
    )
    prox = FedProx(ROUGH, mu=without.leverage["mu"]).train(down, device)
    assert same_bits(without.upload["weights"], prox.upload["weights"])
    assert (without.numbers["identity"], known.numbers["identity"]) == (1.0, 0.0)
    assert "mu" not in known.leverage


@pytest.mark.parametrize("fallback", ["keep_last", "none"])
def test_a_device_that_trains_without_any_importance_says_so(fallback: Any) -> None:
    device = party(round=1)
    down = {"weights": copied(device.model)}
    algorithm = FedCL(ROUGH, interval=10, strength=5.0, fallback=fallback)
    without, known = (
        algorithm.train(down | more, device) for more in ({}, {"importance": random_importance(device.model)})
    )
    assert (without.numbers["no_importance"], known.numbers["no_importance"]) == (1.0, 0.0)
    assert not without.leverage.keys() & {"p99", "mu"}  # there was no penalty


@pytest.mark.parametrize(
    "algorithm",
    [FedCL(ROUGH, interval=1), FedCL(ROUGH, interval=10, first="identity"), FedCL(ROUGH, interval=10, strength=0.0)],
)
def test_where_no_device_can_lack_importance_or_none_is_used_nothing_is_said_of_it(algorithm: FedCL) -> None:
    device = party()
    down = {"weights": copied(device.model), "importance": random_importance(device.model)}
    assert "no_importance" not in algorithm.train(down, device).numbers


def test_leverage_is_that_of_the_importance_received() -> None:
    device = party()
    omega = random_importance(device.model)
    down = {"weights": copied(device.model), "importance": omega}
    largest = max(float(value.max()) for value in omega.values())
    reached = FedCL(ROUGH, strength=0.5).train(down, device).leverage
    assert reached["step"] == pytest.approx(0.05 * largest)
    assert reached["max"] == pytest.approx(0.05 * 6 * largest)  # two epochs of ceil(20 / 8) = 3 steps


# ---- work


def test_the_server_works_when_an_importance_is_due() -> None:
    algorithm = FedCL(ROUGH, interval=10)
    load = Load(round=20, examples=600, parameters=1000)
    assert algorithm.request_work(load) == (Phase("omega", "each", 600, CHUNK, traffic=1000 * SQUARES),)
    assert algorithm.request_work(replace(load, round=21)) == ()


@pytest.mark.parametrize(
    ("fallback", "strength", "kinds", "memory", "floats_moved"),
    [
        ("identity", 0.5, ("weights", "importance"), (), PULL),
        ("identity", 0.5, ("weights",), (), PULL_PLAIN),
        ("keep_last", 0.5, ("weights", "importance"), (), PULL),
        ("keep_last", 0.5, ("weights",), ("importance",), PULL),
        ("keep_last", 0.5, ("weights",), (), 0.0),
        ("identity", 0.0, ("weights", "importance"), (), 0.0),
    ],
)
def test_the_penalty_moves_floats(
    fallback: str, strength: float, kinds: tuple[str, ...], memory: tuple[str, ...], floats_moved: float
) -> None:
    algorithm = FedCL(ROUGH, interval=2, fallback=fallback, strength=strength)  # type: ignore[arg-type]
    (phase,) = algorithm.device_work(Load(0, examples=20, parameters=1000, kinds=kinds, memory=memory))
    assert phase.traffic == sgd_traffic(1000, 0.9) + 1000 * floats_moved


@pytest.mark.parametrize(
    ("field", "value"), [("importance", "mean"), ("fallback", "last"), ("interval", 0), ("strength", -1.0)]
)
def test_a_field_out_of_its_range_is_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value!r}"):
        FedCL(ROUGH, **{field: value})  # type: ignore[arg-type]


def test_keep_last_tells_how_old_its_importance_is() -> None:
    """Received in round 0, used again in round 3: three rounds old."""
    algorithm, device = FedCL(ROUGH, fallback="keep_last", interval=4), party()
    weights = {name: value.clone() for name, value in device.model.state_dict().items()}
    fresh = algorithm.train({"weights": weights, "importance": ones(device.model)}, device)
    later = algorithm.train({"weights": weights}, party(round=3, memory=fresh.memory))
    assert (fresh.leverage["age"], later.leverage["age"]) == (0.0, 3.0)
