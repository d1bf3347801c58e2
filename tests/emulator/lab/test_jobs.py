"""What jobs are given: each device and each round draws on its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from emulator.lab.build import lab_of
from emulator.lab.jobs import request, start, train
from emulator.lab.lab import Lab
from emulator.lab.store import NOTHING
from emulator.ledger.stores import Memory
from emulator.record.run import Run
from scenarios.load import build
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
