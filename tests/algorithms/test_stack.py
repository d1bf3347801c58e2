"""What a stack is, and what it leaves alone.  That it computes what the papers say: test_stack_oracle.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from algorithms import stack
from algorithms.agentimportance import AgentImportance
from algorithms.algorithm import Message, Party, Reply, Tensors, Training
from algorithms.fedavg import FedAvg, stackable
from algorithms.fedcurv import FedCurv
from algorithms.fedmeta import FedMeta
from algorithms.importance import importance
from algorithms.training import local
from algorithms.training.local import Quadratic
from algorithms.training.seeding import seeded
from algorithms.training.stack_batches import stacked
from scenarios.builders import plugins
from tests.algorithms import made
from tests.all_of import all_of

ROUGH = Training(epochs=2, batch=4, lr=0.1, lr_decay=0.9, momentum=0.9, weight_decay=0.01)
PLAIN = replace(ROUGH, momentum=0.0, weight_decay=0.0)
SHARDS = {"a": 5, "b": 12, "c": 1, "d": 12, "e": 9}  # examples: 2, 3, 1, 3 and 3 batches, some of them short

OPTIONS: Mapping[str, Sequence[dict[str, Any]]] = {  # of the algorithms that can be stacked
    "fedavg": [{}, {"training": PLAIN}],
    "fedprox": [{"mu": 0.3}, {"mu": 0.3, "training": PLAIN}],
    "fedcl": [
        {},
        *({"interval": 2, "fallback": how} for how in ("keep_last", "identity", "catch_up", "local_estimate")),
        *({"importance": kind, "interval": 2, "fallback": "local_estimate"} for kind in ("tensor_scalar", "mas", "sq")),
        *({"interval": 2, "fallback": "local_estimate", "placebo": placebo} for placebo in ("shuffled", "mean")),
    ],
    "fedcurv": [
        {},
        *({"fisher": fisher} for fisher in ("exact", "sampled", "batch_squared")),
        {"upload": "lean"},
        {"centred": True},
        {"participation": "last_round", "keep": 0.5},
        *({"placebo": placebo, "upload": upload} for placebo in ("shuffled", "mean") for upload in ("paper", "lean")),
    ],
    "agentimportance": [
        {},
        {"importance": "rwalk", "window": 3},
        {"weigh_by": "raw", "threshold": 0.1},
        {"fisher": "mean_squared", "from_zero": True},
    ],
    "scaffold": [{}, {"training": PLAIN}],
    "fednova": [{}],
    "feddyn": [{}, {"training": PLAIN}],
    "ditto": [{}, {"strength": 0.0}],
    "fedshare": [{}, {"split": "per_client"}],
    "fedmeta": [{}, {"meta": "epoch"}],
    "fedavgm": [{}],
    "fedadam": [{}],
    "fedyogi": [{}],
    "continual": [
        {"variant": variant, "personal": "2.*", "training": replace(ROUGH, per_cycle=2)}
        for variant in ("baseline", "alg0", "alg1", "alg2")
    ],
}


def net() -> nn.Sequential:
    seeded(2)
    layers = nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 7), nn.Tanh(), nn.Dropout(0.2), nn.Linear(7, 3)
    return nn.Sequential(*layers).double()


def party(name: str, round: int, memory: Message, model: nn.Module | None = None) -> Party:
    given = {"draw": sum(name.encode()), "round": round, "cycle": round, "seed": 10 * round + ord(name[0])}
    return made.party(
        model or net(), name, SHARDS.get(name, 10), shape=(6,), memory=memory, fleet=tuple(SHARDS), **given
    )


def played(algorithm: Any, rounds: int = 3) -> list[tuple[list[Message], list[Party]]]:
    """The arguments of the trainings of these rounds; each device has its own download and memory."""
    server = party("server", 0, {})
    state = algorithm.start({name: value.clone() for name, value in net().state_dict().items()}, server)
    kept: dict[str, Message] = {name: {} for name in SHARDS}
    given = []
    for number in range(rounds):
        request = algorithm.request(state, tuple(SHARDS), party("server", number, {}))
        downloads = [{**request.download, **request.extra.get(name, {})} for name in SHARDS]
        given.append((downloads, [party(name, number, kept[name]) for name in SHARDS]))
        replies = dict(zip(SHARDS, map(algorithm.train, *given[-1]), strict=True))
        state = algorithm.combine(state, {name: replies[name] for name in "bcd"}, party("server", number, {}))
        for name, reply in replies.items():
            kept[name] = kept[name] | reply.memory | (reply.if_counted if name in "bcd" else {})
    return given


def close(found: Tensor, wanted: Tensor) -> bool:
    """To 1e-10 of the largest."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    largest = wanted.abs().max() if wanted.numel() else 1.0
    return bool(((found - wanted).abs() <= 1e-10 * largest).all())


