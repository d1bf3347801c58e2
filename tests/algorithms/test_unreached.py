"""Parameters that the loss does not reach: their gradient is 0, and all else is as in the network without them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Party, Phase, Training
from algorithms.counting.cost import Meter
from algorithms.fedmeta import FedMeta
from algorithms.importance.importance import Kind, importance
from algorithms.models import cross_entropy
from algorithms.uga import UGA
from tests.algorithms import made
from tests.all_of import all_of

TRAINING = Training(epochs=3, batch=4, lr=0.1, momentum=0.5)


class Net(nn.Module):
    """One dense layer that is used, and another one that is not."""

    def __init__(self, spare: bool) -> None:
        super().__init__()
        self.head = nn.Linear(6, 10)
        if spare:
            self.spare = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(torch.tanh(x))
        return outputs


def party(spare: bool) -> Party:
    return made.party(Net(spare), n=10, draw=3, shape=(6,), classes=10, devices=1, seed=1)


def weights(spare: bool) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(4)
    found = {name: torch.randn(value.shape, generator=draw) for name, value in Net(False).state_dict().items()}
    return found | ({"spare.weight": torch.ones(2, 3), "spare.bias": torch.ones(2)} if spare else {})


@pytest.mark.parametrize("options", [{}, {"first_order": True}, {"mu": 0.1}, {"budget_mb": 0.0}], ids=str)
def test_keep_trace_takes_their_gradient_to_be_0(options: dict[str, float]) -> None:
    algorithm = UGA(TRAINING, **options)  # type: ignore[arg-type]
    found, without = (
        algorithm.train({"weights": weights(spare)}, party(spare)).upload["gradient"] for spare in (True, False)
    )
    assert all_of(torch.equal(found[name], value) for name, value in without.items())
    assert all(not found[name].any() for name in ("spare.weight", "spare.bias"))


@pytest.mark.parametrize("clients", ["fedavg", "uga"])
@pytest.mark.parametrize("meta", ["one_step", "epoch"])
def test_fedmetas_step_leaves_them(clients: str, meta: str) -> None:
    algorithm = FedMeta(TRAINING, clients=clients, meta=meta)  # type: ignore[arg-type]
    models = []
    for spare in (True, False):
        reply = algorithm.train({"weights": weights(spare)}, party(spare))
        server = replace(party(spare), name="server")
        models.append(algorithm.combine({"weights": weights(spare)}, {"a": reply}, server)["weights"])
    found, without = models
    assert all_of(torch.equal(found[name], value) for name, value in without.items())
    assert all(torch.equal(found[name], torch.ones_like(found[name])) for name in ("spare.weight", "spare.bias"))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_they_have_no_importance(kind: Kind) -> None:
    found, without = (
        importance(net.model, net.loss, net.x, net.y, kind)
        for net in (party(True), party(False))
        if net.model.load_state_dict(weights("spare" in dict(net.model.named_children())))
    )
    assert all_of(torch.allclose(found[name], value, rtol=1e-5) for name, value in without.items())
    assert all(not found[name].any() for name in ("spare.weight", "spare.bias"))


@pytest.mark.parametrize("kind", ["batch", "each", "each_label"])
def test_no_flops_are_charged_for_them(kind: str) -> None:
    found, without = (Meter(Net(spare), (6,), cross_entropy) for spare in (True, False))
    phase = Phase("pass", kind, 8, 4)  # type: ignore[arg-type]
    for each in (phase, Phase("trace", "batch", 0, 4, second_order=8)):
        assert found.flops(each) == without.flops(each) > 0
