"""The optimisers of local training, against torch.optim's own, in a loop over the same batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Load, Party, Tensors, Training
from algorithms.counting.cost import optimizer_traffic
from algorithms.fedavg import FedAvg
from algorithms.scaffold import SCAFFOLD
from algorithms.training import stack_sgd
from algorithms.training.local import Quadratic, Sgd, batches, sgd
from algorithms.training.optimizers import state_floats
from algorithms.training.seeding import seeded
from algorithms.uga import UGA
from tests.algorithms import made

BASE = Training(epochs=2, batch=4, lr=0.03)
NAG = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.02}
CASES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [  # ours, torch's class, its options
    ({**NAG}, "SGD", NAG),
    ({"optimizer": "adam", "weight_decay": 0.02}, "Adam", {"weight_decay": 0.02}),
    ({"optimizer": "adamw", "weight_decay": 0.02}, "AdamW", {"weight_decay": 0.02}),
    ({"momentum": 0.5, "weight_decay": 0.02, "clip_norm": 0.3}, "SGD", {"momentum": 0.5, "weight_decay": 0.02}),
    ({"optimizer": "adamw", "clip_norm": 0.3, "weight_decay": 0.1}, "AdamW", {"weight_decay": 0.1}),
    ({"optimizer": "torch.optim:RMSprop", "momentum": 0.4}, "RMSprop", {"momentum": 0.4}),
]
SIZES = {"a": 5, "b": 13, "c": 8}  # examples: 2, 4 and 2 steps in an epoch


def net() -> nn.Sequential:
    seeded(2)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def party(name: str) -> Party:
    return made.party(net(), name, SIZES[name], shape=(6,), draw=ord(name), round=1, seed=ord(name))


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def by_torch(device: Party, training: Training, kind: str, options: dict[str, Any], strength: float) -> Tensors:
    """The weights after a loop of torch's own: loss and penalty, backward, clipping, step."""
    model = net()
    anchor = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=training.lr, foreach=False, **options)
    for epoch in range(training.epochs):
        for chosen in batches(len(device.y), training.batch, device.seed, epoch):
            optimizer.zero_grad()
            pairs = zip(model.parameters(), anchor, strict=True)
            penalty = sum((((p - a) ** 2).sum() for p, a in pairs), torch.tensor(0.0))
            loss: Tensor = F.cross_entropy(model(device.x[chosen]), device.y[chosen]) + strength * penalty
            torch.autograd.backward(loss)
            if training.clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizer.step()
    return copied(model)


def close(found: Tensors, wanted: Tensors) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


@pytest.mark.slow  # torch.optim imports its compiler
@pytest.mark.parametrize(("ours", "kind", "options"), CASES)
def test_the_loop_and_the_stack_are_torchs_own(ours: dict[str, Any], kind: str, options: dict[str, Any]) -> None:
    training, devices = replace(BASE, **ours), [party(name) for name in SIZES]
    start = copied(net())
    pulls = (Quadratic(start, 0.2),)
    wanted = [by_torch(device, training, kind, options, 0.2) for device in devices]
    for device, its in zip(devices, wanted, strict=True):
        close(sgd(device, start, training, pulls[0]), its)
    for found, its in zip(stack_sgd.sgd([Sgd(each, start, training, pulls) for each in devices]), wanted, strict=True):
        close(found, its)


@pytest.mark.slow  # torch.optim imports its compiler
def test_clipping_changes_something_and_so_does_each_option() -> None:
    start, device = copied(net()), party("b")
    ends = [sgd(device, start, replace(BASE, **ours))["0.weight"] for ours, _, _ in CASES]
    ends += [sgd(device, start, BASE)["0.weight"], sgd(device, start, replace(BASE, momentum=0.9))["0.weight"]]
    assert len({tuple(end.flatten().tolist()) for end in ends}) == len(ends)


