"""FedAsync, FedBuff, FADAS and CA2FL, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Load, Party, Reply, Training
from algorithms.ca2fl import CA2FL
from algorithms.fadas import FADAS
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


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_fedbuff_of_fresh_replies_with_equal_examples_is_fedavg(dtype: torch.dtype, rtol: float) -> None:
    """eta_g = 1 and constant staleness (law 1)."""
    generator = torch.Generator().manual_seed(7)
    device = replace(
        server(0), name="a", model=nn.Linear(3, 2).to(dtype), x=torch.randn(6, 3, generator=generator).to(dtype)
    )
    device = replace(device, y=torch.tensor([0, 1, 0, 1, 1, 0]))
    start = {name: value.clone() for name, value in tensors_of(device.model).items()}
    parties = {name: replace(device, name=name, seed=seed) for seed, name in enumerate("abc")}
    algorithm = FedBuff(T, staleness="constant")
    replies = {name: algorithm.train({"weights": start}, party) for name, party in parties.items()}
    models = {name: Reply({"weights": dict(reply.model)}, reply.examples) for name, reply in replies.items()}
    mine = algorithm.combine({"weights": start}, replies, replace(device, name="server"))["weights"]
    for name, value in weighted_mean(models).items():
        assert not torch.equal(value, start[name])
        torch.testing.assert_close(mine[name], value, rtol=rtol, atol=rtol / 10)


def changes(**w: float) -> dict[str, Reply]:
    return {name: Reply({"update": tensors(value, 4.0)}, 9) for name, value in w.items()}


def test_fadas_takes_two_steps() -> None:
    """eta = 0.1, beta1 = 0.5, beta2 = 0.75, eps = 1.  Changes 4 and 8: mean 6, m = 3, v = 9, v^ = 9, step 0.3 / 4.
    Then 0 twice: m = 1.5, v = 6.75, but v^ stays 9, step 0.15 / 4."""
    algorithm = FADAS(T, server_lr=0.1, beta1=0.5, beta2=0.75, epsilon=1.0)
    state = algorithm.start(tensors(1.0), server(0))
    state = algorithm.combine(state, changes(a=4.0, b=8.0), server(0))
    assert float(state["weights"]["w"]) == pytest.approx(1 + 0.3 / 4, rel=1e-7)
    state = algorithm.combine(state, changes(a=0.0, b=0.0), server(1))
    assert float(state["weights"]["w"]) == pytest.approx(1 + 0.45 / 4, rel=1e-7)
    assert [float(state[kind]["w"]) for kind in ("momentum", "variance", "largest")] == [1.5, 6.75, 9.0]
    assert float(state["weights"]["mean"]) == 4.0


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [0.2, 0.2, 0.2, 0.1]),  # min(0.2, 1 / s) for s = 0, 1, 4, 10
        ({"tau_c": 10}, [0.2, 0.2, 0.2, 0.2]),
        ({"delayed": "divide"}, [0.2, 0.2, 0.05, 0.02]),
        ({"delayed": "none"}, [0.2, 0.2, 0.2, 0.2]),
    ],
)
def test_fadas_steps_less_along_a_buffer_with_a_stale_reply(options: Any, rates: list[float]) -> None:
    algorithm = FADAS(T, server_lr=0.2, beta1=0.0, beta2=0.0, **options)  # so the step is the rate
    state = algorithm.start(tensors(0.0), server(9))
    found = []
    for s in (0, 1, 4, 10):
        replies = changes(a=5.0) | {"b": Reply({"update": tensors(5.0)}, 1, staleness=s)}
        found.append(float(algorithm.combine(state, replies, server(9))["weights"]["w"]))
    assert found == pytest.approx(rates, rel=1e-6)


def test_ca2fl_calibrates_with_the_last_change_of_each_device() -> None:
    """Three devices, eta_g = 2.  Version 0: changes 3 and 6, none kept: v = 4.5, x = 1 + 9.  Version 1: h = 9 / 3
    = 3; device a is there twice, with 5 and 7: v = 3 + (5 - 3 + 7 - 3) / 2 = 6, x = 10 + 12; its last one is kept."""
    algorithm = CA2FL(T, server_lr=2.0)
    state = algorithm.start(tensors(1.0), server(0))
    state = algorithm.combine(state, changes(a=3.0, b=6.0), server(0))
    assert float(state["weights"]["w"]) == 10.0
    state = algorithm.combine(state, changes(**{"a@1": 5.0, "a": 7.0}), server(1))
    assert float(state["weights"]["w"]) == 22.0
    assert [float(state[f"of {device}"]["w"]) for device in "ab"] == [7.0, 6.0]
    assert float(state["kept"]["w"]) == 13.0


def test_ca2fl_is_fedbuff_without_weights_if_all_devices_reply_to_each_version() -> None:
    """h and the mean of the h_i cancel."""
    mine, other = CA2FL(T), FedBuff(T, staleness="constant")
    state, known = mine.start(tensors(1.0), server(0)), other.start(tensors(1.0), server(0))
    for version in range(4):
        replies = changes(a=0.1 * version, b=1.3 - version, c=-0.7)
        state, known = (each.combine(now, replies, server(version)) for each, now in ((mine, state), (other, known)))
        assert float(state["weights"]["w"]) == pytest.approx(float(known["weights"]["w"]), rel=1e-6)


def test_ca2fl_s_server_is_charged_for_what_it_keeps() -> None:
    """1,000 parameters, 2 replies, in floats per parameter: the mean reads both and writes 1; θ is read; the sum of all
    h_i is read and written in float64, 4; each reply: h_i read and written, v and that sum read and written in float64,
    2 + 8."""
    (work,) = CA2FL(T).combine_work(Load(1, 0, parameters=1000, replies=2))
    assert work.traffic == 1000 * (2 + 1 + 1 + 4 + 2 * 10)


def test_ca2fl_keeps_a_model_of_a_thousand_devices_at_most() -> None:
    CA2FL(T).start(tensors(1.0), replace(server(0), devices=1000))
    with pytest.raises(ValueError, match="the fleet has 1001 devices; .* 1000 at most"):
        CA2FL(T).start(tensors(1.0), replace(server(0), devices=1001))


@pytest.mark.parametrize(
    "make",
    [
        lambda: FADAS(T, beta1=1.0),
        lambda: FADAS(T, tau_c=-1),
        lambda: FADAS(T, delayed="never"),
        lambda: CA2FL(T, server_lr=-1.0),
        lambda: FedAsync(T, alpha=1.5),
        lambda: FedBuff(T, a=-1.0),
        lambda: FedAsync(T, mu=-1.0),
        lambda: FedBuff(T, staleness="none"),
    ],  # type: ignore[arg-type]
)
def test_options_out_of_range_are_named(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()
