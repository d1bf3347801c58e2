"""Devices of one stack that are unlike, in a user's penalty or a layer to train, say.  Each is as it is alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from algorithms import models, stack
from algorithms.algorithm import Message, Party, Reply, Tensors, Training
from algorithms.course import Course
from algorithms.fedavg import FedAvg
from algorithms.importance.importance import Kind, estimating
from algorithms.training import local
from algorithms.training.local import Quadratic, Sgd, pull, seeded
from algorithms.training.pulls import form
from tests.algorithms import made

TRAINING = Training(epochs=2, batch=4, lr=0.1, momentum=0.9, weight_decay=0.01)
SIZES = {"a": 5, "b": 12, "c": 1, "d": 12, "e": 9}
SOME = ["a", "bc", "bcde", "abcd"]  # the devices that are otherwise


def net() -> nn.Sequential:
    seeded(2)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)).double()


def weights_of(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def party(name: str, model: nn.Module) -> Party:
    given = {"draw": sum(name.encode()), "round": 3, "cycle": 3, "seed": ord(name)}
    return made.party(model, name, SIZES[name], shape=(6,), fleet=tuple(SIZES), **given)


def omega(seed: int) -> Tensors:
    draw = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(value.shape, generator=draw, dtype=torch.float64) for name, value in weights_of(net()).items()
    }


def near(found: Tensors, wanted: Tensors) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert (found[name] - value).abs().max() <= 1e-10 * value.abs().max(), name


def alike(algorithm: Any, downloads: Sequence[Message], devices: Sequence[Party]) -> None:
    """Each reply of the stack is that of the device alone."""
    found = stack.train(algorithm, downloads, devices)
    assert len(found) == len(devices)
    for reply, download, device in zip(found, downloads, devices, strict=True):
        wanted = algorithm.train(download, device)
        for part in ("upload", "memory"):
            assert getattr(reply, part).keys() == getattr(wanted, part).keys()
            for kind, tensors in getattr(wanted, part).items():
                near(getattr(reply, part)[kind], tensors)
        assert reply.leverage == pytest.approx(wanted.leverage, rel=1e-10)
        assert reply.numbers == pytest.approx(wanted.numbers, rel=1e-10)


@dataclass(frozen=True)
class Spring:
    """A user's penalty, coordinate by coordinate; what is None there is not there."""

    coordinatewise: ClassVar[bool] = True

    anchor: Tensors
    only: Tensors | None = None
    factor: Tensor | None = None
    factors: dict[str, float] | None = None
    strength: float = 0.2
    importance: None = None

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        difference = parameter - self.anchor.get(name, torch.zeros(()))
        if self.factor is not None:
            difference = difference * self.factor
        if self.factors is not None:
            difference = difference * self.factors[name]
        pull(grad, difference, self.strength, None if self.only is None else self.only.get(name))

    def value(self, weights: Tensors) -> float:
        return sum(float(value.square().sum()) for value in weights.values())


@dataclass(frozen=True)
class Own(FedAvg):
    """Some devices have one penalty, all others another."""

    some: frozenset[str] = frozenset()
    one: Callable[[Tensors], Any] = lambda weights: None
    other: Callable[[Tensors], Any] = lambda weights: None

    def penalty(self, download: Message, device: Party) -> Any:
        return (self.one if device.name in self.some else self.other)(download["weights"])


def first_layer(weights: Tensors) -> Tensors:
    return {name: value for name, value in weights.items() if name.startswith("0.")}


PENALTIES: dict[str, tuple[Callable[[Tensors], Any], Callable[[Tensors], Any]]] = {
    "a penalty or none": (lambda w: Quadratic(w, 0.1), lambda w: None),
    "Ω or none": (lambda w: Quadratic(w, 0.1, omega(1)), lambda w: Quadratic(w, 0.1)),
    "other strengths": (lambda w: Quadratic(w, 0.1, omega(1)), lambda w: Quadratic(w, 0.3, omega(1))),
    "other values": (lambda w: Quadratic(w, 0.1, omega(1)), lambda w: Quadratic(w, 0.1, omega(2))),
    "other classes": (Spring, lambda w: Quadratic(w, 0.1)),
    "of some parameters": (lambda w: Spring(first_layer(w)), Spring),
    "Ω of some parameters": (lambda w: Spring(w, only=first_layer(omega(1))), lambda w: Spring(w, only=omega(1))),
    "Ω of other shapes": (
        lambda w: Spring(w, only={name: value.mean() for name, value in omega(1).items()}),
        lambda w: Spring(w, only=omega(1)),
    ),
    "no tensors by name at all": (lambda w: Spring(w, only={}), Spring),
    "a tensor by itself": (lambda w: Spring(w, factor=torch.tensor(2.0)), lambda w: Spring(w)),
    "many tensors by themselves": (
        lambda w: Spring(w, factor=torch.ones(1)),
        lambda w: Spring(w, factor=torch.ones(1) / 2),
    ),
    "numbers by name": (
        lambda w: Spring(w, factors=dict.fromkeys(w, 0.5)),
        lambda w: Spring(w, factors=dict.fromkeys(w, 2.0)),
    ),
}


