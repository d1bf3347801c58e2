"""Keep-trace descent: against autograd through the graph of all steps, finite differences, and closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from weakref import ref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms import keeptrace
from algorithms.algorithm import Party, Tensors, Training
from algorithms.keeptrace import keep_trace, replayed, spacing, stored, traced_steps
from algorithms.training.local import Quadratic, draws, seeded_step, sgd
from algorithms.training.seeding import seeded
from benchmarks.uga import unrolled
from tests.algorithms import made
from tests.algorithms.made import cross_entropy, same_bits
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker


def smooth() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Dropout(0.4), nn.Linear(12, 5), nn.Softplus(), nn.Linear(5, 3)
    )


def kinked() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3)
    )


def normalised() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


class Careful(nn.BatchNorm1d):
    """single_values's version of a BatchNorm1d, written by hand."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        # Clones: later batches change the buffers behind the graph's back.
        return F.batch_norm(
            x, self.running_mean.clone(), self.running_var.clone(), self.weight, self.bias, eps=self.eps
        )


def of_single_values(norm: Callable[[int], nn.Module] = nn.BatchNorm1d) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), norm(4), nn.Tanh(), nn.Linear(4, 3))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        said, _ = self.gru(x[:, 0])
        last: Tensor = self.out(said[:, -1])
        return last


def party(make: Callable[[], nn.Module], n: int = 11, dtype: torch.dtype = torch.float64) -> Party:
    seeded(3)
    return made.party(make().to(dtype), n=n, devices=1, seed=5)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def off(found: Tensors, expected: Tensors) -> float:
    """‖found - expected‖ / ‖expected‖ over all parameters."""
    assert found.keys() == expected.keys()
    gap = sum(float((found[name] - value).square().sum()) for name, value in expected.items())
    return float((gap / sum(float(value.square().sum()) for value in expected.values())) ** 0.5)


def omega(weights: Tensors) -> Tensors:
    draw = torch.Generator().manual_seed(9)
    return {name: torch.rand(value.shape, generator=draw).to(value.dtype) for name, value in weights.items()}


PLAIN = Training(epochs=4, batch=4, lr=0.3)  # 3 epochs of 3 steps, the last of 3 examples
HEAVY = replace(PLAIN, momentum=0.9, weight_decay=0.05, lr=0.1)
ROUNDING = 2e-15  # relative, in float64 (docs/design/algorithms.md §14)


# ---- against autograd


@pytest.mark.slow
@pytest.mark.parametrize("make", [smooth, kinked, normalised, Recurrent])
@pytest.mark.parametrize("training", [PLAIN, HEAVY])
def test_it_is_the_gradient_through_the_graph_of_all_steps(make: Callable[[], nn.Module], training: Training) -> None:
    device = party(make)
    weights = copied(device.model)
    expected = unrolled(device, weights, training)
    assert off(keep_trace(device, weights, training).gradient, expected) < ROUNDING
    # and the Hessians matter: without them it is another vector
    assert off(keep_trace(device, weights, training, first_order=True).gradient, expected) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("training", [PLAIN, HEAVY])
def test_a_penalty_is_differentiated_and_so_is_its_anchor(training: Training, weighted: bool) -> None:
    device = party(smooth)
    weights = copied(device.model)
    penalty = Quadratic(weights, 0.3, omega(weights) if weighted else None)
    expected = unrolled(device, weights, training, penalty)
    for every in (1, 4):
        assert off(keep_trace(device, weights, training, every, penalty).gradient, expected) < ROUNDING
    assert off(keep_trace(device, weights, training).gradient, expected) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [kinked, normalised])
