"""Rounds of a fraction of an epoch, of a number of steps, or of as many steps as a device is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.aggregation import plain_mean, weighted_mean
from algorithms.algorithm import Load, Party, Reply, Tensors, Training
from algorithms.continual import Continual
from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from algorithms.scaffold import SCAFFOLD
from algorithms.stack import train
from algorithms.training.local import batches, sgd, steps
from algorithms.training.seeding import seeded
from algorithms.uga import UGA
from tests.algorithms import made

HALF = Training(epochs=0.5, batch=4, lr=0.1, momentum=0.9)
SIZES = {"a": 5, "b": 13, "c": 9, "d": 3, "e": 13}  # 2, 4, 3, 1 and 4 batches


def net() -> nn.Sequential:
    seeded(2)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)).double()


def party(name: str, steps: int = 0) -> Party:
    return made.party(net(), name, SIZES[name], shape=(6,), draw=ord(name), seed=ord(name), steps=steps)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("n", "training", "asked", "expected"),
    [
        (13, HALF, 0, 2),  # half of 4
        (9, HALF, 0, 2),  # half of 3, rounded up
        (3, HALF, 0, 1),
        (400, replace(HALF, epochs=0.07), 0, 7),  # of 100, though 0.07 * 100 is above 7 in floats
        (13, replace(HALF, epochs=2.25), 0, 9),
        (13, replace(HALF, steps=7), 0, 7),
        (13, replace(HALF, seconds=3.0), 6, 6),
        (0, replace(HALF, steps=7), 5, 0),
        (13, replace(HALF, epochs=3), 0, 12),
    ],
)
def test_the_steps_of_a_round(n: int, training: Training, asked: int, expected: int) -> None:
    assert steps(n, training, asked) == expected
    load = Load(round=0, examples=n, parameters=10, steps=asked)
    work = FedAvg(training).device_work(load)
    assert sum(phase.epochs * -(-phase.examples // phase.batch) for phase in work) == expected


def test_whole_epochs_are_the_same_bits_by_any_count() -> None:
    start = copied(net())
    for two in (replace(HALF, steps=8), replace(HALF, epochs=2.0)):
        found, wanted = sgd(party("b"), start, two), sgd(party("b"), start, replace(HALF, epochs=2))
        assert [torch.equal(found[name], value) for name, value in wanted.items()] == [True] * len(wanted)


def test_some_steps_are_the_first_batches_of_the_round() -> None:
    model = net()
    model[2] = nn.Identity()
    device = replace(party("b", steps=6), model=model)
    found = sgd(device, copied(model), replace(HALF, seconds=1.0, momentum=0.0))
    model = net()
    model[2] = nn.Identity()
    orders = (chosen for epoch in range(9) for chosen in batches(13, 4, device.seed, epoch))
    for chosen in islice(orders, 6):
        model.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(device.x[chosen]), device.y[chosen]))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "training", [HALF, replace(HALF, epochs=1.5), replace(HALF, steps=6), replace(HALF, seconds=1.0)]
)
def test_stack_and_loop_agree(training: Training) -> None:
    own = dict(zip(SIZES, (7, 1, 3, 5, 2), strict=True)) if training.seconds else dict.fromkeys(SIZES, 0)
    algorithm, down = FedProx(training, mu=0.3), {"weights": copied(net())}
    stacked = train(algorithm, [down] * len(SIZES), [party(name, own[name]) for name in SIZES])
    for name, found in zip(SIZES, stacked, strict=True):
        alone = algorithm.train(down, party(name, own[name]))
        for key, value in alone.upload["weights"].items():
            torch.testing.assert_close(found.upload["weights"][key], value, rtol=1e-11, atol=1e-12)
        assert found.numbers["penalty_share"] == pytest.approx(alone.numbers["penalty_share"], rel=1e-9)
        assert found.leverage == pytest.approx(alone.leverage)


def test_scaffold_divides_by_the_steps_that_were_taken() -> None:
    """On a loss whose gradient is the same everywhere, the control is that gradient, however many steps there are."""

    def slope(outputs: Tensor, y: Tensor) -> Tensor:
        return outputs[:, 0] * y

    model = nn.Linear(1, 1, bias=False).double()
    x, y = torch.full((13, 1), 2.0).double(), torch.full((13,), 1.5).double()
    for told in (1, 3, 10):
        device = Party("a", 1, model, slope, x, y, 0, 0, 1, steps=told)
        reply = SCAFFOLD(replace(HALF, seconds=1.0)).train({"weights": {"weight": torch.ones(1, 1).double()}}, device)
        assert reply.if_counted["control"]["weight"].item() == pytest.approx(3.0, rel=1e-12)


def test_means_are_weighted_by_steps_if_replies_say_so() -> None:
    def reply(value: float, examples: int, weight: int) -> Reply:
        return Reply({"weights": {"w": torch.tensor([value])}}, examples, weight=weight)

    by_steps = {"a": reply(0.0, 1, 3), "b": reply(4.0, 100, 1)}
    assert weighted_mean(by_steps)["w"].item() == 1.0
    assert plain_mean(by_steps, "weights")["w"].item() == 2.0
    by_examples = {"a": reply(0.0, 1, 0), "b": reply(4.0, 3, 0)}
    assert weighted_mean(by_examples)["w"].item() == 3.0


@pytest.mark.parametrize("kind", [UGA, Continual])
@pytest.mark.parametrize("options", [{"steps": 3}, {"seconds": 2.0}, {"epochs": 1.5}])
def test_what_needs_whole_epochs_refuses_others(kind: type[FedAvg], options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"it must be (left out|a whole number)"):
        kind(Training(**options))  # type: ignore[arg-type]


def test_steps_and_seconds_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="steps is 3 and seconds 2; it must be one of the two"):
        Training(steps=3, seconds=2.0)