def equal(found: Mapping[str, Tensors], wanted: Mapping[str, Tensors]) -> None:
    assert {kind: list(of) for kind, of in found.items()} == {kind: list(of) for kind, of in wanted.items()}
    for kind, of in wanted.items():
        for name, value in of.items():
            assert close(found[kind][name], value), (kind, name)


def same(found: Reply, wanted: Reply) -> None:
    assert wanted.upload
    for part in ("upload", "memory", "if_counted"):
        equal(getattr(found, part), getattr(wanted, part))
    equal({"model": found.model}, {"model": wanted.model})
    assert found.examples == wanted.examples
    assert found.leverage == pytest.approx(wanted.leverage, rel=1e-10)
    assert found.numbers == pytest.approx(wanted.numbers, rel=1e-10)


@pytest.mark.parametrize(
    ("key", "still"), [("fedprox", {"mu": 0.0}), ("fedcl", {"strength": 0.0}), ("fedcurv", {"strength": 0.0})], ids=str
)
def test_without_strength_a_stack_is_fedavgs_to_the_bit(key: str, still: dict[str, float]) -> None:
    for downloads, devices in played(plugins.kinds()[key](ROUGH, **still)):
        found = stack.train(plugins.kinds()[key](ROUGH, **still), downloads, devices)
        plain = stack.train(FedAvg(ROUGH), downloads, devices)
        for reply, wanted in zip(found, plain, strict=True):
            weights = reply.upload["weights"]
            assert all_of(torch.equal(weights[name], value) for name, value in wanted.upload["weights"].items())


@dataclass(frozen=True)
class Some(FedAvg):
    """An algorithm in which only some devices have a penalty, each with its own strength."""

    def penalty(self, download: Message, device: Party) -> Quadratic | None:
        return None if device.name == "b" else Quadratic(download["weights"], len(device.y) / 50)


@dataclass(frozen=True)
class Trains(FedAvg):
    downloads: ClassVar[tuple[str, ...]] = ("weights",)

    def train(self, download: Message, device: Party) -> Reply:
        return super().train(download, device)


def test_one_that_overrides_only_the_penalty_is_stackable() -> None:
    assert stackable(Some)


def test_one_that_overrides_train_is_not() -> None:
    assert not stackable(Trains)
    assert not stackable(Trains(ROUGH))


def test_fedmeta_is_stacked_if_its_clients_are() -> None:
    assert stackable(FedMeta(ROUGH))
    assert not stackable(FedMeta(ROUGH, clients="uga"))


def test_a_stack_is_one_training(monkeypatch: pytest.MonkeyPatch) -> None:
    ((downloads, devices),) = played(FedAvg(ROUGH), rounds=1)
    monkeypatch.setattr(local, "sgd", None)  # the loop
    assert len(stack.train(FedAvg(ROUGH), downloads, devices)) == len(SHARDS)