@pytest.mark.parametrize("training", [PLAIN, HEAVY])
def test_checkpoints_change_no_bit(training: Training, make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    device = party(make, dtype=dtype)
    weights = copied(device.model)
    whole = keep_trace(device, weights, training)
    assert traced_steps(len(device.y), training) == 9
    for every in (*range(2, 11), 100):
        other = keep_trace(device, weights, training, every)
        assert same_bits(other.gradient, whole.gradient)
        assert same_bits(other.weights, whole.weights)


def test_a_step_that_draws_another_dropout_when_taken_again_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    device = party(smooth)
    weights, seen = copied(device.model), set()
    expected = unrolled(device, weights, PLAIN)

    def forgetful(seed: int, step: int) -> None:
        seeded_step(seed + (step in seen), step)
        seen.add(step)

    monkeypatch.setattr(keeptrace, "seeded_step", forgetful)
    assert off(keep_trace(device, weights, PLAIN).gradient, expected) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n", [9, 1])  # the last batch, or each, is of one example
@pytest.mark.parametrize("training", [PLAIN, HEAVY])
def test_batch_norm_uses_its_running_statistics_on_a_batch_of_one(training: Training, n: int) -> None:
    device = party(of_single_values, n)
    careful = replace(device, model=party(lambda: of_single_values(Careful), n).model)
    weights = copied(device.model)
    expected, trained = unrolled(careful, weights, training), copied(careful.model)
    whole = keep_trace(device, weights, training)
    assert off(whole.gradient, expected) < 1e-12
    by_sgd = sgd(device, weights, replace(training, epochs=3))
    parameters = dict(device.model.named_parameters())
    assert off({name: whole.weights[name] for name in parameters}, {name: by_sgd[name] for name in parameters}) < 1e-12
    for every in (2, 4, 100):
        other = keep_trace(device, weights, training, every)
        assert same_bits(other.gradient, whole.gradient)
        assert same_bits(other.weights, whole.weights)
    # buffers as all four epochs of the oracle have left them: single values do not count
    buffers = {name: value for name, value in trained.items() if name.startswith("2.") and "running" in name}
    assert off({name: whole.weights[name] for name in buffers}, buffers) < 1e-12
    assert int(whole.weights["2.num_batches_tracked"]) == (4 * 2 if n == 9 else 0)


# ---- against other computations


@pytest.mark.slow  # the first use of torch's optimiser
def test_finite_differences_agree_on_a_smooth_network_with_dropout() -> None:
    device = party(smooth)
    weights = copied(device.model)
    gradient = keep_trace(device, weights, HEAVY).gradient
    draw = torch.Generator().manual_seed(1)
    direction = {name: torch.randn(value.shape, generator=draw).double() for name, value in weights.items()}
    length = sum(float(value.square().sum()) for value in direction.values()) ** 0.5

    def loss_at(shift: float) -> float:
        """Trained by local.sgd for all epochs but the last, then the loss of all examples, in train mode."""
        moved = {name: value + shift / length * direction[name] for name, value in weights.items()}
        sgd(device, moved, replace(HEAVY, epochs=HEAVY.epochs - 1))
        last = list(enumerate(draws(len(device.y), HEAVY, device.seed)))[-3:]
        total = 0.0
        with torch.no_grad():
            for step, chosen in last:
                seeded_step(device.seed, step)
                total += float(cross_entropy(device.model(device.x[chosen]), device.y[chosen]).sum())
        return total / len(device.y)

    slope = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5
    along = sum(float((gradient[name] * value).sum()) for name, value in direction.items()) / length
    assert slope == pytest.approx(along, rel=1e-8)


class Point(nn.Module):
    """Says where it stands, whatever it is shown."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.theta = nn.Parameter(start)

    def forward(self, x: Tensor) -> Tensor:
        return self.theta.expand(len(x), -1)


def test_on_a_quadratic_it_is_the_closed_form() -> None:
    # L = ½ (θ - c)ᵀA(θ - c): each step shrinks θ - c by I - ηA, and so does each step back; g = (I-ηA)^2T A (θ_0-c)
    draw = torch.Generator().manual_seed(2)
    root = torch.randn(4, 4, generator=draw).double()
    A, c, start = root @ root.T / 4, torch.randn(4, generator=draw).double(), torch.randn(4, generator=draw).double()
    device = Party(
        "a",
        1,
        Point(start),
        lambda outputs, y: 0.5 * ((outputs - c) @ A * (outputs - c)).sum(1),
        torch.zeros(6, 1),
        torch.zeros(6, dtype=torch.long),
        0,
        0,
        1,
    )
    training = Training(epochs=5, batch=2, lr=0.2)  # T = 12
    shrink = torch.linalg.matrix_power(torch.eye(4).double() - 0.2 * A, 24)
    found = keep_trace(device, {"theta": start.clone()}, training, every=4)
    torch.testing.assert_close(found.gradient["theta"], shrink @ A @ (start - c), rtol=1e-12, atol=0)


def test_one_step_is_per_fedavg() -> None:
    # g = (I - η H(θ; B1)) ∇L(θ - η ∇L(θ; B1); D), the whole Hessian by torch
    draw = torch.Generator().manual_seed(4)
    x, y = torch.randn(6, 3, generator=draw).double(), torch.randint(4, (6,), generator=draw)
    model = nn.Linear(3, 4, bias=False).double()
    theta = model.weight.detach().clone()

    def loss(w: Tensor) -> Tensor:
        return F.cross_entropy(x @ w.T, y)

    gradient, eta = torch.func.grad(loss), 0.5
    later = gradient(theta - eta * gradient(theta))
    hessian = torch.autograd.functional.hessian(loss, theta).reshape(12, 12)  # type: ignore[no-untyped-call]
    expected = later - eta * (hessian @ later.flatten()).view(4, 3)
    device = Party("a", 1, model, cross_entropy, x, y, 0, 0, 1)
    found = keep_trace(device, {"weight": theta}, Training(epochs=2, batch=6, lr=eta))
    torch.testing.assert_close(found.gradient["weight"], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("epochs", "lr"), [(1, 0.3), (3, 0.0)])
def test_one_epoch_or_a_rate_of_zero_gives_the_plain_gradient_bit_for_bit(epochs: int, lr: float) -> None:
    device = party(kinked, dtype=torch.float32)
    weights = copied(device.model)
    training = Training(epochs=epochs, batch=11, lr=lr)
    found = keep_trace(device, weights, training)
    model = kinked()
    model.load_state_dict(weights)
    order = list(draws(11, training, device.seed))[-1]  # which leaves torch seeded for the last step's dropout
    loss = cross_entropy(model(device.x[order]), device.y[order]).mean()
    plain = torch.autograd.grad(loss, list(model.parameters()))
    assert same_bits(found.gradient, dict(zip(weights, plain, strict=True)))


def test_micro_batches_add_up_to_the_gradient_of_all_examples() -> None:
    device = party(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3)))
    weights = copied(device.model)
    once = keep_trace(device, weights, Training(lr=0.1, epochs=1, batch=11)).gradient
    for batch in (1, 4, 50):
        assert off(keep_trace(device, weights, Training(lr=0.1, epochs=1, batch=batch)).gradient, once) < 1e-14


@pytest.mark.parametrize("epochs", [1, 3])
def test_accumulated_batches_count_the_same_whatever_their_size(epochs: int) -> None:
    # each of the last epoch's batches alone, as all the examples that the loss after training is taken of
    device = party(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3)))
    weights, training = copied(device.model), replace(HEAVY, epochs=epochs)
    last = [set(chosen.tolist()) for chosen in list(draws(11, training, device.seed))[-3:]]
    assert [len(batch) for batch in last] == [4, 4, 3]
    found = keep_trace(device, weights, training, accumulate=True).gradient
    total = {name: torch.zeros_like(value) for name, value in weights.items()}
    order = list(draws(11, training, device.seed))
    for k in range(3):
        seen = iter(range(len(order)))

        def only_this(outputs: Tensor, y: Tensor, k: int = k, seen: Iterator[int] = seen) -> Tensor:
            step = next(seen)
            counts = step < len(order) - 3 or step == len(order) - 3 + k
            return cross_entropy(outputs, y) * (11 / len(y) if step >= len(order) - 3 else 1.0) * counts

        for name, value in unrolled(replace(device, loss=only_this), weights, training).items():
            total[name] += value
    assert off(found, total) < 1e-12
    mean = keep_trace(device, weights, training).gradient
    assert off({name: value / 3 for name, value in found.items()}, mean) > 1e-3  # not the mean's, by any factor


def test_the_first_epochs_are_those_of_local_training() -> None:
    device = party(smooth)
    weights = copied(device.model)
    trained = sgd(device, weights, replace(HEAVY, epochs=3))
    assert off(keep_trace(device, weights, HEAVY).weights, trained) < 1e-13


def test_first_order_is_the_gradient_at_the_trained_model() -> None:
    device = party(normalised)
    weights = copied(device.model)
    one = replace(PLAIN, epochs=1, batch=11)
    traced = keep_trace(device, weights, replace(one, epochs=3), first_order=True)
    assert off(traced.gradient, keep_trace(device, traced.weights, one).gradient) < 1e-13


# ---- what it leaves alone


def test_buffers_move_on_with_each_batch_once() -> None:
    device = party(normalised)
    weights = copied(device.model)
    unrolled(device, weights, PLAIN)
    expected = dict(device.model.named_buffers())
    expected = {name: value.clone() for name, value in expected.items()}
    assert int(expected["1.num_batches_tracked"]) == 12  # 4 epochs of 3 batches
    for every in (1, 4):
        found = keep_trace(device, weights, PLAIN, every)
        for name, value in expected.items():
            torch.testing.assert_close(found.weights[name], value, rtol=1e-12, atol=1e-15)
        assert same_bits(copied(device.model), found.weights)


def test_what_is_frozen_stays_and_has_no_gradient() -> None:
    device = party(smooth)
    device.model.get_submodule("4").requires_grad_(False)
    weights = copied(device.model)
    found = keep_trace(device, weights, HEAVY)
    assert not {"4.weight", "4.bias"} & found.gradient.keys()
    assert torch.equal(found.weights["4.weight"], weights["4.weight"])
    assert not torch.equal(found.weights["6.weight"], weights["6.weight"])
    assert off(found.gradient, unrolled(device, weights, HEAVY)) < 1e-12


def test_what_comes_back_shares_no_memory_with_the_model_or_the_download() -> None:
    device = party(normalised)
    weights = copied(device.model)
    before = {name: value.clone() for name, value in weights.items()}
    found = keep_trace(device, weights, PLAIN, 3)
    kept = {name: value.clone() for name, value in found.weights.items()}
    with torch.no_grad():
        for value in device.model.state_dict().values():
            value.zero_()
    assert same_bits(found.weights, kept)
    assert same_bits(weights, before)


class Idle(nn.Module):
    """A straight line, whose gradient is the same everywhere, and a weight that says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.slope, self.unused = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0, 0, 0] * self.slope