class Twice(nn.Module):
    """Two parameters that are only added: autograd gives both the same gradient in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Parameter(torch.full((3,), value, dtype=torch.float64)) for value in (0.1, -0.4))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :3] * (self.one + self.two)


@pytest.mark.parametrize("training", [BASE, replace(BASE, clip_norm=0.1)])
def test_parameters_that_share_a_gradient_are_pulled_and_clipped_once(training: Training) -> None:
    model = Twice()
    start = copied(model)
    devices = [replace(party(name), model=model) for name in SIZES]
    tasks = [
        Sgd(device, start, training, (Quadratic({n: 0 * v for n, v in start.items()}, 0.3),)) for device in devices
    ]
    for found, task in zip(stack_sgd.sgd(tasks), tasks, strict=True):
        close(found, task.alone())


def lars(parameters: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
    """An optimiser that joins the values of a parameter, so that a stack must not join its devices."""
    return Lars(parameters, {"lr": lr})


class Lars(torch.optim.Optimizer):
    def step(self, closure: Any = None) -> None:
        assert closure is None
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter]["trust"] = trust = parameter.norm() / (parameter.grad.norm() + 1e-9)
                parameter.sub_(self.param_groups[0]["lr"] * trust * parameter.grad)


def nothing(parameters: Iterable[Tensor], lr: float) -> float:
    assert parameters
    return lr


@pytest.mark.slow  # torch.optim imports its compiler
def test_an_optimiser_of_one_s_own_sees_one_device_in_a_stack() -> None:
    training = replace(BASE, optimizer=f"{__name__}:lars")
    start, devices = copied(net()), [party(name) for name in SIZES]
    for found, device in zip(stack_sgd.sgd([Sgd(each, start, training) for each in devices]), devices, strict=True):
        close(found, sgd(device, start, training))


def test_what_is_no_optimiser_is_refused() -> None:
    with pytest.raises(TypeError, match="returned a float; it must be a torch.optim.Optimizer"):
        sgd(party("a"), copied(net()), replace(BASE, optimizer=f"{__name__}:nothing"))


@pytest.mark.slow  # torch.optim imports its compiler
@pytest.mark.parametrize(
    ("options", "state", "moved"),
    [
        ({}, 0, 3),  # parameter and gradient read, parameter written
        ({"momentum": 0.9, "nesterov": True}, 1, 5),  # and the momentum read and written
        ({"optimizer": "adam"}, 2, 7),  # and both moments
        ({"optimizer": "adamw", "clip_norm": 1.0}, 2, 10),  # and the gradient read for its norm, read and written
        ({"optimizer": "torch.optim:Adagrad"}, 1, 5),
        ({"optimizer": f"{__name__}:lars"}, 0, 3),  # a number for each parameter is none for each of its values
    ],
)
def test_the_state_is_charged_in_memory_and_in_traffic(options: dict[str, Any], state: float, moved: float) -> None:
    training = replace(BASE, **options)
    assert state_floats(training) == state
    assert optimizer_traffic(100, training) == 100 * moved
    (phase,) = FedAvg(training).device_work(Load(round=0, examples=20, parameters=100))
    assert phase.traffic == 100 * moved


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": "adm"}, "optimizer is 'adm'; it must be 'sgd', 'adam' or 'adamw', or your own as package"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum is 0.9; adam has none, so it must be 0"),
        ({"nesterov": True}, "nesterov is true and momentum is 0; it must be above"),
        ({"clip_norm": -1.0}, "clip_norm is -1.0; it must be 0 or more"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(BASE, **options)


@pytest.mark.parametrize("options", [{"optimizer": "adam"}, {"momentum": 0.9, "nesterov": True}, {"clip_norm": 1.0}])
@pytest.mark.parametrize("kind", [UGA, SCAFFOLD])
def test_formulas_that_rest_on_sgd_refuse_other_optimisers(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be ('sgd'|False|0.0)"):
        kind(replace(BASE, **options))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_only_sgd_has_a_leverage(optimizer: str) -> None:
    from algorithms.fedprox import FedProx

    reply = FedProx(replace(BASE, optimizer=optimizer), mu=0.4).train({"weights": copied(net())}, party("a"))
    assert bool(reply.leverage) == (optimizer == "sgd")
    assert reply.numbers["penalty_share"] > 0
