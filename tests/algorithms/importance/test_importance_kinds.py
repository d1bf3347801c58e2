"""Fisher diagonals, MAS and the authors' scalars: against loops, closed forms and laws."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Tensors
from algorithms.counting.cost import Meter
from algorithms.counting.estimation import estimation
from algorithms.importance.importance import MEANING, Kind, drawn, importance
from algorithms.models import build, cross_entropy
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker

PER_EXAMPLE: tuple[Kind, ...] = ("abs", "sq", "true", "mas")
CLASSES = 3


def examples(n: int, features: int = 4) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(n)
    x = torch.randn(n, features, generator=draw, dtype=torch.float64)
    return x, torch.randint(CLASSES, (n,), generator=draw)


def linear() -> nn.Module:
    torch.default_generator.manual_seed(1)
    return nn.Linear(4, CLASSES).double()


def deep() -> nn.Module:
    torch.default_generator.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, CLASSES)).double()


def normed() -> nn.Module:
    """Takes the general path."""
    torch.default_generator.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, CLASSES)).double()


def slopes(model: nn.Module, value: Tensor) -> Tensors:
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(value, list(model.parameters())), strict=True))


def by_definition(model: nn.Module, x: Tensor, y: Tensor, kind: Kind, batch: int) -> Tensors:
    """One backward per example and label, or per batch, written down as the papers do."""
    model = copy.deepcopy(model).eval()
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    parts = [slice(i, i + batch) for i in range(0, len(x), batch)]
    if kind == "mean_squared":
        return {name: g**2 for name, g in slopes(model, F.cross_entropy(model(x), y)).items()}
    if kind in ("batch_squared", "tensor_scalar"):
        for part in parts:
            for name, g in slopes(model, F.cross_entropy(model(x[part]), y[part])).items():
                total[name] += g**2
        if kind == "batch_squared":
            return {name: value / len(parts) for name, value in total.items()}
        return {name: torch.sum(value) / len(x) for name, value in total.items()}
    for i in range(len(x)):
        one, labels = x[i : i + 1], [int(y[i])]
        weights = torch.ones(CLASSES, dtype=x.dtype)
        if kind == "true":
            labels, weights = list(range(CLASSES)), model(one).softmax(1)[0].detach()
        for label in labels:
            outputs = model(one)
            value = outputs.square().sum() if kind == "mas" else F.cross_entropy(outputs, torch.tensor([label]))
            for name, g in slopes(model, value).items():
                power = g.abs() if kind in ("abs", "mas") else g**2
                total[name] += weights[label] * power / len(x)
    return total


def assert_near(found: Tensors, expected: Tensors, limit: float = 1e-12) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert (found[name] - value).abs().max() <= limit * value.abs().max(), name


def off(found: Tensors, expected: Tensors) -> float:
    """The largest relative difference."""
    return max(float((found[n] - expected[n]).abs().max() / expected[n].abs().max()) for n in expected)


@pytest.mark.parametrize("kind", [kind for kind in MEANING if kind != "sampled"])
@pytest.mark.parametrize("make", [linear, deep, pytest.param(normed, marks=pytest.mark.slow)])
def test_each_kind_is_what_its_definition_says(make: object, kind: Kind) -> None:
    model = make()  # type: ignore[operator]
    x, y = examples(11)
    found = importance(model, cross_entropy, x, y, kind, batch=4)
    assert_near(found, by_definition(model, x, y, kind, 4))


# ---- the Fisher diagonal


def test_the_true_fisher_of_a_linear_softmax_is_the_diagonal_of_the_hessian_and_known_in_closed_form() -> None:
    model = linear()
    x, y = examples(20)
    fisher = importance(model, cross_entropy, x, y, "true")
    p = model(x).softmax(1).detach()
    variance = p * (1 - p)  # (n, classes)
    assert_near(fisher, {"weight": variance.T @ x.square() / 20, "bias": variance.mean(0)})

    def mean_loss(weight: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(x, weight, bias), y)

    weights = tuple(parameter.detach() for parameter in model.parameters())
    hessian = torch.autograd.functional.hessian(mean_loss, weights)
    diagonal = {"weight": hessian[0][0].reshape(12, 12).diagonal().reshape(3, 4), "bias": hessian[1][1].diagonal()}
    assert_near(fisher, diagonal)
    for wrong in ("sq", "batch_squared"):
        assert off(importance(model, cross_entropy, x, y, wrong), diagonal) > 0.1  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["true", "sampled", "mas"])
def test_labels_make_no_difference(kind: Kind) -> None:
    x, y = examples(12)
    found = importance(deep(), cross_entropy, x, y, kind, seed=4)
    other = importance(deep(), cross_entropy, x, (y + 1) % CLASSES, kind, seed=4)
    assert all_of(torch.equal(found[name], other[name]) for name in found)


@pytest.mark.parametrize("kind", ["abs", "sq", "batch_squared", "mean_squared", "tensor_scalar"])
def test_labels_make_a_difference_to_the_others(kind: Kind) -> None:
    x, y = examples(12)
    found = importance(deep(), cross_entropy, x, y, kind)
    assert off(importance(deep(), cross_entropy, x, (y + 1) % CLASSES, kind), found) > 0.1


def label_squares(model: nn.Module, x: Tensor, label: int) -> Tensors:
    """g² of one example, were that its label."""
    return {n: g**2 for n, g in slopes(model, F.cross_entropy(model(x), torch.tensor([label]))).items()}


def test_the_mean_over_drawn_labels_is_the_true_fisher() -> None:
    """4,000 draws of the label of each of two examples, within five standard errors in every coordinate."""
    model, draws = linear(), 4000
    x, y = examples(2)
    true = importance(model, cross_entropy, x, y, "true")
    found = importance(model, cross_entropy, x.repeat(draws, 1), y.repeat(draws), "sampled", seed=7)
    variance = {name: torch.zeros_like(value) for name, value in true.items()}
    for one in x.split(1):
        p = model(one).softmax(1)[0].detach()
        squares = [label_squares(model, one, label) for label in range(CLASSES)]
        for name in variance:
            mean = sum(p[c] * squares[c][name] for c in range(CLASSES))
            variance[name] += sum(p[c] * (squares[c][name] - mean) ** 2 for c in range(CLASSES)) / 4
    for name, value in true.items():
        error = (variance[name] / draws).sqrt()
        assert ((found[name] - value).abs() <= 5 * error).all()
        empirical = importance(model, cross_entropy, x, y, "sq")[name]
        assert ((empirical - value).abs() > 20 * error).any()  # what the labels that are there would give


def test_drawn_labels_follow_from_the_seed_alone() -> None:
    x, y = examples(30)
    torch.default_generator.manual_seed(5)
    before = torch.default_generator.get_state()
    first = importance(deep(), cross_entropy, x, y, "sampled", seed=1)
    torch.default_generator.set_state(before)
    model = deep()
    state = torch.default_generator.get_state()
    again = importance(model, cross_entropy, x, y, "sampled", seed=1)
    assert torch.equal(torch.default_generator.get_state(), state)
    assert all_of(torch.equal(first[name], again[name]) for name in first)
    assert off(importance(model, cross_entropy, x, y, "sampled", seed=2), first) > 0.01


def test_drawn_labels_are_independent_of_the_order_of_training() -> None:
    """Equal odds for two labels: what is drawn below ½ gets the first; a shuffle's first numbers must not be those."""
    model = nn.Linear(4, 2).double()
    model.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
    x, y = torch.ones(64, 4).double(), torch.zeros(64, dtype=torch.long)
    for seed in range(5):
        same = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0]))).random(64)
        assert (drawn(model, cross_entropy, x, y, seed).numpy() != (same > 0.5)).any()


