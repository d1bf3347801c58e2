"""FedAsync and FedBuff, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Party, Reply, Training
from algorithms.fedasync import FedAsync
from algorithms.fedbuff import FedBuff
from algorithms.staleness import Stale
from algorithms.training.tensors import tensors_of

T = Training(epochs=1, batch=2, lr=0.1)


class Net(nn.Module):
    """One weight, and buffers as BatchNorm has them."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("seen", torch.tensor(0))


def server(round: int) -> Party:
    nothing = torch.zeros(0)
    return Party("server", 3, Net(), nn.functional.cross_entropy, nothing, nothing, round, 0, 1)


def tensors(w: float, mean: float = 0.0, seen: int = 0) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([w]), "mean": torch.tensor([mean]), "seen": torch.tensor(seen)}


@pytest.mark.parametrize(
    ("kind", "a", "b", "weights"),
    [
        ("constant", 0.5, 4, [1, 1, 1]),
        ("polynomial", 0.5, 4, [1, 0.5, 1 / 3]),  # (1 + s)^-0.5 for s = 0, 3, 8
        ("polynomial", 1.0, 4, [1, 0.25, 1 / 9]),
        ("hinge", 0.5, 3, [1, 1, 1 / 3.5]),  # 1 / (0.5 (8 - 3) + 1)
    ],
)
def test_weights_of_stale_replies(kind: Any, a: float, b: float, weights: list[float]) -> None:
    stale = Stale(kind, a, b)
    assert [stale.weight(s) for s in (0, 3, 8)] == pytest.approx(weights, rel=1e-15)


def test_fedasync_mixes_each_reply_with_its_own_weight() -> None:
    """x = 1; alpha = 0.5.  First the reply of version 0 (s = 3, weight 1/2): 1 + 0.25 (5 - 1) = 2.  Then the fresh one:
    2 + 0.5 (4 - 2) = 3.  The buffer goes the same way: 0 + 0.25 * 8 = 2, then 2 + 0.5 * (4 - 2) = 3."""
    replies = {
        "a": Reply({"weights": tensors(4.0, 4.0, 2)}, 9),
        "b": Reply({"weights": tensors(5.0, 8.0, 7)}, 1, staleness=3),
    }
    state = {"weights": tensors(1.0)}
    for order in (replies, dict(reversed(replies.items()))):
        model = FedAsync(T, alpha=0.5).combine(state, order, server(3))["weights"]
        assert (float(model["w"]), float(model["mean"]), int(model["seen"])) == (3.0, 3.0, 7)
    assert float(state["weights"]["w"]) == 1.0


def test_fedasync_with_alpha_1_and_one_fresh_reply_is_the_device_s_model() -> None:
    """K = 1, alpha = 1, one device: sequential SGD."""
    sent = tensors(0.1, 0.3, 4)
    model = FedAsync(T, alpha=1.0).combine({"weights": tensors(7.0)}, {"a": Reply({"weights": sent}, 2)}, server(5))
    assert {name: value.item() for name, value in model["weights"].items()} == {k: v.item() for k, v in sent.items()}


@pytest.mark.parametrize(
    ("divisor", "expected"), [("replies", 1 + 2 * (4 + 0.5 * 6) / 2), ("weights", 1 + 2 * 7 / 1.5)]
)
def test_fedbuff_sums_changes_by_staleness_and_not_by_examples(divisor: Any, expected: float) -> None:
    """x = 1, eta_g = 2, changes 4 (s = 0) and 6 (s = 3, weight 1/2)."""
    replies = {
        "a": Reply({"update": tensors(4.0, 4.0, 2)}, 9),
        "b": Reply({"update": tensors(6.0, 8.0, 7)}, 1, staleness=3),
    }
    model = FedBuff(T, server_lr=2.0, divisor=divisor).combine({"weights": tensors(1.0)}, replies, server(3))["weights"]
    assert float(model["w"]) == pytest.approx(expected, rel=1e-7)
    assert (float(model["mean"]), int(model["seen"])) == (6.0, 7)  # the plain mean; the largest


def test_fedbuff_of_fresh_replies_with_equal_examples_is_fedavg() -> None:
    """eta_g = 1 and constant staleness: within 1e-6 relative in float32 (law 1)."""
    generator = torch.Generator().manual_seed(7)
    device = replace(server(0), name="a", model=nn.Linear(3, 2), x=torch.randn(6, 3, generator=generator))
    device = replace(device, y=torch.tensor([0, 1, 0, 1, 1, 0]))
    start = {name: value.clone() for name, value in tensors_of(device.model).items()}
    parties = {name: replace(device, name=name, seed=seed) for seed, name in enumerate("abc")}
    algorithm = FedBuff(T, staleness="constant")
    replies = {name: algorithm.train({"weights": start}, party) for name, party in parties.items()}
    models = {name: Reply({"weights": dict(reply.model)}, reply.examples) for name, reply in replies.items()}
    mine = algorithm.combine({"weights": start}, replies, replace(device, name="server"))["weights"]
    for name, value in weighted_mean(models).items():
        assert not torch.equal(value, start[name])
        torch.testing.assert_close(mine[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedAsync(T, alpha=1.5),
        lambda: FedBuff(T, a=-1.0),
        lambda: FedAsync(T, mu=-1.0),
        lambda: FedBuff(T, staleness="none"),
    ],  # type: ignore[arg-type]
)
def test_options_out_of_range_are_named(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()