@pytest.mark.parametrize("fisher", ["empirical", "exact", "sampled", "batch_squared"])
def test_so_is_the_importance_of_all_its_devices(monkeypatch: pytest.MonkeyPatch, fisher: str) -> None:
    algorithm: Any = FedCurv(ROUGH, fisher=fisher)  # type: ignore[arg-type]
    ((downloads, devices),) = played(algorithm, rounds=1)
    monkeypatch.setattr(importance.Summed, "alone", None)
    monkeypatch.setattr(importance.BatchSquares, "alone", None)
    assert len(stack.train(algorithm, downloads, devices)) == len(SHARDS)


def test_so_is_the_squared_gradient_of_the_mean_loss_of_all_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a linear softmax, by hand: ((p - 1_y)ᵀ x / n)², whatever the chunks of 64 that the examples come in."""
    model, sizes = nn.Linear(6, 3).double(), (3, 130, 70)
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    devices = [made.party(model, n=n, draw=n, shape=(6,)) for n in sizes]
    downloads = [{"weights": weights} for _ in sizes]
    monkeypatch.setattr(importance.Slope, "alone", None)
    still = AgentImportance(replace(PLAIN, lr=0.0), fisher="mean_squared")
    for reply, device in zip(stack.train(still, downloads, devices), devices, strict=True):
        wrong = (device.x @ weights["weight"].T + weights["bias"]).softmax(1) - nn.functional.one_hot(device.y, 3)
        found, n = reply.upload["fisher"], len(device.y)
        torch.testing.assert_close(found["weight"], (wrong.T @ device.x / n).square(), rtol=1e-12, atol=1e-18)
        torch.testing.assert_close(found["bias"], wrong.mean(0).square(), rtol=1e-12, atol=1e-18)


def conv_net() -> nn.Sequential:
    seeded(3)
    layers = nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1)
    return nn.Sequential(*layers, nn.Dropout(0.4), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(36, 3)).double()


def test_dropout_of_images_is_drawn_in_the_loops_order() -> None:
    model = conv_net()
    down = {"weights": {name: value.clone() for name, value in model.state_dict().items()}}
    devices = [party(name, 0, {}, model) for name in SHARDS]
    for reply, device in zip(stack.train(FedAvg(ROUGH), [down] * len(devices), devices), devices, strict=True):
        same(reply, FedAvg(ROUGH).train(down, device))


class Unreached(nn.Module):
    """With a layer that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.spare = nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(x)
        return outputs


@pytest.mark.parametrize("kind", [FedAvg, Some])
def test_parameters_that_the_loss_does_not_reach_are_left_to_the_penalty(kind: type[FedAvg]) -> None:
    model = Unreached().double()
    down = {"weights": {name: value.clone() for name, value in model.state_dict().items()}}
    devices = [party(name, 0, {}, model) for name in SHARDS]
    for reply, device in zip(stack.train(kind(ROUGH), [down] * len(devices), devices), devices, strict=True):
        same(reply, kind(ROUGH).train(down, device))


def test_what_some_devices_share_is_theirs_alone() -> None:
    """One tensor for all is not copied; where one device has another, each row is that device's own."""
    shared, own = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert stacked([shared, shared]).untyped_storage().data_ptr() == shared.untyped_storage().data_ptr()
    for values in ([shared, shared, own], [shared, own, shared], [own, shared, shared]):
        assert stacked(values).tolist() == [value.tolist() for value in values]


def test_what_a_stack_is_given_stays_as_it_is() -> None:
    ((downloads, devices),) = played(FedAvg(ROUGH), rounds=1)
    before = {name: value.clone() for name, value in downloads[0]["weights"].items()}
    stack.train(FedAvg(ROUGH), [downloads[0]] * len(devices), devices)
    assert all_of(torch.equal(downloads[0]["weights"][name], value) for name, value in before.items())


@dataclass(frozen=True)
class Broken(FedAvg):
    def penalty(self, download: Message, device: Party) -> None:
        if device.name == "d":
            raise ValueError("d has none")


def test_the_error_of_a_device_ends_its_stack() -> None:
    ((downloads, devices),) = played(FedAvg(ROUGH), rounds=1)
    with pytest.raises(ValueError, match="d has none"):
        stack.train(Broken(ROUGH), downloads, devices)
