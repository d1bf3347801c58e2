"""Importance from agents: the mean heeds what each device says matters, and devices hold on to what mattered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from algorithms import agentimportance_walk
from algorithms.agentimportance import AgentImportance
from algorithms.aggregation import importance_weighted_mean, weighted_mean
from algorithms.algorithm import Algorithm, Load, Message, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import PULL, SQUARES, Meter, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.importance.batched import CHUNK
from algorithms.importance.fisher import prepared
from algorithms.models import build
from tests.algorithms import made
from tests.algorithms.made import cross_entropy, same_bits
from tests.all_of import all_of


def slope_of_one(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs[:, 0]


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def party(name: str = "a", round: int = 0, data: int = 0, dtype: torch.dtype = torch.float32) -> Party:
    return made.party(made.cnn(dtype), name, 15 + data % 7, draw=data, round=round, seed=100 * round + data)


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
STILL = Training(epochs=1, batch=32, lr=0.0)  # the model stays, and with it each device's Fisher


class Fleet:
    """Rounds among five devices, all of whose uploads are counted."""

    def __init__(self, algorithm: FedAvg, dtype: torch.dtype = torch.float32) -> None:
        self.algorithm, self.dtype, self.round = algorithm, dtype, 0
        self.state = algorithm.start(copied(party(dtype=dtype).model), party(dtype=dtype))

    def server(self) -> Party:
        return party("server", self.round, dtype=self.dtype)

    def device(self, name: str) -> Party:
        return party(name, self.round, ord(name), self.dtype)

    def down(self) -> Message:
        return self.algorithm.request(self.state, "abcde", self.server()).download

    def play(self, names: str = "abc") -> dict[str, Reply]:
        down = self.down()
        replies = {name: self.algorithm.train(down, self.device(name)) for name in names}
        self.state = self.algorithm.combine(self.state, replies, self.server())
        self.round += 1
        return replies


def test_it_is_an_algorithm() -> None:
    algorithm: Algorithm = AgentImportance(ROUGH)
    assert algorithm.training is ROUGH


# ---- equal to others, bit for bit


@pytest.mark.parametrize("importance", ["ewc", "rwalk"])
@pytest.mark.parametrize("off", [{"ewc": False}, {"strength": 0.0}])
def test_with_both_switches_off_it_is_fedavg(off: dict[str, object], importance: str) -> None:
    agents = Fleet(AgentImportance(ROUGH, weighted=False, importance=importance, **off))  # type: ignore[arg-type]
    plain = Fleet(FedAvg(ROUGH))
    for names in ("abc", "bde", "ace"):
        agents.play(names)
        plain.play(names)
        assert same_bits(agents.state["weights"], plain.state["weights"])


def test_fedavg_in_this_way_also_has_fedavg_s_bytes() -> None:
    fleet = Fleet(AgentImportance(ROUGH, ewc=False, weighted=False))
    server = fleet.server()
    for _ in range(2):
        assert {kind for reply in fleet.play().values() for kind in reply.upload} == fleet.down().keys() == {"weights"}
    algorithm = fleet.algorithm
    assert algorithm.download_form(server).keys() == algorithm.upload_form(1, server.model).keys() == {"weights"}
    load = Load(1, 20, 1000, replies=3)
    assert algorithm.device_work(load) == FedAvg(ROUGH).device_work(load)
    assert algorithm.combine_work(load) == FedAvg(ROUGH).combine_work(load)


def test_taking_importance_does_not_shift_the_training() -> None:
    down = {"weights": copied(party().model)}
    plain = FedAvg(ROUGH).train(down, party())
    for importance in ("ewc", "rwalk"):
        reply = AgentImportance(ROUGH, importance=importance).train(down, party())
        assert same_bits(reply.upload["weights"], plain.upload["weights"])


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
def test_a_lone_device_s_model_becomes_the_server_s(weigh_by: str) -> None:
    fleet = Fleet(AgentImportance(ROUGH, weigh_by=weigh_by))  # type: ignore[arg-type]
    for _ in range(3):
        reply = fleet.play("a")["a"]
        assert same_bits(fleet.state["weights"], reply.upload["weights"])


# ---- against a law


def test_the_weighted_mean_of_quadratics_with_the_same_layer_sums_is_their_global_optimum() -> None:
    """Σ F θ / Σ F minimises Σ_k ½ F_k (θ - c_k)²; normalising is harmless where all layers sum up to the same."""
    draw = torch.Generator().manual_seed(0)
    a = torch.rand(7, 5, generator=draw, dtype=torch.float64) + 0.05
    a *= 3.0 / a.sum(1, keepdim=True)
    c = torch.randn(7, 5, generator=draw, dtype=torch.float64)
    replies = {f"{k}": Reply({"weights": {"w": c[k]}, "fisher": {"w": a[k]}}, 1 + k) for k in range(7)}
    algorithm = AgentImportance(ROUGH)
    state = algorithm.combine({"weights": {"w": c[0]}}, replies, party("server"))
    optimum = (a * c).sum(0) / a.sum(0)
    torch.testing.assert_close(state["weights"]["w"], optimum, rtol=1e-14, atol=1e-15)
    assert (weighted_mean(replies)["w"] - optimum).abs().max() > 0.05  # where FedAvg ends


def test_training_ends_at_the_optimum_of_the_loss_and_its_spring() -> None:
    # a (θ - c) + λ F (θ - θ_t) = 0, with ½ in the loss; a step takes 0.3 (a + λ F) = 0.9 of the way that is left
    a, c, strength, f, start = 2.0, 5.0, 0.4, 2.5, -1.0
    x = torch.tensor([[a**0.5]], dtype=torch.float64)
    device = Party("a", 2, nn.Linear(1, 1, bias=False).double(), half_square, x, c * x[0], 1, 0, 1)
    fisher = torch.tensor([[f]], dtype=torch.float64)
    down = {"weights": {"weight": torch.tensor([[start]]).double()}, "fisher": {"weight": fisher}}
    reply = AgentImportance(Training(epochs=40, batch=1, lr=0.3), strength=strength).train(down, device)
    expected = (a * c + strength * f * start) / (a + strength * f)
    assert reply.upload["weights"]["weight"].item() == pytest.approx(expected, rel=1e-14)
    assert reply.leverage["step"] == pytest.approx(0.3 * strength * f)


def test_the_importance_is_the_mean_of_squares_over_the_device_s_examples_at_its_trained_model() -> None:
    device = party(data=4, dtype=torch.float64)
    reply = AgentImportance(ROUGH).train({"weights": copied(device.model)}, device)
    for name, expected in fisher_one_by_one(device, reply.upload["weights"]).items():
        torch.testing.assert_close(reply.upload["fisher"][name], expected, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("n", [11, 70])  # one chunk of examples, and two
def test_mean_squared_is_the_square_of_the_gradient_of_the_mean_loss(n: int) -> None:
    """Of a linear softmax, by hand: ((p - 1_y)ᵀ x / n)², far below the mean of the squares."""
    device = made.party(nn.Linear(4, 3).double(), n=n, shape=(4,))
    weights = copied(device.model)
    each, mean = (
        AgentImportance(STILL, fisher=fisher).train({"weights": weights}, device).upload["fisher"]  # type: ignore[arg-type]
        for fisher in ("empirical", "mean_squared")
    )
    wrong = (device.x @ weights["weight"].T + weights["bias"]).softmax(1) - F.one_hot(device.y, 3)
    torch.testing.assert_close(mean["weight"], (wrong.T @ device.x / n).square(), rtol=1e-12, atol=1e-18)
    torch.testing.assert_close(mean["bias"], wrong.mean(0).square(), rtol=1e-12, atol=1e-18)
    torch.testing.assert_close(each["weight"], wrong.square().T @ device.x.square() / n, rtol=1e-12, atol=1e-18)


def test_rwalk_by_hand() -> None:
    """A loss of slope 2 everywhere: 5 steps of 0.1 x 2, scored after 2, 4 and 5; F = 2², and s on top."""
    x = torch.full((5, 1), 2.0, dtype=torch.float64)
    device = Party("a", 2, nn.Linear(1, 1, bias=False).double(), slope_of_one, x, torch.zeros(5), 0, 0, 1)
    algorithm = AgentImportance(Training(epochs=1, batch=1, lr=0.1), importance="rwalk", window=2, damping=0.02)
    reply = algorithm.train({"weights": {"weight": torch.ones(1, 1).double()}}, device)
    pair, last = 2 * 0.4 / (0.5 * 4 * 0.4**2 + 0.02), 0.4 / (0.5 * 4 * 0.2**2 + 0.02)
    assert reply.upload["fisher"]["weight"].item() == pytest.approx(4 + 2 * pair + last, rel=1e-13)
    assert reply.numbers["score_share"] == pytest.approx((2 * pair + last) / (4 + 2 * pair + last), rel=1e-13)


def test_rwalk_scores_the_loss_and_not_the_penalty() -> None:
    slope, lr, strength, f, damping = 2.0, 0.1, 0.5, 3.0, 0.02
    x = torch.full((4, 1), slope, dtype=torch.float64)
    device = Party("a", 2, nn.Linear(1, 1, bias=False).double(), slope_of_one, x, torch.zeros(4), 1, 0, 1)
    algorithm = AgentImportance(
        Training(epochs=1, batch=1, lr=lr), strength, importance="rwalk", window=1, damping=damping, weigh_by="raw"
    )
    down = {"weights": {"weight": torch.ones(1, 1).double()}, "fisher": {"weight": torch.full((1, 1), f).double()}}
    reply = algorithm.train(down, device)
    theta, score = 1.0, 0.0
    for _ in range(4):
        step = -lr * (slope + strength * f * (theta - 1.0))
        score += max(0.0, -slope * step) / (0.5 * slope**2 * step**2 + damping)
        theta += step
    assert reply.upload["weights"]["weight"].item() == pytest.approx(theta, rel=1e-13)
    assert reply.upload["fisher"]["weight"].item() == pytest.approx(slope**2 + score, rel=1e-13)


def test_rwalk_without_scores_is_ewc() -> None:
    ewc = Fleet(AgentImportance(ROUGH))
    walk = Fleet(AgentImportance(ROUGH, importance="rwalk", damping=float("inf")))
    for _ in range(3):
        ewc.play()
        assert all_of(reply.numbers["score_share"] == 0.0 for reply in walk.play().values())
        assert all(same_bits(ewc.state[kind], walk.state[kind]) for kind in ("weights", "fisher"))


def test_rwalk_normalised_without_scores_is_ewc_over_its_largest() -> None:
    down = {"weights": copied(party().model)}
    ewc = AgentImportance(ROUGH).train(down, party()).upload["fisher"]
    algorithm = AgentImportance(ROUGH, importance="rwalk", damping=float("inf"), normalise=True)
    largest = max(float(value.max()) for value in ewc.values())
    for name, value in algorithm.train(down, party()).upload["fisher"].items():
        torch.testing.assert_close(value, ewc[name] / largest, rtol=1e-6, atol=0)


def test_rwalk_normalised_adds_two_parts_that_are_at_most_1() -> None:
    down = {"weights": copied(party().model)}
    plain, scored = (
        AgentImportance(ROUGH, importance="rwalk", damping=damping, normalise=True)
        .train(down, party())
        .upload["fisher"]
        for damping in (float("inf"), 1e-3)
    )
    scores = torch.cat([(scored[name] - plain[name]).flatten() for name in plain])
    assert scores.min() >= -1e-6
    assert scores.max().item() == pytest.approx(1.0, rel=1e-6)


# ---- the moving mean of importance


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9, 1.0])
def test_importance_that_stays_the_same_stays_the_same(gamma: float, weigh_by: str) -> None:
    fleet = Fleet(AgentImportance(STILL, gamma=gamma, weigh_by=weigh_by))  # type: ignore[arg-type]
    fleet.play("a")
    first = fleet.state["fisher"]
    for _ in range(4):
        fleet.play("a")
        assert same_bits(fleet.state["fisher"], first)


@settings(max_examples=25)
@given(
    gamma=st.floats(0, 1),
    fisher=st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    devices=st.integers(1, 5),
    rounds=st.integers(1, 6),
    raw=st.booleans(),
)
def test_whatever_stays_the_same_stays_the_same(
    gamma: float, fisher: list[float], devices: int, rounds: int, raw: bool
) -> None:
    """F^k = F of all devices in all rounds gives F_t = F, to the bit; `ema` mixes on the devices."""
    f = {"w": torch.tensor(fisher, dtype=torch.float64)}
    algorithm = AgentImportance(STILL, gamma=gamma, weigh_by="raw" if raw else "ema")
    state: Message = {"weights": {"w": torch.ones_like(f["w"])}}
    for _ in range(rounds):
        sent, _ = prepared(f, None if raw else state.get("fisher"), gamma, 0.0)
        replies = {str(k): Reply({"weights": state["weights"], "fisher": sent}, 1 + k) for k in range(devices)}
        state = algorithm.combine(state, replies, party("server"))
        assert same_bits(state["fisher"], f)


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
def test_without_memory_it_is_the_mean_of_this_round(weigh_by: str) -> None:
    fleet = Fleet(AgentImportance(ROUGH, gamma=0.0, weigh_by=weigh_by), torch.float64)  # type: ignore[arg-type]
    fleet.play()
    replies = fleet.play()
    own = [fisher_one_by_one(replace(fleet.device(k), round=1), r.upload["weights"]) for k, r in replies.items()]
    for name, value in fleet.state["fisher"].items():
        torch.testing.assert_close(value, sum(f[name] for f in own) / 3, rtol=1e-10, atol=1e-18)


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
def test_with_nothing_but_memory_it_is_that_of_the_first_round(weigh_by: str) -> None:
    fleet = Fleet(AgentImportance(ROUGH, gamma=1.0, weigh_by=weigh_by))  # type: ignore[arg-type]
    fleet.play()
    first = fleet.state["fisher"]
    fleet.play("de")
    assert same_bits(fleet.state["fisher"], first)


def test_the_first_importance_is_not_diluted_and_later_ones_are_mixed_with_the_server_s() -> None:
    fleet = Fleet(AgentImportance(ROUGH, gamma=0.9), torch.float64)
    first = fleet.play("ab")
    for known, reply in first.items():
        own = fisher_one_by_one(party(known, 0, ord(known), torch.float64), reply.upload["weights"])
        for name, value in reply.upload["fisher"].items():
            torch.testing.assert_close(value, own[name], rtol=1e-10, atol=1e-18)
    was, device = fleet.state["fisher"], fleet.device("c")
    reply = fleet.play("c")["c"]
    own = fisher_one_by_one(device, reply.upload["weights"])
    for name, value in reply.upload["fisher"].items():
        torch.testing.assert_close(value, 0.9 * was[name] + 0.1 * own[name], rtol=1e-10, atol=1e-18)


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
def test_from_zero_the_first_importance_is_diluted_too(weigh_by: str) -> None:
    """F_0 = 0 in Eq. 4: F_1 = γ 0 + (1 - γ) F.  In round 1 it changes neither the training nor the mean."""
    plain, zero = (
        Fleet(AgentImportance(ROUGH, gamma=0.9, weigh_by=weigh_by, from_zero=on), torch.float64)  # type: ignore[arg-type]
        for on in (False, True)
    )
    size = floats({"weights": zero.state["weights"]})
    assert floats(zero.down()) == (2 * size)  # F_0 travels, as in Algorithm 1
    assert not sum(int(value.count_nonzero()) for value in zero.down()["fisher"].values())
    assert same_bits(plain.play()["a"].upload["weights"], zero.play()["a"].upload["weights"])
    for name, value in plain.state["fisher"].items():
        torch.testing.assert_close(zero.state["fisher"][name], 0.1 * value, rtol=1e-12, atol=1e-18)
    for name, value in plain.state["weights"].items():
        torch.testing.assert_close(zero.state["weights"][name], value, rtol=1e-12, atol=1e-12)


def test_ema_and_raw_hand_on_the_same_importance_and_weigh_by_another() -> None:
    ema, raw = (Fleet(AgentImportance(STILL, weigh_by=kind), torch.float64) for kind in ("ema", "raw"))
    for names in ("ab", "bc"):
        before = ema.play(names), raw.play(names)
        for name, value in ema.state["fisher"].items():
            torch.testing.assert_close(raw.state["fisher"][name], value, rtol=1e-12, atol=1e-18)
    mixed, own = (replies["c"].upload["fisher"] for replies in before)
    assert not same_bits(mixed, own)


@pytest.mark.parametrize("weigh_by", ["ema", "raw"])
def test_the_server_weighs_by_what_was_uploaded(weigh_by: str) -> None:
    fleet = Fleet(AgentImportance(ROUGH, weigh_by=weigh_by))  # type: ignore[arg-type]
    for _ in range(2):
        replies = fleet.play()
        assert same_bits(fleet.state["weights"], importance_weighted_mean(replies, "fisher"))
        assert not same_bits(fleet.state["weights"], weighted_mean(replies))


def test_the_order_of_arrival_leaves_no_trace() -> None:
    fleet = Fleet(AgentImportance(ROUGH))
    start, replies = fleet.state, fleet.play("abcde")
    backwards = fleet.algorithm.combine(start, dict(reversed(replies.items())), fleet.server())
    assert all(same_bits(backwards[kind], fleet.state[kind]) for kind in ("weights", "fisher"))


# ---- what travels


def test_the_payload_is_one_and_a_half_times_that_of_fedavg_at_first_and_twice_later() -> None:
    fleet = Fleet(AgentImportance(ROUGH))
    size = floats({"weights": fleet.state["weights"]})
    rounds = [floats(fleet.down()) + floats(fleet.play("a")["a"].upload) for _ in range(3)]
    assert [moved / (2 * size) for moved in rounds] == [1.5, 2.0, 2.0]
    assert set(AgentImportance.downloads) == set(AgentImportance.uploads) == fleet.down().keys()


@pytest.mark.parametrize(
    ("options", "down", "up"),
    [
        ({}, 2, 2),
        ({"weighted": False}, 2, 2),
        ({"ewc": False}, 2, 2),  # devices mix the server's importance into theirs
        ({"ewc": False, "weigh_by": "raw"}, 1, 2),
        ({"weighted": False, "weigh_by": "raw"}, 2, 2),
    ],
)
def test_what_nobody_uses_does_not_travel(options: dict[str, object], down: int, up: int) -> None:
    fleet = Fleet(AgentImportance(ROUGH, **options))  # type: ignore[arg-type]
    fleet.play("a")
    size, server = floats({"weights": fleet.state["weights"]}), fleet.server()
    assert floats(fleet.down()) == down * size == floats(fleet.algorithm.download_form(server))
    upload = fleet.play("a")["a"].upload
    assert floats(upload) == up * size == floats(fleet.algorithm.upload_form(1, server.model))


def test_devices_keep_nothing() -> None:
    fleet = Fleet(AgentImportance(ROUGH, importance="rwalk"))
    for _ in range(2):
        assert all_of((reply.memory, reply.if_counted) == ({}, {}) for reply in fleet.play().values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_importance_travels_in_the_precision_of_the_model(dtype: torch.dtype) -> None:
    fleet = Fleet(AgentImportance(ROUGH, importance="rwalk"), dtype)
    upload = fleet.play()["a"].upload
    assert {t.dtype for m in (upload, fleet.down()) for tensors in m.values() for t in tensors.values()} == {dtype}


def test_below_the_threshold_nothing_is_sent_either_way() -> None:
    fleet, whole = Fleet(AgentImportance(ROUGH, threshold=0.5)), Fleet(AgentImportance(ROUGH))
    assert fleet.algorithm.encodings == {"fisher": "sparse"}
    assert whole.algorithm.encodings == {}
    full, cut = whole.play("a")["a"], fleet.play("a")["a"]
    for name, value in full.upload["fisher"].items():
        stays = value >= 0.5 * value.max()
        assert torch.equal(cut.upload["fisher"][name], torch.where(stays, value, 0.0))
    there = sum(int(value.count_nonzero()) for value in cut.upload["fisher"].values())
    assert 0 < there < floats({"fisher": cut.upload["fisher"]})
    assert cut.numbers["fisher_sent"] == there / floats({"fisher": cut.upload["fisher"]})
    fleet.play("abc")
    for name, value in fleet.down()["fisher"].items():
        kept = fleet.state["fisher"][name]
        assert torch.equal(value, torch.where(kept >= 0.5 * kept.max(), kept, 0.0))


def test_coordinates_that_were_not_sent_do_not_count() -> None:
    sent = {"a": [0.0, 1.0, 0.0], "b": [0.5, 1.0, 0.0]}
    replies = {
        name: Reply({"weights": {"w": torch.tensor([1.0, 1.0, 1.0]) * n}, "fisher": {"w": torch.tensor(fisher)}}, n)
        for n, (name, fisher) in zip((1, 4), sent.items(), strict=True)
    }
    state = AgentImportance(ROUGH, threshold=0.2).combine({}, replies, party("server"))
    shares = torch.tensor([0.0, 1 / (1 + 2 / 3), 1 / 5])  # of a; the last by examples
    torch.testing.assert_close(state["weights"]["w"], shares + 4 * (1 - shares))


def test_importance_that_an_encoding_made_negative_counts_as_none() -> None:
    fleet = Fleet(AgentImportance(ROUGH))
    replies = fleet.play()
    broken = {
        name: replace(reply, upload=reply.upload | {"fisher": {n: v - 1e-3 for n, v in reply.upload["fisher"].items()}})
        for name, reply in replies.items()
    }
    state = fleet.algorithm.combine(fleet.state, broken, fleet.server())
    assert all_of(value.min() >= 0 for value in state["fisher"].values())
    down = fleet.down() | {"fisher": broken["a"].upload["fisher"]}
    penalty = fleet.algorithm.penalty(down, fleet.device("a"))
    assert penalty is not None
    assert all_of(value.min() >= 0 for value in penalty.importance.values())  # type: ignore[union-attr]
    answer = fleet.algorithm.train(down, fleet.device("a"))
    assert all_of(value.min() >= 0 for value in answer.upload["fisher"].values())


@pytest.mark.parametrize("importance", ["ewc", "rwalk"])
def test_buffers_have_no_importance_and_are_counted_by_examples(importance: str) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    algorithm = AgentImportance(ROUGH, importance=importance)  # type: ignore[arg-type]
    state: Message = {"weights": copied(model)}
    for round in range(2):
        down = algorithm.request(state, "ab", replace(party(), model=model)).download
        replies = {k: algorithm.train(down, replace(party(k, round, ord(k)), model=model)) for k in "ab"}
        assert replies["a"].upload["fisher"].keys() == dict(model.named_parameters()).keys()
        state = algorithm.combine(state, replies, replace(party(), model=model))
        plain = weighted_mean(replies)
        for name in dict(model.named_buffers()):
            assert torch.equal(state["weights"][name], plain[name])
    model.load_state_dict(state["weights"])


# ---- work


TRAIN = Phase("train", "batch", 20, batch=8, epochs=2, traffic=sgd_traffic(1000, 0.9))
FISHER = Phase("fisher", "each", 20, batch=20, traffic=1000 * SQUARES)


@pytest.mark.parametrize(
    ("options", "kinds", "moved"),
    [
        ({}, ("weights",), 0.0),
        ({}, ("weights", "fisher"), PULL),
        ({"ewc": False}, ("weights", "fisher"), 0.0),
        ({"strength": 0.0}, ("weights", "fisher"), 0.0),
        ({"importance": "rwalk", "window": 4}, ("weights",), agentimportance_walk.traffic(4)),
        ({"importance": "rwalk", "window": 4}, ("weights", "fisher"), PULL + agentimportance_walk.traffic(4)),
    ],
)
def test_the_work_of_a_device(options: dict[str, object], kinds: tuple[str, ...], moved: float) -> None:
    algorithm = AgentImportance(ROUGH, **options)  # type: ignore[arg-type]
    load = Load(1, examples=20, parameters=1000, kinds=kinds)
    assert algorithm.device_work(load) == (replace(TRAIN, traffic=TRAIN.traffic + 1000 * moved), FISHER)
    # sums in float64, a chunk's sum, a copy of the model; or what a walk holds before, and its scores
    assert algorithm.device_floats(load) == (6000 if "importance" in options else 4000)


def test_mean_squared_is_charged_as_one_pass_without_squares_of_single_examples() -> None:
    algorithm = AgentImportance(ROUGH, fisher="mean_squared")
    _, fisher = algorithm.device_work(Load(1, examples=100, parameters=1000))
    assert fisher == Phase("fisher_batch", "batch", 100, batch=CHUNK, traffic=1000 * SQUARES)
    assert algorithm.device_floats(Load(1, examples=100, parameters=1000)) == 4000


def test_few_examples_are_not_charged_for_a_whole_chunk() -> None:
    algorithm = AgentImportance(ROUGH)
    _, few = algorithm.device_work(Load(1, examples=10, parameters=1000))
    _, many = algorithm.device_work(Load(1, examples=1000, parameters=1000))
    assert (few.batch, many.batch) == (10, CHUNK)


def test_without_a_use_for_importance_none_is_held_and_no_path_is_watched() -> None:
    algorithm = AgentImportance(ROUGH, ewc=False, weighted=False, importance="rwalk")
    load = Load(1, examples=20, parameters=1000)
    assert algorithm.device_floats(load) == 0
    assert algorithm.device_work(load) == FedAvg(ROUGH).device_work(load)


@pytest.mark.parametrize(("weighted", "tensors"), [(True, 3 * 4 + 2), (False, 2 * 4 + 2)])
def test_the_work_of_the_server(weighted: bool, tensors: int) -> None:
    algorithm = AgentImportance(ROUGH, weighted=weighted)
    (phase,) = algorithm.combine_work(Load(1, 0, parameters=1000, replies=4))
    assert phase == Phase("combine", "forward", traffic=1000.0 * tensors)
    assert algorithm.request_work(Load(1, 0, 1000)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("importance", ["ewc", "rwalk"])
def test_the_declared_flops_of_a_device_are_those_that_torch_counts(importance: str) -> None:
    model = build("mlp", 0)
    x, y = torch.randn(20, 1, 28, 28), torch.randint(10, (20,))
    device = Party("a", 4, model, cross_entropy, x, y, 1, 0, 1)
    down = {
        "weights": copied(model),
        "fisher": {name: value.detach().abs() for name, value in model.named_parameters()},
    }
    algorithm = AgentImportance(ROUGH, importance=importance)  # type: ignore[arg-type]
    meter = Meter(build("mlp", 0), (1, 28, 28), cross_entropy)
    declared = {p.name: meter.flops(p) for p in algorithm.device_work(Load(1, 20, 159_010, kinds=down))}
    counts = []
    for one in (algorithm, FedAvg(ROUGH)):
        with FlopCounterMode(display=False) as counter:
            one.train(down, device)
        counts.append(counter.get_total_flops())
    both, train = counts
    assert declared["train"] == pytest.approx(train, rel=0.01)
    # an outer product of squares costs what one of gradients does: example by example, or in one batch
    assert declared["fisher"] == pytest.approx(both - train, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strength", -1.0),
        ("gamma", 1.5),
        ("threshold", -0.1),
        ("importance", "si"),
        ("weigh_by", "both"),
        ("window", 0),
        ("damping", 0.0),
    ],
)
def test_a_field_out_of_its_range_is_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value!r}; it must be"):
        AgentImportance(ROUGH, **{field: value})  # type: ignore[arg-type]
