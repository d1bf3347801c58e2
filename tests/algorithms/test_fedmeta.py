"""FedMeta: a step of the server's own after each round."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Algorithm, Load, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import Meter, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.fedmeta import FedMeta
from algorithms.training.local import sgd
from algorithms.training.seeding import seeded
from algorithms.uga import UGA
from tests.algorithms import made
from tests.algorithms.made import cross_entropy, same_bits

torch.set_num_threads(1)  # as in a worker

ONE: tuple[Literal["one_step"], Literal["sum"]] = ("one_step", "sum")
TRAINING = Training(epochs=2, batch=4, lr=0.1, lr_decay=0.5)
BASES: dict[str, Callable[..., Algorithm]] = {"fedavg": FedAvg, "uga": UGA}


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


def flat() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def party(make: Callable[[], nn.Module] = network, n: int = 10, name: str = "server") -> Party:
    seeded(3)
    return made.party(make(), name, n, draw=len(name), devices=1, round=2, seed=len(name))


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def played(algorithm: Algorithm, server: Party, devices: Mapping[str, Party]) -> Tensors:
    """The server's model after one round that begins with the model in `server`, which stays as it is."""
    server = replace(server, model=copy.deepcopy(server.model))
    state = {"weights": copied(server.model)}
    replies: dict[str, Reply] = {
        name: algorithm.train(algorithm.request(state, [name], server).download, device)
        for name, device in devices.items()
    }
    return algorithm.combine(state, replies, server)["weights"]


def descended(weights: Tensors, server: Party, rate: float, of_sum: bool = False) -> Tensors:
    """A step of gradient descent on all of the server's examples, by torch alone."""
    model = flat()
    model.load_state_dict(weights)
    losses = cross_entropy(model(server.x), server.y)
    found = torch.autograd.grad(losses.sum() if of_sum else losses.mean(), list(model.parameters()))
    gradients = dict(zip(weights, found, strict=True))
    return {name: value - rate * gradients[name] for name, value in weights.items()}


def near(a: Tensors, b: Tensors) -> None:
    for name, value in a.items():
        torch.testing.assert_close(value, b[name], rtol=1e-12, atol=1e-14)


@pytest.mark.slow  # the first use of torch's optimiser
@pytest.mark.parametrize("make", [network, normalised])
@pytest.mark.parametrize("clients", ["fedavg", "uga"])
def test_without_a_rate_it_is_the_base_algorithm_bit_for_bit(clients: Any, make: Callable[[], nn.Module]) -> None:
    server, devices = party(make), {"a": party(make, 9, "a"), "bc": party(make, 5, "bc")}
    algorithm = FedMeta(TRAINING, clients=clients, eta_meta=0.0)
    base = BASES[clients](TRAINING)
    assert same_bits(played(algorithm, server, devices), played(base, server, devices))
    load = Load(0, 10, 1000, replies=2)
    assert algorithm.combine_work(load) == base.combine_work(load)
    assert algorithm.device_work(load) == base.device_work(load)
    assert algorithm.device_floats(load) == base.device_floats(load)
    assert algorithm.upload_form(0, server.model).keys() == base.upload_form(0, server.model).keys()


def test_the_mean_of_fedavg_s_clients_is_a_step_of_rate_1_against_their_pseudo_gradients() -> None:
    """ω_t - Σ (n_k / n) (ω_t - ω^k): the paper's FedMeta with FedAvg's clients, η_g = 1."""
    server, devices = party(flat), {"a": party(flat, 9, "a"), "bc": party(flat, 5, "bc")}
    before = copied(server.model)
    models = {name: FedAvg(TRAINING).train({"weights": before}, device) for name, device in devices.items()}
    gradients = {
        n: sum(r.examples / 14 * (v - r.upload["weights"][n]) for r in models.values()) for n, v in before.items()
    }
    found = played(FedMeta(TRAINING, eta_meta=0.0), server, devices)
    near(found, {name: value - gradients[name] for name, value in before.items()})
    assert any((found[name] - value).abs().max() > 0.01 for name, value in before.items())


@pytest.mark.parametrize("clients", ["fedavg", "uga"])
def test_one_epoch_of_whole_data_on_the_servers_own_examples_is_two_exact_steps(clients: Any) -> None:
    server = party(flat)
    device = replace(server, name="a", seed=1)  # D_meta = D_k
    step: dict[str, Any] = {"eta_g": 0.3} if clients == "uga" else {}
    algorithm = FedMeta(Training(epochs=1, batch=10, lr=0.3), clients=clients, **step)
    once = descended(copied(server.model), server, 0.3)
    near(played(algorithm, server, {"a": device}), descended(once, server, 0.3))