def test_a_constant_gradient_and_an_unused_weight_are_no_trouble() -> None:
    device = replace(party(Idle), loss=lambda outputs, y: outputs)
    weights = {"slope": torch.ones(1).double(), "unused": torch.ones(2).double()}
    found = keep_trace(device, weights, Training(epochs=3, batch=4, lr=0.1, weight_decay=0.5))
    mean = float(device.x[:, 0, 0, 0].mean())
    shrink = (1 - 0.1 * 0.5) ** 6  # what weight decay does in two epochs of three steps
    assert found.gradient["slope"].item() == pytest.approx(mean * shrink, rel=1e-12)
    assert found.gradient["unused"].tolist() == [0.0, 0.0]


def test_without_examples_there_is_no_gradient() -> None:
    device = party(smooth, n=0)
    weights = copied(device.model)
    found = keep_trace(device, weights, PLAIN)
    assert all_of(float(value.abs().sum()) == 0 for value in found.gradient.values())
    assert same_bits(found.weights, weights)


# ---- memory and work


def test_all_weights_are_kept_while_the_budget_holds_them_and_then_every_root_of_t_th() -> None:
    assert spacing(steps=100, parameters=1000, budget=400_000) == 1
    assert spacing(steps=100, parameters=1000, budget=399_999) == 10
    assert spacing(steps=101, parameters=1000, budget=0) == 11
    assert spacing(steps=0, parameters=1000, budget=0) == 1


