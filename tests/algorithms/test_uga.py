"""UGA: gradients go up, and the server steps against their mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Load, Message, Party, Phase, Reply, Tensors, Training
from algorithms.counting.cost import PULL_PLAIN, SQUARES, Meter, sgd_traffic
from algorithms.fedavg import FedAvg
from algorithms.keeptrace import ADJOINT, ADJOINT_MOMENTUM, PULL_SPRING
from algorithms.training.local import Quadratic, batches
from algorithms.training.seeding import seeded
from algorithms.uga import UGA
from benchmarks import uga as benchmark
from benchmarks.uga import unrolled
from tests.algorithms import made
from tests.algorithms.made import cross_entropy, same_bits

torch.set_num_threads(1)  # as in a worker

TRAINING = Training(epochs=3, batch=4, lr=0.1)


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


def flat() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))


def party(make: Callable[[], nn.Module] = network, n: int = 10, name: str = "a", double: bool = False) -> Party:
    seeded(3)
    model = make().double() if double else make()
    return made.party(model, name, n, draw=ord(name), devices=1, seed=ord(name))


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def forms(message: Message) -> dict[str, dict[str, tuple[torch.dtype, torch.Size]]]:
    return {kind: {name: (t.dtype, t.shape) for name, t in tensors.items()} for kind, tensors in message.items()}


def floats(message: Message) -> int:
    return sum(tensor.numel() for tensors in message.values() for tensor in tensors.values())


# ---- the device


@pytest.mark.slow  # the first use of torch's optimiser
@pytest.mark.parametrize("mu", [0.0, 0.6])
def test_the_upload_is_the_gradient_through_the_graph_of_all_steps(mu: float) -> None:
    device = party(double=True)
    weights = copied(device.model)
    training = replace(TRAINING, momentum=0.5, weight_decay=0.01)
    expected = unrolled(device, weights, training, Quadratic(weights, mu / 2) if mu else None)
    reply = UGA(training, mu=mu).train({"weights": weights}, device)
    assert reply.examples == 10
    for name, value in expected.items():
        torch.testing.assert_close(reply.upload["gradient"][name], value, rtol=1e-10, atol=1e-14)


def test_a_small_budget_changes_no_bit() -> None:
    device = party()
    down = {"weights": copied(device.model)}
    plenty, none = UGA(TRAINING).train(down, device), UGA(TRAINING, budget_mb=0.0).train(down, device)
    assert same_bits(plenty.upload["gradient"], none.upload["gradient"])
    assert same_bits(plenty.model, none.model)


def test_a_sum_is_the_mean_times_the_examples() -> None:
    device = party()
    down = {"weights": copied(device.model)}
    mean, total = UGA(TRAINING).train(down, device), UGA(TRAINING, eta_g=0.002, loss="sum").train(down, device)
    for name, value in mean.upload["gradient"].items():
        torch.testing.assert_close(total.upload["gradient"][name], 10 * value)


@pytest.mark.parametrize("n", [8, 10])
def test_accumulated_batches_are_their_number_times_the_mean_only_if_all_are_whole(n: int) -> None:
    device = party(flat, n, double=True)
    down = {"weights": copied(device.model)}
    mean = UGA(TRAINING).train(down, device).upload["gradient"]
    found = UGA(TRAINING, eta_g=0.002, loss="batch_accumulate").train(down, device).upload["gradient"]
    same = all(torch.allclose(value, -(-n // 4) * mean[name], rtol=1e-12) for name, value in found.items())
    assert same == (n == 8)


def test_in_one_epoch_the_accumulated_gradient_is_the_sum_of_the_batches_own() -> None:
    device = party(flat, double=True)
    down = {"weights": copied(device.model)}
    one = replace(TRAINING, epochs=1)
    found = UGA(one, eta_g=0.002, loss="batch_accumulate").train(down, device).upload["gradient"]
    expected = {name: torch.zeros_like(value) for name, value in found.items()}
    for chosen in batches(10, 4, device.seed, 0):
        loss = cross_entropy(device.model(device.x[chosen]), device.y[chosen]).mean()
        for total, slope in zip(
            expected.values(), torch.autograd.grad(loss, list(device.model.parameters())), strict=True
        ):
            total += slope
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)


def test_an_accumulated_gradient_is_clipped_as_the_mean_of_its_batches_is() -> None:
    device = party(flat, double=True)
    down = {"weights": copied(device.model)}
    given = {"eta_g": 0.002, "loss": "batch_accumulate"}
    whole = UGA(TRAINING, **given).train(down, device).upload["gradient"]  # type: ignore[arg-type]
    length = math.sqrt(sum(float(value.square().sum()) for value in whole.values())) / 3
    short = UGA(TRAINING, clip_norm=length / 2, **given).train(down, device).upload["gradient"]  # type: ignore[arg-type]
    long = UGA(TRAINING, clip_norm=length * 1.01, **given).train(down, device).upload["gradient"]  # type: ignore[arg-type]
    assert same_bits(long, whole)
    for name, value in whole.items():
        torch.testing.assert_close(short[name], value / 2, rtol=1e-12, atol=1e-14)


def test_clipping_shortens_what_is_too_long_and_nothing_else() -> None:
    device = party(double=True)
    down = {"weights": copied(device.model)}

    def length(reply: Reply) -> float:
        return math.sqrt(sum(float(value.square().sum()) for value in reply.upload["gradient"].values()))

    plain = UGA(TRAINING).train(down, device)
    short = UGA(TRAINING, clip_norm=length(plain) / 4).train(down, device)
    assert length(short) == pytest.approx(length(plain) / 4, rel=1e-12)
    ratio = short.upload["gradient"]["4.bias"] / plain.upload["gradient"]["4.bias"]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 0.25))
    long = UGA(TRAINING, clip_norm=length(plain) * 1.01).train(down, device)
    assert same_bits(long.upload["gradient"], plain.upload["gradient"])


def test_as_many_floats_go_up_as_down() -> None:
    for make in (network, normalised):
        device = party(make)
        algorithm = UGA(TRAINING)
        request = algorithm.request({"weights": copied(device.model)}, ["a"], device)
        reply = algorithm.train(request.download, device)
        assert floats(reply.upload) == floats(request.download)
        assert forms(reply.upload) == forms(algorithm.upload_form(0, device.model))
        assert set(reply.upload) <= set(algorithm.uploads)
        assert ("buffers" in reply.upload) == (make is normalised)
        assert forms({"": reply.model}) == forms({"": request.download["weights"]})


# ---- the server


@pytest.mark.slow  # the first use of torch's optimiser
def test_one_epoch_is_fedsgd_bit_for_bit() -> None:
    device = party(flat)
    weights = copied(device.model)
    algorithm = UGA(Training(epochs=1, batch=10, lr=0.5), eta_g=0.25)
    reply = algorithm.train({"weights": weights}, device)
    state = algorithm.combine({"weights": weights}, {"a": reply}, device)
    # one step of FedAvg over the whole data is the same step in the same order, where the rate is that of the server
    stepped = FedAvg(Training(epochs=1, batch=10, lr=0.25)).train({"weights": weights}, device).upload["weights"]
    assert same_bits(state["weights"], stepped)


def test_the_server_steps_against_the_mean_by_examples() -> None:
    server = replace(party(flat, double=True), round=3)
    weights = copied(server.model)
    algorithm = UGA(replace(TRAINING, lr_decay=0.5), eta_g=0.2)
    replies = {
        name: algorithm.train({"weights": weights}, party(flat, n, name, double=True))
        for name, n in (("a", 10), ("b", 3))
    }
    state = algorithm.combine({"weights": weights}, replies, server)
    a, b = (replies[name].upload["gradient"] for name in ("a", "b"))
    for name, value in weights.items():  # a number is not decayed (reading 27)
        torch.testing.assert_close(state["weights"][name], value - 0.2 * (10 * a[name] + 3 * b[name]) / 13)
    backwards = dict(reversed(replies.items()))
    assert same_bits(algorithm.combine({"weights": weights}, backwards, server)["weights"], state["weights"])


def test_matched_is_the_rate_of_all_the_steps_of_fedavg() -> None:
    server = replace(party(flat, double=True), round=3)
    weights = copied(server.model)
    ones = {name: torch.ones_like(value) for name, value in weights.items()}
    algorithm = UGA(replace(TRAINING, lr_decay=0.5), eta_g="matched")
    replies = {"a": Reply({"gradient": ones}, 10), "b": Reply({"gradient": ones}, 3)}
    state = algorithm.combine({"weights": weights}, replies, server)
    rate = 0.1 / 8 * 3 * 2  # η_3, three epochs of ⌈6.5 / 4⌉ steps
    for name, value in weights.items():
        torch.testing.assert_close(state["weights"][name], value - rate)


def test_for_small_rates_matched_uga_is_fedavg_up_to_second_order() -> None:
    device = party(flat, n=8, double=True)  # whole batches: FedAvg's steps of an epoch add up to the mean gradient
    weights = copied(device.model)

    def gap(lr: float) -> float:
        training = replace(TRAINING, lr=lr)
        fedavg, uga = FedAvg(training), UGA(training, eta_g="matched")
        models = [
            algorithm.combine({"weights": weights}, {"a": algorithm.train({"weights": weights}, device)}, device)
            for algorithm in (fedavg, uga)
        ]
        return sum(float((models[0]["weights"][name] - models[1]["weights"][name]).square().sum()) for name in weights)

    assert (gap(1e-3) / gap(5e-4)) ** 0.5 == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("eta_g", ["matched", 0.5, 3.0, 40.0])
def test_the_servers_step_over_what_training_moved_is_that_of_a_parabola(eta_g: Any) -> None:
    """Loss ½ h w², E - 1 steps of rate η with q = (1 - η h)^(E-1): training moves (1 - q) w, the gradient is h q² w.

    Descent by η_g h q² is stable below 2, and 2 / (1 - q) of what training moved is never less than twice that.
    """
    h, w, training = 4.0, 3.0, Training(epochs=4, batch=6, lr=0.1)
    device = Party(
        "a", 1, nn.Linear(1, 1, bias=False), half_square, torch.full((6, 1), h**0.5), torch.zeros(6), 0, 0, 1
    )
    weights = {"weight": torch.tensor([[w]])}
    algorithm = UGA(training, eta_g=eta_g)
    reply = algorithm.train({"weights": weights}, device)
    q, rate = (1 - 0.1 * h) ** 3, 0.1 * 4 if eta_g == "matched" else eta_g
    step = reply.numbers["server_step"]
    assert step == pytest.approx(rate * h * q**2 / (1 - q), rel=1e-5)
    after = float(algorithm.combine({"weights": weights}, {"a": reply}, device)["weights"]["weight"])
    assert step >= 2 or abs(after) < w
    assert (abs(after) > w) == (rate * h * q**2 > 2)


def test_where_training_moves_nothing_no_step_is_compared_with_it() -> None:
    """One epoch: the gradient is taken where the model was received."""
    device = party()
    assert UGA(replace(TRAINING, epochs=1)).train({"weights": copied(device.model)}, device).numbers == {}


def test_batch_norms_buffers_are_averaged_and_counted() -> None:
    server = party(normalised)
    weights = copied(server.model)
    algorithm = UGA(TRAINING)
    replies = {
        name: algorithm.train({"weights": weights}, party(normalised, n, name)) for name, n in (("a", 10), ("b", 5))
    }
    state = algorithm.combine({"weights": weights}, replies, server)
    assert int(state["weights"]["1.num_batches_tracked"]) == 3 * 3  # the larger: ⌈10 / 4⌉ batches in three epochs
    a, b = (replies[name].upload["buffers"]["1.running_mean"] for name in ("a", "b"))
    torch.testing.assert_close(state["weights"]["1.running_mean"], (2 * a + b) / 3)
    assert forms(state) == forms({"weights": weights})
    server.model.load_state_dict(state["weights"])


def test_what_is_frozen_stays() -> None:
    device = party()
    device.model.get_submodule("0").requires_grad_(False)
    weights = copied(device.model)
    algorithm = UGA(TRAINING)
    reply = algorithm.train({"weights": weights}, device)
    assert forms(reply.upload) == forms(algorithm.upload_form(0, device.model))
    assert reply.upload.keys() == {"gradient"}
    assert reply.upload["gradient"].keys() == {"4.weight", "4.bias"}
    state = algorithm.combine({"weights": weights}, {"a": reply}, device)
    assert torch.equal(state["weights"]["0.weight"], weights["0.weight"])
    assert not torch.equal(state["weights"]["4.weight"], weights["4.weight"])


# ---- work


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"budget_mb": 0.0},
        {"first_order": True},
        {"mu": 0.1},
        {"loss": "batch_accumulate", "eta_g": 0.002},
        {"training": replace(TRAINING, epochs=1)},
        {"training": replace(TRAINING, momentum=0.9, epochs=5), "budget_mb": 0.0},
        {"training": replace(TRAINING, batch=50)},
    ],
)
def test_the_declared_flops_are_those_that_torch_counts(options: dict[str, Any]) -> None:
    device = party()
    algorithm = UGA(**{"training": TRAINING, **options})
    parameters = sum(p.numel() for p in device.model.parameters())
    meter = Meter(device.model, (1, 4, 4), cross_entropy)
    declared = sum(meter.flops(phase) for phase in algorithm.device_work(Load(0, 10, parameters)))
    with FlopCounterMode(display=False) as counted:
        algorithm.train({"weights": copied(device.model)}, device)
    assert declared == pytest.approx(counted.get_total_flops(), rel=0.01)


def test_the_work_of_a_round() -> None:
    training = replace(TRAINING, epochs=5, momentum=0.9)
    moved, load = sgd_traffic(1000, 0.9), Load(0, examples=10, parameters=1000, replies=2)
    work = UGA(training, budget_mb=0.0, mu=0.1).device_work(load)  # T = 12, every 4th: 3 segments of 4 steps
    assert work == (
        Phase("train", "batch", 10, 4, epochs=4, traffic=moved + 1000 * PULL_PLAIN),
        Phase("gradient", "batch", 10, 4, traffic=1000 * SQUARES),
        # not again: steps 3, 7 and 11, of which only the last is short (2 examples of 4)
        Phase("replay", "batch", 40 - (4 + 4 + 2), 4, traffic=moved + 1000 * PULL_PLAIN),
        Phase("trace", "batch", 0, 4, second_order=40, traffic=1000 * (ADJOINT + ADJOINT_MOMENTUM + 2 * PULL_SPRING)),
    )
    assert [phase.name for phase in UGA(training).device_work(load)] == ["train", "gradient", "trace"]
    (combine,) = UGA(training).combine_work(load)
    assert combine.traffic == (2 + 1 + 3) * 1000  # two replies and their mean; weights read, mean read, weights written


def test_the_memory_is_that_of_the_formula() -> None:
    load = Load(0, examples=400, parameters=1000)
    training = Training(epochs=2, batch=4, lr=0.1)  # T = 100
    assert UGA(training, budget_mb=0.4).device_floats(load) == (100 + 2) * 1000
    assert UGA(training, budget_mb=0.399).device_floats(load) == (10 + 10 + 2) * 1000
    assert UGA(replace(training, momentum=0.9), budget_mb=0.0).device_floats(load) == (20 + 10 + 2) * 1000
    assert UGA(training, first_order=True).device_floats(load) == 2 * 1000


# ---- the benchmark


def test_the_benchmark_is_about_the_network_of_the_design() -> None:
    assert sum(p.numel() for p in benchmark.network().parameters()) == 28_874  # docs/design/algorithms.md §14


def test_checkpoints_that_take_a_tenth_of_the_unrolled_graph_miss_the_bar() -> None:
    def found(megabytes: float) -> list[benchmark.Taken]:
        return [benchmark.Taken("unrolled", 400, 1.0, 100.0), benchmark.Taken("checkpoints", 400, 1.0, megabytes)]

    assert benchmark.missed(found(9.9)) == []
    [fault] = benchmark.missed(found(10.0))
    assert "10 MB at 400 steps" in fault


@pytest.mark.slow
def test_the_benchmark_measures_each_way_with_each_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "WAYS", ("checkpoints",))
    monkeypatch.setattr(benchmark, "STEPS", (200,))
    [taken] = benchmark.measure(scale=0.01)
    assert (taken.way, taken.steps) == ("checkpoints", 2)
    assert taken.seconds > 0
    assert len(benchmark.table([taken]).splitlines()) == 2


# ---- slips


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta_g": -0.1}, r"eta_g is -0\.1; it must be 'matched', or a number"),
        ({"eta_g": float("nan")}, "eta_g is nan"),
        ({"eta_g": "lr"}, "eta_g is 'lr'"),
        ({"loss": "max"}, "loss is 'max'"),
        ({"loss": "sum", "eta_g": "matched"}, "with loss 'sum' it must be a number"),
        (
            {"loss": "batch_accumulate", "eta_g": "matched"},
            "eta_g is 'matched'; with loss 'batch_accumulate' it must be",
        ),
        ({"budget_mb": -1.0}, r"budget_mb is -1\.0"),
        ({"clip_norm": float("inf")}, "clip_norm is inf"),
        ({"mu": -1.0}, r"mu is -1\.0"),
    ],
)
def test_slips_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UGA(TRAINING, **options)