@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize("which", PENALTIES)
def test_penalties_of_one_algorithm_may_differ_in_anything(which: str, some: str) -> None:
    model = net()
    algorithm = Own(TRAINING, frozenset(some), *PENALTIES[which])
    alike(algorithm, [{"weights": weights_of(net())}] * len(SIZES), [party(name, model) for name in SIZES])


def test_only_those_that_differ_in_their_tensors_values_have_one_form() -> None:
    weights = weights_of(net())
    assert form(Quadratic(weights, 0.1)) == form(Quadratic(omega(1), 0.2))
    unlike = [
        Quadratic(weights, 0.1),
        Quadratic(weights, 0.1, omega(1)),
        Quadratic(weights, 0.1, first_layer(omega(1))),
        Quadratic({name: value.float() for name, value in weights.items()}, 0.1),
        Spring(weights),
    ]
    assert len(set(map(form, unlike))) == len(unlike)


def test_those_of_one_form_are_trained_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices with Ω and three without: two trainings of the stack, and none of a device alone."""
    sizes: list[int] = []
    joint = stack.JOINT[Sgd]

    def counted(tasks: Sequence[Sgd]) -> list[Tensors]:
        sizes.append(len(tasks))
        return joint(tasks)

    monkeypatch.setattr(stack, "JOINT", {Sgd: counted})
    monkeypatch.setattr(local, "sgd", None)
    algorithm, model = Own(TRAINING, frozenset("bd"), *PENALTIES["Ω or none"]), net()
    stack.train(algorithm, [{"weights": weights_of(net())}] * len(SIZES), [party(name, model) for name in SIZES])
    assert sorted(sizes) == [2, 3]


# ---- networks, losses and rounds


KINDS: Sequence[Kind] = ("sq", "mas", "true", "batch_squared")


@dataclass(frozen=True)
class Changed(FedAvg):
    """Device d trains, and estimates, on what `change` makes of it."""

    change: Callable[[Party], Party] = lambda device: device

    def course(self, download: Message, device: Party) -> Course[Reply]:
        own = self.change(device) if device.name == "d" else device
        trained = yield Sgd(own, download["weights"], self.training)
        found: Message = {}
        for kind in KINDS:
            found[kind] = yield from estimating(own, trained, kind, batch=3)
        return Reply({"weights": trained, **found}, len(device.y))


def frozen(device: Party) -> Party:
    model = net()
    model[0].requires_grad_(False)
    return replace(device, model=model)


def sharper(outputs: Tensor, y: Tensor) -> Tensor:
    return models.cross_entropy(3 * outputs, y)


class Rectified(nn.Tanh):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


def rectified(device: Party) -> Party:
    model = net()
    model[1] = Rectified()
    return replace(device, model=model)


CHANGES: dict[str, Callable[[Party], Party]] = {
    "a frozen layer": frozen,
    "another layer": rectified,
    "another loss": lambda device: replace(device, loss=sharper),
    "another round": lambda device: replace(device, round=7),
}


@pytest.mark.parametrize("which", CHANGES)
def test_a_device_may_change_what_it_trains(which: str) -> None:
    algorithm, model = Changed(replace(TRAINING, lr_decay=0.5), CHANGES[which]), net()
    alike(algorithm, [{"weights": weights_of(net())}] * len(SIZES), [party(name, model) for name in SIZES])


class Shifted(nn.Module):
    """With a buffer that is not the same on all devices."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        seeded(3)
        self.dense = nn.Linear(6, 3)
        self.register_buffer("shift", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.dense(x + self.shift).tanh()
        return outputs


@pytest.mark.parametrize("kind", ["sq", "batch_squared"])
def test_importance_is_taken_with_each_devices_own_buffers(kind: Any) -> None:
    model = Shifted().double()
    downloads: list[Message] = [
        {"weights": {**weights_of(model), "shift": torch.full((6,), float(k), dtype=torch.float64)}} for k in range(5)
    ]
    algorithm = Estimates(TRAINING, kind)
    alike(algorithm, downloads, [party(name, model) for name in SIZES])


@dataclass(frozen=True)
class Estimates(FedAvg):
    kind: Any = "sq"

    def course(self, download: Message, device: Party) -> Course[Reply]:
        found = yield from estimating(device, download["weights"], self.kind, batch=3)
        return Reply({"weights": found}, len(device.y))


# ---- errors


@dataclass(frozen=True)
class Failing(Quadratic):
    fails: bool = False

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        if self.fails:
            raise ValueError("no gradient of mine")
        super().__call__(name, parameter, grad)


@dataclass(frozen=True)
class Told(Own):
    def course(self, download: Message, device: Party) -> Course[Reply]:
        try:
            return (yield from super().course(download, device))
        except ValueError as error:
            raise ValueError(f"{device.name}: {error}") from None


@pytest.mark.parametrize("some", ["c", "de"])
def test_an_error_is_told_of_a_device_that_has_it(some: str) -> None:
    ways = {"one": lambda w: Failing(w, 0.1, fails=True), "other": lambda w: Failing(w, 0.1)}
    algorithm, model = Told(TRAINING, frozenset(some), **ways), net()
    with pytest.raises(ValueError, match=f"^{some[0]}: no gradient of mine$"):
        stack.train(algorithm, [{"weights": weights_of(net())}] * len(SIZES), [party(name, model) for name in SIZES])
