"""Declared work against torch's own FLOP counter: of every algorithm that comes with fedlapse, both halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from algorithms import models
from algorithms.algorithm import Load, Message, Party, Reply, Training, Work
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.tasks.task import named
from emulator.pricing.costs import meter_of
from scenarios.builders import plugins

TRAINING = Training(lr=0.1, epochs=2, batch=8, momentum=0.9)
CYCLES = {"training": replace(TRAINING, per_cycle=2), "personal": "fc2.*"}
EXAMPLES, PROXY = 20, 72  # of 72, two and three parts are alike
NAMES = ("a", "b", "c")

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "fedavg": [{}],
    "fedprox": [{}, {"mu": 0.1}],
    "fedcl": [
        *({"importance": kind, "interval": 2} for kind in ("abs", "sq", "tensor_scalar", "mas", "si")),
        {"interval": 2, "fallback": "local_estimate"},
        {"interval": 3, "fallback": "catch_up"},
        {"interval": 2, "fallback": "local_estimate", "placebo": "shuffled"},
    ],
    "fedcurv": [{}, {"upload": "lean"}, {"fisher": "exact"}, {"fisher": "batch_squared"}, {"placebo": "shuffled"}],
    "agentimportance": [{}, {"importance": "rwalk"}, {"fisher": "mean_squared", "from_zero": True}],
    "uga": [{}, {"budget_mb": 0.0}, {"first_order": True}],
    "fedmeta": [{}, {"clients": "uga"}, {"meta": "E_epochs"}],
    "fedshare": [{}, {"split": "per_client"}, {"split": "per_round"}],
    "scaffold": [{}],
    "fednova": [{}],
    "feddyn": [{}],
    "ditto": [{}],
    "fedavgm": [{}],
    "fedadam": [{}],
    "fedyogi": [{}],
    "ca2fl": [{}],
    "fadas": [{}],
    "fedasync": [{}, {"mu": 0.1}],
    "fedbuff": [{}],
    "continual": [
        *(CYCLES | {"variant": variant} for variant in ("baseline", "alg0", "alg1", "alg2")),
        CYCLES | {"variant": "alg1", "pretrain": 2},
    ],
}
CASES = [(key, options) for key, cases in OPTIONS.items() for options in cases]


def test_no_algorithm_is_left_out() -> None:
    assert OPTIONS.keys() == plugins.kinds().keys()


def party(name: str, model: str, n: int, round: int, memory: Message) -> Party:
    draw = torch.Generator().manual_seed(sum(name.encode()))
    x = torch.rand(n, *models.input_shape(model), generator=draw).mul(16).round() / 16
    y = torch.randint(10, (n,), generator=draw)
    found = Party(name, len(NAMES), models.build(model, 0), models.cross_entropy, x, y, round, round // 2, 1, memory)
    return replace(found, fleet=NAMES)


def counted(work: Callable[[], Any]) -> tuple[float, Any]:
    with FlopCounterMode(display=False) as counter:
        result = work()
    return float(counter.get_total_flops()), result


def declared(meter: Meter, work: Work) -> float:
    return sum(meter.flops(phase) for phase in work)


def rounds_of(algorithm: FedAvg, model: str, rounds: int) -> list[tuple[str, float, float]]:
    """The work that each half of each round declares, and the work that it does.  Two of three devices are asked, other
    ones each time."""
    module, meter = (
        models.build(model, 0),
        meter_of(model, (10, models.input_shape(model), False, ()), ((), "int64"), named("classification")),
    )
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    load = Load(0, EXAMPLES, sum(value.numel() for value in weights.values()), proxy=PROXY, devices=3, asked=2)
    memory: dict[str, Message] = {name: {} for name in NAMES}
    done, state = counted(lambda: algorithm.start(weights, party("server", model, PROXY, 0, {})))
    found = []
    for round in range(rounds):
        server, load = party("server", model, PROXY, round, {}), replace(load, round=round)
        asked = (NAMES * 2)[round : round + 2]
        more, request = counted(lambda server=server, asked=asked, state=state: algorithm.request(state, asked, server))
        served = replace(load, examples=PROXY)
        found.append((f"request {round}", declared(meter, algorithm.request_work(served)), done + more))
        replies: dict[str, Reply] = {}
        for name in asked:
            down = request.download | request.extra.get(name, {})
            device = party(name, model, EXAMPLES, round, memory[name])
            done, replies[name] = counted(lambda down=down, device=device: algorithm.train(down, device))
            mine = replace(load, kinds=frozenset(down), memory=frozenset(device.memory))
            found.append((f"{name} {round}", declared(meter, algorithm.device_work(mine)), done))
            memory[name] = memory[name] | replies[name].memory | replies[name].if_counted
        done, state = counted(
            lambda server=server, replies=replies, state=state: algorithm.combine(state, replies, server)
        )
        found.append((f"combine {round}", declared(meter, algorithm.combine_work(replace(served, replies=2))), done))
        done = 0.0
    return found


def check(key: str, options: dict[str, Any], model: str, rounds: int) -> None:
    algorithm = plugins.kinds()[key](**{"training": TRAINING, **options})
    for half, said, done in rounds_of(algorithm, model, rounds):
        assert said == pytest.approx(done, rel=0.01), half


@pytest.mark.slow
@pytest.mark.parametrize(("key", "options"), CASES, ids=str)
def test_declared_flops_are_those_that_torch_counts(key: str, options: dict[str, Any]) -> None:
    check(key, options, "digits-cnn", rounds=4 if "interval" in options else 2)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "fedcurv-cnn"])
@pytest.mark.parametrize("key", sorted(plugins.kinds()))
def test_and_on_other_models(key: str, model: str) -> None:
    """With the options that come first, after a round that tells devices what the first one cannot."""
    check(key, OPTIONS[key][0], model, rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "mnist-cnn"])
def test_training_is_a_forward_and_a_backward_of_each_example_in_each_epoch(model: str) -> None:
    """Counted by torch on one batch of 8."""
    module = models.build(model, 0).to("meta")
    x, y = (
        torch.empty(8, *models.input_shape(model), device="meta"),
        torch.zeros(8, dtype=torch.long, device="meta"),
    )
    each, _ = counted(lambda: models.cross_entropy(module(x), y).sum().backward())
    meter = Meter(models.build(model, 0), models.input_shape(model), models.cross_entropy)
    (phase,) = FedAvg(TRAINING).device_work(Load(0, EXAMPLES, 1))
    assert meter.flops(phase) == pytest.approx(TRAINING.epochs * EXAMPLES * each / 8, rel=0.01)
