"""FedNova: devices with more steps do not pull the optimum to theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Training
from algorithms.fedavg import FedAvg
from algorithms.fednova import FedNova
from tests.algorithms import made

ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


def trained(algorithm: FedAvg, sizes: dict[str, int]) -> Tensors:
    server = made.party(made.cnn(torch.float64), "server")
    state: Message = {"weights": {name: value.clone() for name, value in server.model.state_dict().items()}}
    devices = {k: made.party(made.cnn(torch.float64), k, n, draw=ord(k), seed=ord(k)) for k, n in sizes.items()}
    replies = {name: algorithm.train(state, device) for name, device in devices.items()}
    return algorithm.combine(state, replies, server)["weights"]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_equal_steps_it_is_fedavg(momentum: float) -> None:
    sizes, training = {"a": 17, "b": 20, "c": 24}, replace(ROUGH, momentum=momentum)  # three steps in an epoch
    found, wanted = trained(FedNova(training), sizes), trained(FedAvg(training), sizes)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)
    other = trained(FedAvg(training), sizes | {"a": 8})
    assert not torch.allclose(trained(FedNova(training), sizes | {"a": 8})["4.weight"], other["4.weight"], rtol=1e-6)


A, C, P, STEPS = (0.5, 1.0, 4.0), (3.0, -1.0, 2.0), (2, 1, 1), (1, 4, 9)  # losses ½ a (θ - c)², examples, steps


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def fixed_point(kind: type[FedAvg], lr: float, momentum: float) -> float:
    """Where rounds of the three quadratics end: the round is affine in θ, so two rounds tell it."""
    algorithm = kind(Training(batch=1, lr=lr, steps=1, momentum=momentum))

    def round_from(theta: float) -> float:
        weights = {"weight": torch.tensor([[theta]], dtype=torch.float64)}
        replies = {}
        for k, (a, c, p, taken) in enumerate(zip(A, C, P, STEPS, strict=True)):
            model, x = nn.Linear(1, 1, bias=False).double(), torch.full((p, 1), a**0.5, dtype=torch.float64)
            device = Party(str(k), 3, model, half_square, x, c * x[:, 0], 0, 0, 1, steps=taken)
            reply: Reply = algorithm.train({"weights": weights}, device)
            replies[str(k)] = replace(reply, steps=taken)
        return algorithm.combine({"weights": weights}, replies, device)["weights"]["weight"].item()

    at_0, at_1 = round_from(0.0), round_from(1.0)
    return at_0 / (1 - (at_1 - at_0))


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_with_unequal_steps_it_ends_at_the_optimum_as_the_rate_goes_to_0(momentum: float) -> None:
    optimum = sum(p * a * c for p, a, c in zip(P, A, C, strict=True)) / sum(p * a for p, a in zip(P, A, strict=True))
    off = [abs(fixed_point(FedNova, lr, momentum) - optimum) for lr in (1e-2, 1e-3, 1e-4)]
    assert off[2] < 1e-3
    assert [off[0] / off[1], off[1] / off[2]] == pytest.approx([10, 10], rel=0.3)  # of first order in the rate
    weights = [p * a * taken for p, a, taken in zip(P, A, STEPS, strict=True)]
    if not momentum:  # FedAvg ends where each device counts as often as it steps
        biased = sum(w * c for w, c in zip(weights, C, strict=True)) / sum(weights)
        assert fixed_point(FedAvg, 1e-5, 0.0) == pytest.approx(biased, rel=1e-3)
        assert abs(biased - optimum) > 0.05


def test_a_round_by_hand() -> None:
    def reply(value: float, examples: int, steps: int) -> Reply:
        return Reply({"weights": {"weight": torch.tensor([[value]], dtype=torch.float64)}}, examples, steps=steps)

    server: Any = made.party(nn.Linear(1, 1, bias=False).double(), "server", shape=(1,))
    state: Message = {"weights": {"weight": torch.tensor([[1.0]], dtype=torch.float64)}}
    replies = {"a": reply(0.0, 3, 2), "b": reply(5.0, 1, 4)}
    # τ_eff = ¾ 2 + ¼ 4 = 2.5; changes per step: ½ down, 1 up
    found = FedNova(replace(ROUGH, momentum=0.0)).combine(state, replies, server)
    assert found["weights"]["weight"].item() == pytest.approx(1 - 2.5 * (0.75 * 0.5 - 0.25 * 1.0), rel=1e-14)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"optimizer": "adam", "momentum": 0.0}, "optimizer is 'adam'"), ({"weigh_by": "steps"}, "weigh_by is 'steps'")],
)
def test_what_has_no_reach_is_refused(options: dict[str, Any], words: Sequence[str]) -> None:
    with pytest.raises(ValueError, match=str(words)):
        FedNova(replace(ROUGH, **options))


def test_the_work_of_a_round() -> None:
    load = Load(0, examples=20, parameters=1000, replies=4)
    assert FedNova(ROUGH).device_work(load) == FedAvg(ROUGH).device_work(load)
    (combine,) = FedNova(ROUGH).combine_work(load)
    assert combine.traffic == 1000 * (4 + 1 + 3)
