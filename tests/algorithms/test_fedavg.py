"""Federated averaging."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from algorithms.algorithm import Algorithm, Load, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.training.seeding import seeded
from tests.algorithms import made
from tests.algorithms.made import same_bits
from tests.all_of import all_of

NAMES = [f"device-{k:05}" for k in range(10_000)]


def net() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))


def party(model: nn.Module, n: int = 20, seed: int = 5, data: int = 0) -> Party:
    return made.party(model, n=n, draw=data, devices=1, seed=seed)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


def test_it_is_an_algorithm() -> None:
    algorithm: Algorithm = FedAvg(ROUGH)
    assert algorithm.training is ROUGH


def test_the_model_goes_down_and_the_trained_model_goes_up() -> None:
    algorithm, model = FedAvg(ROUGH), net()
    server, device = party(model), party(model)
    state = algorithm.start(copied(model), server)
    request = algorithm.request(state, ["a"], server)
    assert request.extra == {}
    assert request.download.keys() == {"weights"} == set(algorithm.downloads)
    assert same_bits(request.download["weights"], state["weights"])
    reply = algorithm.train(request.download, device)
    assert reply.upload.keys() == {"weights"} == set(algorithm.uploads)
    assert reply.examples == 20
    assert (reply.memory, reply.if_counted, reply.leverage) == ({}, {}, {})
    assert not same_bits(reply.upload["weights"], state["weights"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_server_makes_one_reply_its_model_bit_for_bit(dtype: torch.dtype) -> None:
    algorithm, model = FedAvg(ROUGH), net().to(dtype)
    state = algorithm.start(copied(model), party(model))
    reply = algorithm.train({"weights": copied(model)}, party(model))
    assert same_bits(algorithm.combine(state, {"a": reply}, party(model))["weights"], reply.upload["weights"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_with_the_same_data_and_seed_are_as_one(dtype: torch.dtype) -> None:
    algorithm, model = FedAvg(ROUGH), net().to(dtype)
    down = {"weights": copied(model)}
    replies = {name: algorithm.train(down, replace(party(model), name=name)) for name in "abcde"}
    assert same_bits(algorithm.combine(down, replies, party(model))["weights"], replies["a"].upload["weights"])


def test_one_epoch_of_full_batches_is_one_step_on_all_the_data() -> None:
    model = net().double().eval()
    model[3] = nn.Identity()  # no dropout
    algorithm = FedAvg(Training(epochs=1, batch=100, lr=0.3))
    down = {"weights": copied(model)}
    devices = {f"{k}": party(model, n=11 + 7 * k, data=k) for k in range(4)}
    server = party(model)
    state = algorithm.combine(down, {k: algorithm.train(down, d) for k, d in devices.items()}, server)

    model.load_state_dict(down["weights"])
    x = torch.cat([device.x for device in devices.values()])
    y = torch.cat([device.y for device in devices.values()])
    slopes = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    for (name, parameter), slope in zip(model.named_parameters(), slopes, strict=True):
        torch.testing.assert_close(state["weights"][name], parameter - 0.3 * slope, rtol=1e-12, atol=1e-14)


def test_the_order_of_arrival_leaves_no_trace() -> None:
    algorithm, model = FedAvg(ROUGH), net()
    down = {"weights": copied(model)}
    replies = {f"{k}": algorithm.train(down, party(model, n=9 + k, data=k)) for k in range(4)}
    expected = algorithm.combine(down, replies, party(model))["weights"]
    backwards = dict(reversed(replies.items()))
    assert same_bits(algorithm.combine(down, backwards, party(model))["weights"], expected)


@pytest.mark.parametrize("count", [137, 9000])
def test_a_cohort_has_each_name_once_and_in_order(count: int) -> None:
    cohort = FedAvg(ROUGH).cohort(0, NAMES, count, seed=4)
    assert len(set(cohort)) == count
    assert list(cohort) == sorted(cohort)
    assert set(cohort) <= set(NAMES)


def test_a_cohort_follows_from_its_seed() -> None:
    algorithm = FedAvg(ROUGH)
    assert algorithm.cohort(0, NAMES, 50, seed=4) == algorithm.cohort(0, NAMES, 50, seed=4)
    assert algorithm.cohort(0, NAMES, 50, seed=4) != algorithm.cohort(0, NAMES, 50, seed=5)


@pytest.mark.parametrize("count", [3, 4])
def test_if_there_are_no_more_all_are_asked(count: int) -> None:
    assert list(FedAvg(ROUGH).cohort(0, ["a", "b", "c"], count, seed=0)) == ["a", "b", "c"]


def test_every_name_is_drawn_equally_often() -> None:
    # 3 of 10 in each of 2000 rounds: 600 each, standard deviation sqrt(2000 * .3 * .7) = 20.5; five of them
    algorithm = FedAvg(ROUGH)
    drawn = Counter(name for seed in range(2000) for name in algorithm.cohort(seed, NAMES[:10], 3, seed))
    assert all_of(abs(drawn[name] - 600) < 5 * 20.5 for name in NAMES[:10])


def test_the_work_of_a_round() -> None:
    algorithm = FedAvg(ROUGH)
    load = Load(round=4, examples=20, parameters=1000, kinds=("weights",), replies=6)
    assert algorithm.request_work(load) == ()
    moved = sgd_traffic(1000, 0.9)
    assert algorithm.device_work(load) == (Phase("train", "batch", 20, batch=8, epochs=2, traffic=moved),)
    # six models are read and one is written
    assert algorithm.combine_work(load) == (Phase("combine", "forward", traffic=7000.0),)


def test_a_device_with_fewer_examples_than_a_batch_computes_on_those() -> None:
    (phase,) = FedAvg(ROUGH).device_work(Load(round=0, examples=5, parameters=10))
    assert phase.batch == 5


def test_a_round_without_examples_is_refused() -> None:
    with pytest.raises(ValueError, match="0 examples"):
        FedAvg(ROUGH).combine({}, {"a": Reply({"weights": {}}, 0)}, party(net()))