def test_so_many_copies_are_held_as_one_counts() -> None:
    assert stored(steps=100, every=1, momentum=0.9) == 100
    assert stored(steps=100, every=10, momentum=0.0) == 10 + 10
    assert stored(steps=100, every=10, momentum=0.9) == 2 * 10 + 10
    assert stored(steps=95, every=10, momentum=0.0) == 10 + 10


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("every", [1, 9, 20])
def test_no_more_copies_are_held_than_is_declared(every: int, momentum: float, monkeypatch: pytest.MonkeyPatch) -> None:
    born: list[ref[Tensor]] = []
    most = 0
    step_on = keeptrace._Way.after

    def watched(way: keeptrace._Way, state: keeptrace._State, step: int) -> keeptrace._State:
        nonlocal most
        found = step_on(way, state, step)
        born.extend(ref(value) for value in (*found.theta.values(), *found.momentum.values()))
        most = max(most, sum(each() is not None for each in born))
        return found

    monkeypatch.setattr(keeptrace._Way, "after", watched)
    device = party(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3, bias=False)), n=40)
    training = Training(epochs=5, batch=2, lr=0.1, momentum=momentum)  # T = 80
    keep_trace(device, copied(device.model), training, every)
    declared = keeptrace.held(40, training, every, False, False)
    assert declared - 8 < most <= declared  # and not much less: otherwise nothing was counted


@pytest.mark.parametrize("every", [1, 2, 3, 4, 9, 10, 40])
@pytest.mark.parametrize(("n", "batch"), [(11, 4), (12, 4), (3, 4), (1, 1)])
def test_so_many_examples_are_computed_again(every: int, n: int, batch: int) -> None:
    training = Training(epochs=4, batch=batch, lr=0.1)
    device = party(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), n)
    shown: list[int] = []

    def counting(outputs: Tensor, y: Tensor) -> Tensor:
        shown.append(len(y))
        return cross_entropy(outputs, y)

    keep_trace(replace(device, loss=counting), copied(device.model), training, every)
    # forward and whole gradient, then one Hessian-vector pass a step
    assert sum(shown) == 4 * n + 3 * n + replayed(n, training, every)
    assert traced_steps(n, training) == 3 * -(-n // batch)


def test_slips_are_told() -> None:
    device = party(smooth)
    weights = copied(device.model)
    with pytest.raises(ValueError, match="every is 0"):
        keep_trace(device, weights, PLAIN, 0)
    with pytest.raises(ValueError, match="an anchor of its own"):
        keep_trace(device, weights, PLAIN, penalty=Quadratic(copied(device.model), 1.0))