@pytest.mark.parametrize(("eta_meta", "rate"), [("matched", 0.1 / 4), (0.02, 0.02)])
def test_the_rate_is_that_of_the_round_or_a_constant(eta_meta: Any, rate: float) -> None:
    server, devices = party(flat), {"a": party(flat, 9, "a")}
    base = played(FedAvg(TRAINING), server, devices)
    of_mean, of_sum = (FedMeta(TRAINING, meta=meta, eta_meta=eta_meta) for meta in ONE)  # in batches, but one step
    near(played(of_mean, server, devices), descended(base, server, rate))
    near(played(of_sum, server, devices), descended(base, server, rate, of_sum=True))


@pytest.mark.parametrize(("meta", "epochs"), [("epoch", 1), ("E_epochs", 2)])
def test_epochs_are_local_training_on_the_server_without_momentum(meta: Any, epochs: int) -> None:
    server, devices = party(), {"a": party(n=9, name="a")}
    heavy = replace(TRAINING, momentum=0.9, weight_decay=0.1)
    base = played(FedAvg(heavy), server, devices)
    found = played(FedMeta(heavy, meta=meta, eta_meta=0.02), server, devices)
    assert same_bits(found, sgd(server, base, Training(epochs=epochs, batch=4, lr=0.02)))


def test_momentum_and_decay_do_not_touch_the_one_step() -> None:
    server, devices = party(flat), {"a": party(flat, 9, "a")}
    heavy = replace(TRAINING, momentum=0.9, weight_decay=0.1)
    base = played(FedAvg(heavy), server, devices)
    near(played(FedMeta(heavy, eta_meta=0.02), server, devices), descended(base, server, 0.02))


def test_ugas_options_reach_its_clients() -> None:
    given: dict[str, Any] = {
        "eta_g": 0.002,
        "loss": "batch_accumulate",
        "first_order": True,
        "budget_mb": 1.0,
        "clip_norm": 2.0,
        "mu": 0.1,
    }
    assert FedMeta(TRAINING, clients="uga", **given).base == UGA(TRAINING, **given)
    assert given.keys() | {"training"} == {option.name for option in fields(UGA)}  # all of them
    defaults = {option.name: option.default for option in fields(FedMeta)}
    assert {option.name: option.default for option in fields(UGA)}.items() <= defaults.items()


def test_batch_norms_buffers_see_the_servers_examples() -> None:
    server, devices = party(normalised), {"a": party(normalised, 9, "a")}
    after = played(FedMeta(TRAINING), server, devices)
    assert int(after["1.num_batches_tracked"]) == 2 * 3 + 3  # the device's two epochs, and ⌈10 / 4⌉ here
    server.model.load_state_dict(after)


# ---- work


@pytest.mark.slow
@pytest.mark.parametrize("meta", ["one_step", "epoch", "E_epochs", "sum"])
def test_the_declared_flops_are_those_that_torch_counts(meta: Any) -> None:
    server, device = party(), party(n=9, name="a")
    algorithm = FedMeta(TRAINING, meta=meta)
    state = {"weights": copied(server.model)}
    replies = {"a": algorithm.train(state, device)}
    parameters = sum(p.numel() for p in server.model.parameters())
    meter = Meter(server.model, (1, 4, 4), cross_entropy)
    declared = sum(meter.flops(phase) for phase in algorithm.combine_work(Load(2, 10, parameters, replies=1)))
    with FlopCounterMode(display=False) as counted:
        algorithm.combine(state, replies, server)
    assert declared == pytest.approx(counted.get_total_flops(), rel=0.01)


def test_the_work_of_combining() -> None:
    load = Load(0, examples=10, parameters=1000, replies=2)
    plain = FedAvg(TRAINING).combine_work(load)
    meta = Phase("meta", "batch", 10, 4, epochs=1, traffic=sgd_traffic(1000, 0.0))
    assert FedMeta(TRAINING).combine_work(load) == (*plain, meta)
    assert FedMeta(TRAINING, meta="E_epochs").combine_work(load) == (*plain, replace(meta, epochs=2))


# ---- slips


def test_a_server_without_examples_cannot_step() -> None:
    server, devices = party(n=0), {"a": party(n=9, name="a")}
    with pytest.raises(ValueError, match="the server holds 0 examples"):
        played(FedMeta(TRAINING), server, devices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": "fedprox"}, "clients is 'fedprox'"),
        ({"meta": "two_steps"}, "meta is 'two_steps'"),
        ({"eta_meta": -1.0}, r"eta_meta is -1\.0"),
        ({"first_order": True}, "takes none of UGA's options"),
        ({"mu": 0.1}, "takes none of UGA's options"),
        ({"clients": "uga", "mu": -1.0}, r"mu is -1\.0"),
        ({"clients": "uga", "loss": "sum", "eta_g": "matched"}, "with loss 'sum' it must be a number"),
    ],
)
def test_slips_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FedMeta(TRAINING, **options)
