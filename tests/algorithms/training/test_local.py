"""The one training loop, the one penalty, and what is said of its leverage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Party, Tensors, Training
from algorithms.importance.importance import importance
from algorithms.training.local import Quadratic, batches, leverage, pull, sgd, single_values, steps
from algorithms.training.seeding import seeded
from emulator.results.leverage import warnings
from tests.algorithms.made import cross_entropy, same_bits
from tests.all_of import all_of


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs[:, 0] - y) ** 2


def conv_net() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 8),
        nn.Dropout(0.4),
        nn.Linear(8, 3),
    )


def images(n: int = 22, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 1, 4, 4, generator=draw), torch.randint(3, (n,), generator=draw)


def device(model: nn.Module, seed: int = 5, **more: object) -> Party:
    x, y = images()
    return replace(Party("a", 1, model, cross_entropy, x, y, 0, 0, seed), **more)  # type: ignore[arg-type]


def scalar(theta: float, x: float = 1.0, y: float = 0.0, **more: object) -> tuple[Party, Tensors]:
    """One example of the loss ½ (x θ - y)² in float64, and θ."""
    model = nn.Linear(1, 1, bias=False).double()
    party = Party("a", 1, model, half_square, column(x), column(y)[0], 0, 0, 1)
    return replace(party, **more), {"weight": column(theta)}  # type: ignore[arg-type]


def column(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)


# ---- batches


def test_an_epoch_takes_every_example_once_and_its_last_batch_is_short() -> None:
    taken = list(batches(23, 5, seed=1, epoch=0))
    assert [len(batch) for batch in taken] == [5, 5, 5, 5, 3]
    assert sorted(torch.cat(taken).tolist()) == list(range(23))


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    orders = {tuple(torch.cat(list(batches(30, 30, seed, epoch))).tolist()) for seed in (1, 2) for epoch in (0, 1)}
    assert len(orders) == 4


def test_the_size_of_the_batch_cuts_the_order_and_does_not_change_it() -> None:
    assert torch.equal(torch.cat(list(batches(30, 7, 1, 2))), torch.cat(list(batches(30, 30, 1, 2))))


def test_no_examples_make_no_batches() -> None:
    assert list(batches(0, 5, 1, 0)) == []


def test_a_batch_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="batch is 0"):
        list(batches(3, 0, 1, 0))


def test_a_round_takes_as_many_steps_as_it_draws_batches() -> None:
    training = Training(lr=0.1, epochs=3, batch=5)
    assert steps(23, training) == sum(len(list(batches(23, 5, 1, epoch))) for epoch in range(3)) == 15


# ---- pull


def test_a_pull_adds_twice_strength_times_importance_times_difference() -> None:
    grad = torch.tensor([1.0, 1.0])
    pull(grad, torch.tensor([3.0, -4.0]), 0.5, torch.tensor([2.0, 0.25]))
    assert grad.tolist() == [1 + 2 * 0.5 * 2 * 3, 1 - 2 * 0.5 * 0.25 * 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1001,), (8, 3, 5, 5)])
def test_a_pull_without_importance_is_one_with_ones_bit_for_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    grad, difference = (torch.randn(shape, generator=draw, dtype=dtype) for _ in range(2))
    if len(shape) == 4:
        grad = grad.contiguous(memory_format=torch.channels_last)
    plain, ones = grad.clone(), grad.clone()
    pull(plain, difference, 0.137)
    pull(ones, difference, 0.137, torch.ones_like(difference))
    assert torch.equal(plain, ones)


# ---- sgd


def test_training_follows_the_update_rule_of_sgd_with_momentum_and_weight_decay() -> None:
    # m <- β m + g + w θ, θ <- θ - η m, with g = 2 (2θ - 3) for the loss ½ (2θ - 3)²
    training = Training(epochs=6, batch=1, lr=0.04, momentum=0.9, weight_decay=0.01)
    party, weights = scalar(0.7, x=2.0, y=3.0)
    theta, momentum = 0.7, 0.0
    for _ in range(6):
        momentum = 0.9 * momentum + 2 * (2 * theta - 3) + 0.01 * theta
        theta -= 0.04 * momentum
    assert sgd(party, weights, training)["weight"].item() == pytest.approx(theta, rel=1e-13)


def test_training_agrees_with_a_plain_loop_of_torch_in_the_usual_layout() -> None:
    model = conv_net().double()
    model[7] = nn.Identity()  # no dropout
    x, y = images()
    party, start = device(model, x=x.double()), copied(model)
    ours = sgd(party, start, ROUGH)
    model.load_state_dict(start)
    optimiser = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=False, fused=False
    )
    for epoch in range(2):
        for chosen in batches(len(y), 8, party.seed, epoch):
            optimiser.zero_grad()
            torch.autograd.backward(F.cross_entropy(model(x.double()[chosen]), y[chosen]))
            optimiser.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours[name], value, rtol=1e-11, atol=1e-13)


def test_the_rate_is_that_of_the_global_round() -> None:
    training = Training(epochs=1, batch=1, lr=0.4, lr_decay=0.5)
    party, weights = scalar(1.0, x=1.0, y=0.0, round=3)  # gradient 1
    assert sgd(party, weights, training)["weight"].item() == pytest.approx(1 - 0.4 / 8, rel=1e-15)


def test_the_penalty_and_the_weight_decay_both_act() -> None:
    training = Training(epochs=1, batch=1, lr=0.1, weight_decay=0.2)
    party, weights = scalar(1.0, x=1.0, y=0.5)  # gradient 0.5
    spring = Quadratic({"weight": column(0.0)}, 0.3, {"weight": column(2.0)})
    expected = 1 - 0.1 * (0.5 + 2 * 0.3 * 2 * 1 + 0.2 * 1)
    assert sgd(party, weights, training, spring)["weight"].item() == pytest.approx(expected, rel=1e-15)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    model = conv_net()
    start = copied(model)
    first = sgd(device(model), start, ROUGH)
    assert same_bits(first, sgd(device(model), start, ROUGH))
    assert not same_bits(first, sgd(device(model, seed=6), start, ROUGH))


def test_neither_the_state_of_torch_nor_the_values_of_the_model_reach_the_result() -> None:
    model = conv_net()
    start = copied(model)
    first = sgd(device(model), start, ROUGH)
    seeded(99)
    other = conv_net()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(float("nan"))
    other.eval()
    assert same_bits(first, sgd(device(other), start, ROUGH))


def test_an_importance_taken_before_training_does_not_shift_its_draws() -> None:
    model = conv_net()
    start = copied(model)
    first = sgd(device(model), start, ROUGH)
    party = device(model)
    importance(model, party.loss, party.x, party.y, "abs")
    assert same_bits(first, sgd(party, start, ROUGH))


def test_draws_within_a_step_do_not_shift_the_next_step() -> None:
    model = conv_net()
    start = copied(model)

    def wasteful(name: str, parameter: Tensor, grad: Tensor) -> None:
        torch.rand(7)

    assert same_bits(sgd(device(model), start, ROUGH, wasteful), sgd(device(model), start, ROUGH))


def test_dropout_differs_from_step_to_step() -> None:
    seen = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5), nn.Linear(1, 1))
    model[1].register_forward_hook(lambda module, given, out: seen.append(tuple((out == 0).flatten().tolist())))
    x, y = torch.ones(16, 1), torch.zeros(16)
    party = Party("a", 1, model, half_square, x, y, 0, 0, 1)
    sgd(party, copied(model), Training(epochs=5, batch=16, lr=0.0))
    assert len(set(seen)) == 5


def test_training_leaves_the_download_and_its_own_result_alone() -> None:
    model = conv_net()
    start = copied(model)
    kept = {name: value.clone() for name, value in start.items()}
    first = sgd(device(model), start, ROUGH)
    assert same_bits(start, kept)
    kept = {name: value.clone() for name, value in first.items()}
    sgd(device(model), first, ROUGH)
    assert same_bits(first, kept)
    assert all_of(not value.requires_grad for value in first.values())


def test_the_trained_model_is_left_in_the_usual_layout_without_gradients() -> None:
    model = conv_net()
    trained = sgd(device(model), copied(model), ROUGH)
    fresh = conv_net()
    for (_, parameter), (_, usual) in zip(model.named_parameters(), fresh.named_parameters(), strict=True):
        assert parameter.stride() == usual.stride()
        assert parameter.grad is None
    assert same_bits(trained, copied(model))


def test_a_frozen_parameter_is_neither_trained_nor_pulled() -> None:
    model = conv_net()
    model[0].weight.requires_grad_(False)
    start = copied(model)
    asked = []
    trained = sgd(device(model), start, ROUGH, lambda name, parameter, grad: asked.append(name))
    assert torch.equal(trained["0.weight"], start["0.weight"])
    assert "0.weight" not in asked
    assert "0.bias" in asked


def test_a_penalty_reaches_a_parameter_that_the_loss_does_not() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(1, 1), nn.Parameter(torch.tensor([3.0]))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.used(x)
            return out

    model = Idle()
    party = Party("a", 1, model, half_square, torch.ones(1, 1), torch.zeros(1), 0, 0, 1)
    start = copied(model)
    spring = Quadratic({name: torch.zeros_like(value) for name, value in start.items()}, 0.25)
    training = Training(epochs=1, batch=1, lr=0.5)
    assert sgd(party, start, training)["idle"].item() == 3.0
    assert sgd(party, start, training, spring)["idle"].item() == 3 - 0.5 * 2 * 0.25 * 3


def test_buffers_travel_with_the_parameters() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    start = copied(model)
    trained = sgd(device(model), start, ROUGH)
    assert trained["2.num_batches_tracked"].item() == steps(22, ROUGH)
    assert not torch.equal(trained["2.running_mean"], start["2.running_mean"])


def normalised() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))


def test_a_last_batch_of_one_example_meets_the_running_statistics_and_leaves_them() -> None:
    model, (x, y) = normalised().double(), images(5)
    x = x.double()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    found = sgd(device(model, x=x, y=y), weights, Training(epochs=1, batch=4, lr=0.5))
    # the two steps by hand
    four, one = batches(5, 4, 5, 0)
    line, norm = nn.Linear(16, 3).double(), nn.BatchNorm1d(3).double()
    line.load_state_dict({"weight": weights["1.weight"], "bias": weights["1.bias"]})
    parameters = [*line.parameters(), *norm.parameters()]
    for chosen in (four, one):
        norm.train(chosen is four)
        loss = cross_entropy(norm(line(x[chosen].flatten(1))), y[chosen]).mean()
        slopes = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter -= 0.5 * slope
    assert int(found["2.num_batches_tracked"]) == 1
    for name, value in {"1." + name: v for name, v in line.state_dict().items()}.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)
    for name, value in {"2." + name: v for name, v in norm.state_dict().items()}.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.BatchNorm1d(3), torch.ones(1, 3)),
        (nn.BatchNorm2d(3), torch.ones(1, 3, 1, 1)),
    ],
)
def test_single_values_are_taken_only_within_and_only_in_train_mode(layer: nn.Module, x: Tensor) -> None:
    with single_values(layer):
        layer(x)
        layer(torch.cat([x, 2 * x]))
    assert layer.get_buffer("num_batches_tracked") == 1
    assert layer.training
    with single_values(layer.eval()):
        layer(torch.cat([x, 2 * x]))
    assert layer.get_buffer("num_batches_tracked") == 1
    assert not layer.training
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        layer.train()(x)


def test_a_picture_alone_has_values_enough_to_be_normalised() -> None:
    layer = nn.BatchNorm2d(3)
    with single_values(layer):
        layer(torch.ones(1, 3, 2, 2))
    assert layer.get_buffer("num_batches_tracked") == 1


def test_weights_of_another_model_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Missing key"):
        sgd(device(conv_net()), {}, ROUGH)


def test_a_device_without_examples_returns_what_it_received() -> None:
    model = conv_net()
    start = copied(model)
    assert same_bits(sgd(device(model, x=torch.zeros(0, 1, 4, 4), y=torch.zeros(0).long()), start, ROUGH), start)


# ---- leverage


def pulled(reached: dict[str, float]) -> dict[str, Any]:
    """A row of rounds.jsonl, as far as a penalty goes."""
    return {"leverage": reached}


def test_leverage_ranks_all_coordinates_together() -> None:
    spread = torch.randperm(1000, generator=torch.Generator().manual_seed(0)).float() + 1  # 1 ... 1000
    omega = {"a": spread[:300].reshape(10, 30), "b": spread[300:]}
    assert leverage(0.25, omega, lr=0.5, steps=8) == {
        "median": 2.0 * 500,
        "p99": 2.0 * 990,
        "max": 2.0 * 1000,
        "step": 0.25 * 1000,
    }


def test_leverage_without_importance_is_that_of_ones() -> None:
    assert leverage(0.3, None, 0.1, 7) == leverage(0.3, {"a": torch.ones(5)}, 0.1, 7)


def test_leverages_that_the_design_worked_out_by_hand() -> None:
    # By arithmetic: FedCL's identity fallback with the text's settings 0.94 (6000 examples, B=64, E=2, lr 0.005,
    # λ=0.5); UGA's FedProx 4e-6 on FEMNIST (101 examples, B=64, E=5, lr 0.002, μ=2e-4)
    fedcl = leverage(0.5, None, 0.005, steps(6000, Training(lr=0.1, epochs=2, batch=64)))
    assert fedcl["p99"] == pytest.approx(0.94)
    prox = leverage(1e-4, None, 0.002, steps(101, Training(lr=0.1, epochs=5, batch=64)))
    assert prox["p99"] == pytest.approx(4e-6)


def test_a_penalty_too_weak_to_be_seen_is_warned_of() -> None:
    (warned,) = warnings([pulled({"median": 0.0, "p99": 0.0099, "max": 1.0, "step": 0.1})], momentum=0.0)
    assert warned.kind == "idle"
    assert "the penalty does nothing: devices train as in FedAvg" in warned.text
    assert "0.0099" in warned.text


def test_a_penalty_too_stiff_for_the_rate_is_warned_of() -> None:
    # 96 devices with a largest Fisher of 0.1 each, η = 0.1: λ < 1.04
    u = {"a": torch.tensor([9.6])}
    assert list(warnings([pulled(leverage(1.04, u, 0.1, 10))], 0.0)) == []
    (warned,) = warnings([pulled(leverage(1.05, u, 0.1, 10))], 0.0)
    assert (warned.kind, "diverge" in warned.text) == ("stiff", True)


def test_no_penalty_is_not_warned_of() -> None:
    assert list(warnings([pulled({})], 0.9)) == []


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("share", [0.95, 1.05])
def test_the_bound_of_the_warning_is_where_sgd_begins_to_diverge(momentum: float, share: float) -> None:
    party, weights = scalar(1.0, x=0.0)  # no loss at all, only the penalty
    training = Training(epochs=150, batch=1, lr=0.5, momentum=momentum)
    strength = share * 2 * (1 + momentum)  # so that lr * 2 * strength is `share` of the bound
    end = sgd(party, weights, training, Quadratic({"weight": column(0.0)}, strength))
    warned = bool(list(warnings([pulled(leverage(strength, None, 0.5, 150))], momentum)))
    assert (abs(end["weight"].item()) > 1) is (share > 1) is warned