def test_places_without_a_label_are_drawn_none() -> None:
    """In texts, labels below 0 mean that there is no word.  The loss leaves these positions out, whether their labels
    are drawn or not."""

    def words_loss(outputs: Tensor, y: Tensor) -> Tensor:  # (n, positions, classes), (n, positions)
        known = y >= 0
        losses = F.cross_entropy(outputs.transpose(1, 2), y.clamp(min=0), reduction="none")
        return (losses * known).sum(1)

    model = nn.Sequential(nn.Linear(4, 2 * CLASSES), nn.Unflatten(1, (2, CLASSES))).double()
    x, _ = examples(9)
    y = torch.tensor([[0, -100]] * 9)
    found = importance(model, words_loss, x, y, "sampled", seed=3)["0.weight"].view(2, CLASSES, 4)
    assert (found[0] > 0).all()
    assert (found[1] == 0).all()


@pytest.mark.parametrize("make", [linear, deep])
def test_batches_of_one_give_the_fisher_of_examples(make: object) -> None:
    model = make()  # type: ignore[operator]
    x, y = examples(9)
    one = importance(model, cross_entropy, x, y, "batch_squared", batch=1)
    assert_near(one, importance(model, cross_entropy, x, y, "sq"))
    whole = importance(model, cross_entropy, x, y, "batch_squared", batch=9)
    model.eval()
    assert_near(whole, {n: g**2 for n, g in slopes(model, F.cross_entropy(model(x), y)).items()})
    assert off(whole, one) > 0.1


