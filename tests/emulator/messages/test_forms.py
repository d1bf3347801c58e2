"""The forms of a round's uploads, found with as few questions as possible."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from algorithms.algorithm import Message
from algorithms.fedavg import FedAvg
from emulator.messages.codec import encode
from emulator.messages.forms import UploadForm
from emulator.pricing.memory import uploaded
from network.wire import payload
from tests.emulator.ledger.small import TRAINING, lab

asked: list[tuple[str, int]] = []


@dataclass(frozen=True)
class Asked(FedAvg):
    """Sends as many further numbers as the round has."""

    name: str = field(default="one")

    def upload_form(self, round: int, model: nn.Module) -> Message:
        asked.append((self.name, round))
        form = super().upload_form(round, model)
        return {**form, "further": {"values": torch.zeros(round, 2), "count": torch.zeros((), dtype=torch.int64)}}


@pytest.fixture
def two() -> Any:
    asked.clear()
    return lab(algorithms={name: Asked(TRAINING, name) for name in ("one", "other")})


def test_an_algorithm_is_asked_once_for_a_round_and_not_before_somebody_looks(two: Any) -> None:
    forms = [two.upload_form("one", 3) for _ in range(3)]
    assert asked == []
    assert [form.shapes["further"]["values"] for form in forms] == [("float32", (3, 2))] * 3
    assert two.upload_form("other", 3).shapes["further"]["values"] == ("float32", (3, 2))
    assert two.upload_form("one", 4).shapes["further"]["values"] == ("float32", (4, 2))
    assert asked == [("one", 3), ("other", 3), ("one", 4)]


def test_its_sizes_are_those_of_an_upload(two: Any) -> None:
    upload = Asked(TRAINING).upload_form(5, two.module)
    form = two.upload_form("one", 5)
    assert form.sizes == encode(upload).sizes
    assert form.nbytes == encode(upload).nbytes
    assert form.values_of("further") == 5 * 2 * 4 + 8
    assert uploaded(two, "one", 5) == 5 * 2 * 4 + 8


def test_beside_the_weights_fedavg_sends_nothing_and_need_not_be_asked() -> None:
    def never() -> payload.Shapes:
        raise AssertionError

    plain = lab(algorithms={"mine": FedAvg(TRAINING)})
    plain._forms["mine"] = 1, UploadForm(never)
    assert uploaded(plain, "mine", 1) == 0


def test_a_lab_that_knows_forms_can_travel(two: Any) -> None:
    form = two.upload_form("one", 2)
    assert form.nbytes
    there = pickle.loads(pickle.dumps(two))
    assert there.upload_form("one", 2).shapes == form.shapes
