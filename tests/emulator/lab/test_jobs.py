"""The arguments of jobs: each device and each round has its own random draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from algorithms.algorithm import Message, Party, Reply, Request
from algorithms.fedavg import FedAvg
from emulator.lab.build import lab_of
from emulator.lab.guarded import Guarded
from emulator.lab.jobs import State, combine, request, start
from emulator.lab.lab import Lab
from emulator.lab.training import _drifts_of, train
from emulator.messages.codec import decode
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING
from emulator.record.run import Run
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import SMALL

RUN = Run("fedavg", 1)
SEEDS: list[int] = []


@dataclass(frozen=True)
class Listening(FedAvg):
    """FedAvg that notes the seed of whoever trains."""

    def train(self, download: Message, device: Party) -> Reply:
        SEEDS.append(device.seed)
        return super().train(download, device)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return lab_of(build(SMALL))


@pytest.fixture
def listening(lab: Lab) -> Lab:
    SEEDS.clear()
    training = lab.algorithms["fedavg"].training
    return replace(lab, algorithms={"fedavg": Listening(training)})


def upload(lab: Lab, device: str, round: int) -> str:
    store = Memory()
    weights = request(lab, store, RUN, 0, start(lab, store, RUN).message, (device,)).download
    return train(lab, store, RUN, device, round, weights.ref, NOTHING, False).upload.ref.digest


@pytest.mark.slow
def test_each_device_and_each_round_has_a_seed_of_its_own_and_always_the_same(listening: Lab) -> None:
    cases = [(name, round) for name in sorted(listening.fleet)[:2] for round in (0, 1)]
    for name, round in [*cases, *cases]:
        upload(listening, name, round)
    assert len(set(SEEDS)) == len(cases)
    assert SEEDS[: len(cases)] == SEEDS[len(cases) :]


@pytest.mark.slow
def test_the_order_of_the_batches_is_another_one_in_another_round(lab: Lab) -> None:
    name = min(lab.fleet)
    updates: list[Any] = [upload(lab, name, round) for round in (0, 1, 0)]
    assert updates[0] == updates[2] != updates[1]


@dataclass(frozen=True)
class Own(FedAvg):
    """FedAvg, whose requests and means are its own: the model is negated on its way down."""

    def request(self, state: Message, names: Any, server: Party) -> Request:
        return Request({"weights": {name: -value for name, value in state["weights"].items()}})

    def combine(self, state: Message, replies: Any, server: Party) -> Message:
        return {"weights": {name: 2 * value for name, value in state["weights"].items()}}


def guarded(lab: Lab, kind: type[FedAvg]) -> Lab:
    return replace(lab, algorithms={"fedavg": Guarded("fedavg", kind(lab.algorithms["fedavg"].training))})


def a_round(lab: Lab, store: Memory) -> tuple[Message, Any, State]:
    """The download, as a message and as it is stored, and the state after it; one device trains."""
    before, name = start(lab, store, RUN), min(lab.fleet)
    down = request(lab, store, RUN, 0, before.message, (name,)).download
    done = train(lab, store, RUN, name, 0, down.ref, NOTHING, False)
    after = combine(lab, store, RUN, 0, before.message, {name: (done.upload.ref, done.examples)}, down.ref)
    return decode(store.get(down.ref)), down, after


@pytest.mark.slow
def test_an_algorithm_that_changes_it_on_its_way_is_asked(lab: Lab) -> None:
    mine, store = guarded(lab, Own), Memory()
    model = decode(store.get(start(mine, store, RUN).weights))["weights"]
    sent, _, after = a_round(mine, store)
    new = decode(store.get(after.weights))["weights"]
    assert all_of((sent["weights"][name] == -value).all() for name, value in model.items())
    assert all_of((new[name] == 2 * value).all() for name, value in model.items())


@pytest.mark.slow
def test_a_model_that_loses_on_its_way_is_encoded(lab: Lab) -> None:
    store = Memory()
    lossy = replace(guarded(lab, FedAvg), down={"fedavg": {"weights": "bfloat16"}})
    before = start(lossy, store, RUN)
    down = request(lossy, store, RUN, 0, before.message, lab.names[:1]).download
    assert (
        down.sizes["weights"] * 2
        == request(lab, store, RUN, 0, before.message, lab.names[:1]).download.sizes["weights"]
    )


def test_drift_is_how_far_all_parameters_have_gone_together() -> None:
    """Also those that are one number: sqrt(2² + 1² + 2²) = 3."""
    base = {"a": torch.tensor(1.0), "b": torch.zeros(1, 2)}
    far = {"a": torch.tensor(3.0), "b": torch.tensor([[1.0, -2.0]])}
    assert _drifts_of([(far, base), (base, base)], ["a", "b"]) == [{"drift": 3.0}, {"drift": 0.0}]
    assert _drifts_of([(far, base)], []) == [{}]
