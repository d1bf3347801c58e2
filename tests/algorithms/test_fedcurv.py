"""FedCurv: each device holds on to what mattered to all the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Load, Message, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import PULL, SQUARES, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.fedcurv import FedCurv
from algorithms.fedcurv_penalty import Curvature
from algorithms.training.local import Pull
from tests.algorithms import made
from tests.algorithms.made import same_bits
from tests.all_of import all_of


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def party(
    name: str = "a",
    round: int = 0,
    data: int = 0,
    memory: Message | None = None,
    dtype: torch.dtype = torch.float32,
) -> Party:
    return made.party(made.cnn(dtype), name, draw=data, round=round, seed=100 * round + data, memory=memory or {})


def line(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def floats(message: Mapping[str, Tensors]) -> int:
    return sum(value.numel() for tensors in message.values() for value in tensors.values())


def fisher_one_by_one(device: Party, weights: Tensors) -> Tensors:
    model = party(dtype=device.x.dtype).model.eval()
    model.load_state_dict(weights)
    sums = {name: torch.zeros(value.shape).double() for name, value in model.named_parameters()}
    for x, y in zip(device.x, device.y, strict=True):
        slopes = torch.autograd.grad(F.cross_entropy(model(x[None]), y[None]), list(model.parameters()))
        for name, slope in zip(sums, slopes, strict=True):
            sums[name] += slope.double() ** 2 / len(device.y)
    return sums


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


class Fleet:
    """Rounds of FedCurv among five devices, some of whose uploads the server never counts."""

    def __init__(self, algorithm: FedAvg, dtype: torch.dtype, names: str = "abcde") -> None:
        self.algorithm, self.dtype, self.names = algorithm, dtype, names
        self.state = algorithm.start(copied(party(dtype=dtype).model), party(dtype=dtype))
        self.memory: dict[str, Message] = {}
        self.counted: dict[str, Tensors] = {}  # the model of the last counted upload of each device
        self.round = 0

    def device(self, name: str) -> Party:
        return party(name, self.round, ord(name), self.memory.get(name), self.dtype)

    def down(self) -> Message:
        server = party("server", self.round, dtype=self.dtype)
        return self.algorithm.request(self.state, self.names, server).download

    def play(self, asked: str, counted: str) -> dict[str, Reply]:
        down = self.down()
        replies = {name: self.algorithm.train(down, self.device(name)) for name in asked}
        kept = {name: replies[name] for name in counted}
        self.state = self.algorithm.combine(self.state, kept, party("server", self.round, dtype=self.dtype))
        for name, reply in kept.items():
            self.memory[name] = self.memory.get(name, {}) | reply.if_counted
            self.counted[name] = reply.upload["weights"]
        self.round += 1
        return replies


@cache
def played(dtype: torch.dtype, rounds: int = 8) -> Fleet:
    """Random participation; about a third of the uploads are not counted."""
    draw = np.random.default_rng(1)
    fleet = Fleet(FedCurv(ROUGH, strength=0.2), dtype)
    for _ in range(rounds):
        asked = "".join(sorted(draw.choice(list("abcde"), 3, replace=False)))
        fleet.play(asked, "".join(sorted(draw.choice(list(asked), 2, replace=False))))
    return fleet


# ---- one shot: for diagonal quadratics the second round is exact


def quadratics() -> tuple[Tensor, Tensor]:
    """a and c of seven devices whose losses are ½ a (θ - c)², (7, 1, 5)."""
    draw = np.random.default_rng(0)
    a, c = (torch.from_numpy(part) for part in (draw.uniform(0.1, 3.0, (7, 1, 5)), draw.normal(size=(7, 1, 5))))
    return a, c


def one_shot(strength: float, forget_own: bool = False, scale: float = 1.0) -> float:
    """Largest distance of the devices' optima in round 2 from the global one.

    After round 1 each device is at its own optimum c and knows its own curvature a.
    """
    a, c = quadratics()
    algorithm = FedCurv(Training(epochs=1, batch=32, lr=0.1), strength)
    own = [{"fisher": {"w": a[k]}, "fisher_theta": {"w": a[k] * c[k]}} for k in range(7)]
    replies = {f"{k}": Reply({"weights": {"w": c[k]}, **own[k]}, 10) for k in range(7)}
    server = party("server")
    state = algorithm.combine(algorithm.start({"w": torch.zeros(1, 5).double()}, server), replies, server)
    down = algorithm.request(state, list(replies), server).download
    down = {kind: {n: t * (1 if kind == "weights" else scale) for n, t in m.items()} for kind, m in down.items()}
    optimum = (a * c).sum(0) / a.sum(0)
    error = 0.0
    for k in range(7):
        memory: Message = (
            {} if forget_own else {kind: {n: t * scale for n, t in tensors.items()} for kind, tensors in own[k].items()}
        )
        penalty = algorithm.penalty(down, replace(server, memory=memory))
        assert penalty is not None
        error = max(error, float((newton(a[k], c[k], penalty) - optimum).abs().max()))
    return error


def newton(a: Tensor, c: Tensor, penalty: Pull) -> Tensor:
    """The zero of the gradient a (θ - c) + penalty, which is a line."""
    at = []
    for theta in (torch.zeros_like(c), torch.ones_like(c)):
        at.append(a * (theta - c))
        penalty("w", theta, at[-1])
    return at[0] / (at[0] - at[1])


def test_one_round_later_every_local_optimum_is_the_global_one() -> None:
    assert one_shot(strength=0.5) < 1e-13


@pytest.mark.parametrize(
    ("reading", "own", "others"),
    [
        ({"strength": 1.0}, 1, 2),  # λ = 1
        ({"strength": 0.5, "forget_own": True}, 2, 1),  # the own term kept
        ({"strength": 0.5, "scale": 1 / 6}, 1, 1 / 6),  # the mean over the others instead of the sum
    ],
    ids=str,
)
def test_wrong_readings_of_the_penalty_miss_the_global_optimum(
    reading: dict[str, Any], own: float, others: float
) -> None:
    """By as much as their own optimum, with these weights of the own and the other losses, lies away from it."""
    a, c = quadratics()
    away = []
    for k in range(7):
        weights = others * a
        weights[k] = own * a[k]
        away.append((weights * c).sum(0) / weights.sum(0) - (a * c).sum(0) / a.sum(0))
    assert one_shot(**reading) == pytest.approx(float(torch.stack(away).abs().max()), rel=1e-12)
    assert one_shot(**reading) > 0.1


def test_training_ends_at_the_optimum_of_the_loss_and_its_curvature() -> None:
    # a (θ - c) + 2 λ (u θ - v) = 0; a step takes 0.3 (a + 2 λ u) = 0.9 of the way that is left
    a, c, strength, u, v = 2.0, 5.0, 0.2, 2.5, -1.5
    model = nn.Linear(1, 1, bias=False).double()
    own = {"fisher": {"weight": line(0.25)}, "fisher_theta": {"weight": line(0.5)}}
    device = Party("a", 2, model, half_square, line(a**0.5), line(a**0.5 * c)[0], 1, 0, 1, own)
    down = {
        "weights": {"weight": line(0.0)},
        "fisher": {"weight": line(u + 0.25)},
        "fisher_theta": {"weight": line(v + 0.5)},
    }
    reply = FedCurv(Training(epochs=40, batch=1, lr=0.3), strength).train(down, device)
    expected = (a * c + 2 * strength * v) / (a + 2 * strength * u)
    assert reply.upload["weights"]["weight"].item() == pytest.approx(expected, rel=1e-14)
    assert reply.leverage["step"] == pytest.approx(0.3 * 2 * strength * u)


# ---- the sums


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_the_sums_are_those_of_the_last_counted_upload_of_every_device(dtype: torch.dtype, tolerance: float) -> None:
    fleet = played(dtype)
    fishers = {name: fisher_one_by_one(fleet.device(name), model) for name, model in fleet.counted.items()}
    for name in fleet.state["fisher"]:
        terms = [fishers[device][name] for device in fleet.counted]
        centres = [fishers[device][name] * model[name].double() for device, model in fleet.counted.items()]
        for kind, parts in (("fisher", terms), ("fisher_theta", centres)):
            largest = max(float(part.abs().max()) for part in parts)
            torch.testing.assert_close(fleet.state[kind][name], sum(parts), rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_servers_sums_are_those_that_the_devices_keep(dtype: torch.dtype) -> None:
    fleet = played(dtype)
    for kind in ("fisher", "fisher_theta"):
        for name, total in fleet.state[kind].items():
            kept = sum(memory[kind][name] for memory in fleet.memory.values())
            assert total.dtype == torch.float64
            torch.testing.assert_close(total, kept, rtol=1e-14, atol=1e-15)


def test_an_upload_that_is_not_counted_leaves_no_ghost() -> None:
    fleet = Fleet(FedCurv(ROUGH, strength=0.2), torch.float64)
    fleet.play("abc", "ac")
    assert fleet.memory.keys() == {"a", "c"}
    expected = fisher_one_by_one(fleet.device("a"), fleet.counted["a"])
    others = fisher_one_by_one(fleet.device("c"), fleet.counted["c"])
    for name, total in fleet.state["fisher"].items():
        torch.testing.assert_close(total, expected[name] + others[name], rtol=1e-12, atol=1e-18)


def test_the_aggregated_penalty_is_the_sum_over_the_other_devices() -> None:
    fleet = played(torch.float64)
    strength = 0.2
    draw = torch.Generator().manual_seed(2)
    down = fleet.down()
    fishers = {name: fisher_one_by_one(fleet.device(name), model) for name, model in fleet.counted.items()}
    for s in fleet.memory:
        penalty = fleet.algorithm.penalty(down, fleet.device(s))
        assert penalty is not None
        for name, at in down["weights"].items():
            theta = at + 0.1 * torch.randn(at.shape, generator=draw, dtype=torch.float64)
            grad = torch.zeros_like(theta)
            penalty(name, theta, grad)
            explicit = torch.zeros_like(theta)
            for j in fleet.counted.keys() - {s}:
                explicit += 2 * strength * fishers[j][name] * (theta - fleet.counted[j][name])
            torch.testing.assert_close(grad, explicit, rtol=0, atol=1e-12 * max(1.0, float(explicit.abs().max())))


def test_the_aggregated_quadratic_is_the_sum_of_those_of_the_others_up_to_a_constant() -> None:
    fleet = played(torch.float64)
    draw = torch.Generator().manual_seed(2)
    down = fleet.down()
    fishers = {name: fisher_one_by_one(fleet.device(name), model) for name, model in fleet.counted.items()}
    places = [
        {name: at + 0.1 * torch.randn(at.shape, generator=draw).double() for name, at in down["weights"].items()}
        for _ in range(2)
    ]
    for s in fleet.memory:
        penalty = fleet.algorithm.penalty(down, fleet.device(s))
        assert penalty is not None
        one, other = (
            sum(
                0.2 * float((fishers[j][name] * (theta - fleet.counted[j][name]) ** 2).sum())
                for j in fleet.counted.keys() - {s}
                for name, theta in place.items()
            )
            for place in places
        )
        assert abs(one - other) > 0.01 * one
        assert penalty.value(places[0]) - penalty.value(places[1]) == pytest.approx(one - other, rel=0, abs=1e-12 * one)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 8.6e-6)])
def test_the_gradient_is_that_of_the_sum_where_the_models_are_near_each_other(dtype: torch.dtype, most: float) -> None:
    """Tested with weights of 0.05 that differ by 1e-2; the error is relative to the largest gradient."""
    draw = torch.Generator().manual_seed(6)
    fishers, apart = (make(7, 1000, generator=draw).to(dtype) for make in (torch.rand, torch.randn))
    thetas = 0.05 * torch.randn(1000, generator=draw).to(dtype) + 1e-2 * apart
    algorithm, server = FedCurv(Training(epochs=1, batch=32, lr=0.1), strength=0.5), party("server", dtype=dtype)
    own = [{"fisher": {"w": f}, "fisher_theta": {"w": f * theta}} for f, theta in zip(fishers, thetas, strict=True)]
    replies = {str(k): Reply({"weights": {"w": thetas[k]}, **own[k]}, 10) for k in range(7)}
    state = algorithm.combine(algorithm.start({"w": torch.zeros(1000, dtype=dtype)}, server), replies, server)
    down = algorithm.request(state, list(replies), server).download
    for k in range(7):
        penalty = algorithm.penalty(down, replace(server, memory=own[k]))
        assert penalty is not None
        grad = torch.zeros(1000, dtype=dtype)
        penalty("w", down["weights"]["w"], grad)
        gaps = down["weights"]["w"].double() - thetas.double()
        terms = fishers.double() * gaps
        explicit = terms.sum(0) - terms[k]
        assert float((grad - explicit).abs().max() / explicit.abs().max()) < most


def test_rounding_alone_makes_no_curvature_negative() -> None:
    """A curvature below 0 could come only from the rounding of changes; it is set to 0."""
    fleet = played(torch.float32)
    down = fleet.down()
    for s, kept in fleet.memory.items():
        penalty = fleet.algorithm.penalty(down, fleet.device(s))
        assert penalty is not None
        for name, u in penalty.importance.items():  # type: ignore[union-attr]
            assert float(u.min()) >= 0
            left = down["fisher"][name].double() - kept["fisher"][name]
            assert float(left.min()) >= -1e-6 * float(fleet.state["fisher"][name].max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_order_of_arrival_leaves_no_trace(dtype: torch.dtype) -> None:
    fleet = Fleet(FedCurv(ROUGH), dtype)
    start = fleet.state
    replies = fleet.play("abcde", "abcde")
    backwards = fleet.algorithm.combine(start, dict(reversed(replies.items())), party(dtype=dtype))
    assert all(same_bits(backwards[kind], fleet.state[kind]) for kind in ("weights", "fisher", "fisher_theta"))


# ---- equal to FedAvg


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_lone_device_feels_no_penalty_at_all(dtype: torch.dtype) -> None:
    lone, plain = Fleet(FedCurv(ROUGH, strength=3.0), dtype, "a"), Fleet(FedAvg(ROUGH), dtype, "a")
    for _ in range(4):
        lone.play("a", "a")
        plain.play("a", "a")
        penalty = lone.algorithm.penalty(lone.down(), lone.device("a"))
        assert isinstance(penalty, Curvature)
        assert all_of(not value.any() for part in (penalty.importance, penalty.target) for value in part.values())
        assert penalty.clamped == 0  # u = v = 0 by subtraction, not because less than 0 counts as 0
        for name, value in lone.state["weights"].items():
            grad = torch.zeros_like(value)
            penalty(name, value + 1, grad)
            assert not grad.any()
        assert same_bits(lone.state["weights"], plain.state["weights"])


def test_without_strength_it_is_fedavg_bit_for_bit() -> None:
    curv, plain = Fleet(FedCurv(ROUGH, strength=0.0), torch.float32), Fleet(FedAvg(ROUGH), torch.float32)
    for asked in ("abc", "bde", "ace"):
        curv.play(asked, asked)
        plain.play(asked, asked)
        assert same_bits(curv.state["weights"], plain.state["weights"])


# ---- what travels


def test_the_payload_is_that_of_fedavg_in_the_first_download_and_three_times_later() -> None:
    fleet = Fleet(FedCurv(ROUGH), torch.float32)
    size = floats({"weights": fleet.state["weights"]})
    down, up = [], []
    for _ in range(3):
        down.append(floats(fleet.down()))
        up.append(floats(fleet.play("a", "a")["a"].upload))
    assert down == [size, 3 * size, 3 * size]
    assert up == [3 * size] * 3
    assert {"weights", "fisher", "fisher_theta"} == fleet.down().keys() == fleet.play("a", "a")["a"].upload.keys()


def test_nothing_counted_leaves_the_next_download_small() -> None:
    fleet = Fleet(FedCurv(ROUGH), torch.float32)
    fleet.algorithm.train(fleet.down(), fleet.device("a"))
    assert fleet.down().keys() == {"weights"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_messages_have_the_precision_of_the_model_and_sums_are_float64(dtype: torch.dtype) -> None:
    fleet = Fleet(FedCurv(ROUGH), dtype)
    reply = fleet.play("a", "a")["a"]
    assert {t.dtype for message in (reply.upload, fleet.down()) for m in message.values() for t in m.values()} == {
        dtype
    }
    kept = [
        t
        for kind in ("fisher", "fisher_theta")
        for t in (*fleet.state[kind].values(), *reply.if_counted[kind].values())
    ]
    assert {t.dtype for t in kept} == {torch.float64}
    assert reply.memory == {}


def test_the_device_keeps_what_it_sent_not_what_it_computed() -> None:
    fleet = Fleet(FedCurv(ROUGH), torch.float32)
    first = fleet.play("a", "a")["a"]
    second = fleet.play("a", "a")["a"]
    for kind in ("fisher", "fisher_theta"):
        for name, own in second.if_counted[kind].items():
            assert torch.equal(own, first.upload[kind][name].double() + second.upload[kind][name].double())


def test_buffers_travel_and_have_no_curvature() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    device = replace(party(), model=model)
    algorithm = FedCurv(ROUGH)
    down = {"weights": copied(model)}
    reply = algorithm.train(down, device)
    assert reply.upload["fisher"].keys() == dict(model.named_parameters()).keys()
    state = algorithm.combine(down, {"a": reply}, device)
    assert state["weights"]["2.num_batches_tracked"].item() == 6
    again = algorithm.train(algorithm.request(state, ["b"], device).download, replace(device, name="b", round=1))
    assert again.upload["weights"].keys() == down["weights"].keys()


# ---- work


def test_the_work_of_a_round() -> None:
    algorithm = FedCurv(ROUGH, strength=0.5)
    load = Load(round=0, examples=20, parameters=1000, kinds=("weights",), replies=4)
    moved = sgd_traffic(1000, 0.9)
    fisher = Phase("fisher", "each", 20, 20, traffic=1000 * SQUARES)
    train = Phase("train", "batch", 20, batch=8, epochs=2, traffic=moved)
    first = algorithm.device_work(load)
    assert first[:2] == (train, fisher)
    later = algorithm.device_work(replace(load, kinds=("weights", "fisher", "fisher_theta")))
    assert later[:2] == (replace(train, traffic=moved + 1000 * PULL), fisher)
    assert [(phase.name, phase.examples) for phase in (*first[2:], *later[2:])] == [("sums", 0)] * 2
    assert algorithm.request_work(load) == ()


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(ValueError, match=r"strength is -0\.5"):
        FedCurv(ROUGH, strength=-0.5)
