"""Synaptic intelligence over the rounds: completeness, closed forms, and single coordinates by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Load, Party, Tensors
from algorithms.counting.cost import Meter
from algorithms.fedcl_si import begun, extended, scored, slope, walked, work
from algorithms.models import build, cross_entropy
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker


def one(value: float) -> Tensors:
    return {"w": torch.tensor([value], dtype=torch.float64)}


def server(n: int = 70) -> Party:
    torch.default_generator.manual_seed(4)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)).double()
    draw = torch.Generator().manual_seed(n)
    x, y = torch.randn(n, 5, generator=draw, dtype=torch.float64), torch.randint(3, (n,), generator=draw)
    return Party("server", 2, model, cross_entropy, x, y, 0, 0, 1)


def values(model: nn.Module) -> Tensors:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def proxy_loss(party: Party, weights: Tensors) -> float:
    party.model.load_state_dict(weights)
    party.model.eval()
    with torch.no_grad():
        return float(F.cross_entropy(party.model(party.x), party.y))


def excess(lr: float, time: float = 1.0) -> float:
    """Σω / (L(θ_0) - L(θ_T)) - 1 along gradient descent on the proxy set, one step a round."""
    party = server()
    first = weights = values(party.model)
    state = begun(weights, party.model)
    for _ in range(round(time / lr)):
        party.model.load_state_dict(weights)
        gradient = slope(party.model, party.loss, party.x, party.y)
        after = {name: value - lr * gradient[name] for name, value in weights.items()}
        state = extended(state | {"weights": weights}, after, party)
        weights = after
    gained = sum(float(omega.sum()) for omega in state["path"].values())
    return gained / (proxy_loss(party, first) - proxy_loss(party, weights)) - 1


def test_the_path_adds_up_to_the_loss_that_was_taken_away_as_steps_get_small() -> None:
    """The error is of first order in the learning rate, so it halves with it."""
    errors = [excess(lr) for lr in (0.2, 0.1, 0.05)]
    assert 0 < errors[2] < 0.05
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.1)


@pytest.mark.slow
def test_a_tenth_of_the_rate_leaves_a_tenth_of_the_error() -> None:
    assert excess(0.1) / excess(0.01) == pytest.approx(10, rel=0.15)
    assert abs(excess(0.01)) < 5e-3


def test_on_a_parabola_it_is_a_geometric_sum() -> None:
    """L = a θ²/2, θ_t = (1 - ηa)^t: ω = Σ η a² θ_t² = η a² (1 - q^T) / (1 - q), q = (1 - ηa)²."""
    a, lr, rounds = 2.0, 0.1, 12
    path, theta = {"w": torch.zeros(1, dtype=torch.float64)}, one(1.0)
    for _ in range(rounds):
        gradient = {"w": a * theta["w"]}
        after = {"w": theta["w"] - lr * gradient["w"]}
        path, theta = walked(path, gradient, theta, after), after
    q = (1 - lr * a) ** 2
    assert float(path["w"]) == pytest.approx(lr * a**2 * (1 - q**rounds) / (1 - q), rel=1e-13)


def test_a_move_uphill_counts_against_a_weight() -> None:
    path = walked(one(0.5), one(2.0), one(1.0), one(1.1))
    assert float(path["w"]) == pytest.approx(0.5 - 2.0 * 0.1)


@pytest.mark.parametrize(("path", "moved", "omega"), [(0.3, 0.5, 1.0), (0.3, -0.5, 1.0), (-0.3, 0.5, 0.0), (0.1, 0, 2)])
def test_a_score_by_hand(path: float, moved: float, omega: float) -> None:
    """ω / (0.25 + 0.05), ω / 0.05 for what has not moved, and nothing for what lost."""
    found = scored(one(path), one(3.0), one(3.0 + moved), damping=0.05)
    assert float(found["w"]) == pytest.approx(omega)


def test_it_begins_with_nothing_at_the_weights_that_are_trained() -> None:
    party = server()
    party.model[0].requires_grad_(False)  # type: ignore[index]
    weights = values(party.model)
    state = begun(weights, party.model)
    assert list(state["start"]) == list(state["path"]) == ["3.weight", "3.bias"]
    assert all_of(torch.equal(state["start"][name], weights[name]) for name in state["start"])
    assert all_of(not value.any() for value in scored(state["path"], state["start"], weights, 1e-3).values())


def test_the_slope_is_that_of_the_mean_over_all_examples_whatever_the_chunks() -> None:
    party = server(70)  # a chunk of 64 and one of 6: the mean of two means would weigh the six too much
    found = slope(party.model, party.loss, party.x, party.y)
    loss = F.cross_entropy(party.model.eval()(party.x), party.y)
    expected = torch.autograd.grad(loss, list(party.model.parameters()))
    for value, right in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-12, atol=1e-14)
    halves = [slope(party.model, party.loss, party.x[part], party.y[part]) for part in (slice(64), slice(64, 70))]
    assert any(((halves[0][n] + halves[1][n]) / 2 - found[n]).abs().max() > 1e-3 for n in found)


def test_a_round_is_judged_by_the_slope_where_it_began() -> None:
    party = server()
    before = values(party.model)
    after = {name: value + 0.1 for name, value in before.items()}
    state = extended(begun(before, party.model) | {"weights": before}, after, party)
    party.model.load_state_dict(before)
    here = slope(party.model, party.loss, party.x, party.y)
    for name, omega in state["path"].items():
        torch.testing.assert_close(omega, -0.1 * here[name], rtol=1e-9, atol=1e-15)
    party.model.load_state_dict(after)
    there = slope(party.model, party.loss, party.x, party.y)
    assert any((there[name] - here[name]).abs().max() > 1e-3 for name in here)  # so that the two can be told apart


def test_the_paths_work_is_what_torch_counts() -> None:
    model = build("digits-cnn", 0)
    party = replace(server(), model=model, x=torch.randn(70, 1, 8, 8), y=torch.randint(10, (70,)))
    weights = values(model)
    state = begun(weights, model) | {"weights": weights}
    with FlopCounterMode(display=False) as counted:
        extended(state, weights, party)
    load = Load(0, 70, sum(p.numel() for p in model.parameters()))
    meter = Meter(model, (1, 8, 8), cross_entropy)
    assert sum(meter.flops(phase) for phase in work(load)) == pytest.approx(counted.get_total_flops(), rel=0.01)


def test_single_precision_paths_add_up_in_double() -> None:
    tiny = {"w": torch.full((1,), 1e-9)}
    path = {"w": torch.ones(1, dtype=torch.float64)}
    assert float(walked(path, {"w": torch.tensor([-1.0])}, {"w": torch.zeros(1)}, tiny)["w"]) > 1.0