# ---- laws


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 40), batch=st.integers(1, 40), seed=st.integers(0, 1000))
def test_sums_over_examples_know_no_batches_and_no_order(n: int, batch: int, seed: int) -> None:
    x, y = examples(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    for kind in PER_EXAMPLE:
        found = importance(linear(), cross_entropy, x, y, kind)
        assert_near(importance(linear(), cross_entropy, x[order], y[order], kind, batch=batch), found)


@pytest.mark.parametrize("kind", ["tensor_scalar", "batch_squared"])
def test_squares_of_batch_means_depend_on_the_batch(kind: Kind) -> None:
    x, y = examples(40)
    found = importance(deep(), cross_entropy, x, y, kind, batch=8)
    assert off(importance(deep(), cross_entropy, x, y, kind, batch=16), found) > 0.1


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(c=st.floats(0.01, 100))
def test_outputs_times_c_give_c_squared_times_their_norms_slope(c: float) -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return c * super().forward(x)

    model = Scaled(4, CLASSES).double()
    model.load_state_dict(linear().state_dict())
    x, y = examples(5)
    once = importance(linear(), cross_entropy, x, y, "mas")
    slow = importance(model, cross_entropy, x, y, "mas")  # not a plain Linear, so on the general path too
    assert_near(slow, {name: c**2 * value for name, value in once.items()})


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 40))
def test_the_square_of_the_mean_is_at_most_the_mean_of_the_squares_and_equal_for_one(n: int) -> None:
    x, y = examples(n)
    first, second = (importance(linear(), cross_entropy, x, y, kind) for kind in ("abs", "sq"))
    for name, value in first.items():
        assert (value.square() <= second[name] * (1 + 1e-12)).all()
    gap = off({name: value.square() for name, value in first.items()}, second)
    assert gap < 1e-13 if n == 1 else gap > 1e-6


@settings(max_examples=20, deadline=None)
@given(c=st.floats(0.01, 100), kind=st.sampled_from(["abs", "sq", "true", "sampled", "batch_squared", "tensor_scalar"]))
def test_a_loss_times_c_gives_c_or_its_square(c: float, kind: Kind) -> None:
    def scaled(outputs: Tensor, y: Tensor) -> Tensor:
        return c * cross_entropy(outputs, y)

    x, y = examples(5)
    once = importance(linear(), cross_entropy, x, y, kind)
    factor = c if kind == "abs" else c**2
    assert_near(importance(linear(), scaled, x, y, kind), {name: factor * value for name, value in once.items()})


def test_mas_of_a_linear_layer_by_hand() -> None:
    model = nn.Linear(2, 2, bias=False).double()
    model.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [0.0, -1.0]])})
    x = torch.tensor([[1.0, 1.0], [2.0, 0.0]], dtype=torch.float64)  # f: (3, -1) and (2, 0); slope 2 f xᵀ
    expected = torch.tensor([[(6 + 8) / 2, (6 + 0) / 2], [(2 + 0) / 2, (2 + 0) / 2]], dtype=torch.float64)
    assert_near(importance(model, cross_entropy, x, torch.zeros(2), "mas"), {"weight": expected})


def test_the_authors_scalar_is_one_number_for_each_parameter() -> None:
    model = build("digits-cnn", 1)
    x, y = torch.randn(5, 1, 8, 8), torch.arange(5)
    found = importance(model, cross_entropy, x, y, "tensor_scalar")
    assert list(found) == [name for name, _ in model.named_parameters()]
    assert all_of(value.shape == () and value.dtype == torch.float32 for value in found.values())


def test_the_exact_sum_needs_one_label_per_example() -> None:
    x, _ = examples(3)
    with pytest.raises(ValueError, match=r"y has shape \(3, 2\); .* one label per example"):
        importance(linear(), cross_entropy, x, torch.zeros(3, 2, dtype=torch.long), "true")


# ---- what it costs


@pytest.mark.slow  # the first use of the meta device takes two seconds
@pytest.mark.parametrize("kind", MEANING)
@pytest.mark.parametrize("name", ["digits-cnn", "mlp"])
def test_the_declared_work_is_what_torch_counts(name: str, kind: Kind) -> None:
    model = build(name, 0)
    shape = (1, 8, 8) if name == "digits-cnn" else (1, 28, 28)
    x, y = torch.randn(70, *shape), torch.randint(10, (70,))
    meter, count = Meter(model, shape, cross_entropy), sum(p.numel() for p in model.parameters())
    with FlopCounterMode(display=False) as counted:
        importance(model, cross_entropy, x, y, kind, batch=16)
    work = estimation("fisher", kind, 70, count, 16)
    assert sum(meter.flops(phase) for phase in work) == pytest.approx(counted.get_total_flops(), rel=0.01)
    once = counted.get_total_flops() / sum(meter.flops(phase) for phase in estimation("fisher", "sq", 70, count))
    assert once == pytest.approx({"true": 10.0, "sampled": 1.4}.get(kind, 1.0), abs=0.15)


@pytest.mark.slow
def test_the_exact_sum_moves_as_much_for_each_label_as_the_empirical_fisher_in_all() -> None:
    meter = Meter(build("digits-cnn", 0), (1, 8, 8), cross_entropy)
    (true,), (once,) = estimation("fisher", "true", 64, 53002), estimation("fisher", "sq", 64, 53002)
    assert meter.step(true).floats == pytest.approx(10 * meter.step(once).floats)
    assert meter.steps(true) == meter.steps(once)
