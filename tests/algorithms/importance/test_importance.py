"""Per-example gradients: against a loop over the examples, and the laws of docs/design/algorithms.md §13."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Loss, Tensors
from algorithms.importance import batched, gradients
from algorithms.importance.importance import Kind, importance
from algorithms.models import build, cross_entropy, input_shape
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker

KINDS: tuple[Kind, Kind] = ("abs", "sq")
OWN = torch.Generator().manual_seed(1)
LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}  # of the largest value in a tensor


def one_by_one(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind) -> Tensors:
    """The definition: one backward per example."""
    model = copy.deepcopy(model).eval()
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in weights.items()}
    for i in range(len(x)):
        gradients = torch.autograd.grad(loss(model(x[i : i + 1]), y[i : i + 1]).sum(), list(weights.values()))
        for name, g in zip(weights, gradients, strict=True):
            sums[name] += g.double().abs() if kind == "abs" else g.double().square()
    return {name: total / len(x) for name, total in sums.items()}


def examples(shape: tuple[int, ...], n: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, *shape, generator=generator, dtype=dtype), torch.randint(10, (n,), generator=generator)


def assert_near(found: Tensors, expected: Tensors, limit: float = 1e-10) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert value.abs().max() > 0
        assert (found[name] - value).abs().max() <= limit * value.abs().max(), name


def odd_convs() -> nn.Module:
    """Strides, dilation and paddings that differ by side; one layer without bias."""
    return nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 4, 3, stride=2, padding=2, dilation=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.LazyLinear(10),
    )


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 10))


def shared() -> nn.Module:
    """A network with the same layer twice in a row."""
    middle = nn.Linear(8, 8)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), middle, nn.Tanh(), middle, nn.Linear(8, 10))


def tied() -> nn.Module:
    """Two layers with one weight."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 10))
    model[4].weight = model[2].weight
    return model


class Borrowed(nn.Module):
    """Calls a layer once and uses its weight once more behind its back."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.linear(torch.tanh(self.inner(x)), self.inner.weight))


def words() -> nn.Module:
    """A Linear layer on a sequence: many rows per example."""
    return nn.Sequential(nn.Unflatten(1, (3, 2)), nn.Linear(2, 5), nn.Tanh(), nn.Flatten(), nn.Linear(15, 10))


def grouped() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 10))


def same_padding() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding="same"), nn.Tanh(), nn.Flatten(), nn.Linear(75, 10))


class Straight(torch.autograd.Function):
    """Signs, with the gradient of the identity, and without the rules that torch.func needs."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return grad


class Signs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(6), nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(Straight.apply(self.one(x)))


class Noise(nn.Module):
    """A weight of each feature times noise, which `draw(x)` draws in eval mode, too."""

    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.draw, self.weight = draw, nn.Parameter(torch.ones(6, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.draw(x)


def batch_norm() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(27, 10))
    with torch.no_grad():
        model(examples((2, 5, 5), 50, torch.float32)[0])  # sets the running statistics
    return model


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Which path the last call took."""
    taken: list[str] = ["fast"]
    slow = gradients.one_by_one

    def watched(*args: object) -> Tensors:
        taken[0] = "general"
        return slow(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("algorithms.importance.importance.one_by_one", watched)
    return lambda: taken[0]


class Attending(nn.Module):
    """Attention to all of three positions."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.out = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.out(self.attend(x, x, x, need_weights=False)[0].flatten(1))
        return said


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_attention_has_gradients_of_single_examples_without_a_warning(kind: Kind, frozen: bool) -> None:
    model, (x, y) = Attending().double(), examples((3, 4), 10)
    model.attend.requires_grad_(not frozen)
    found, wanted = importance(model, cross_entropy, x, y, kind), one_by_one(model, cross_entropy, x, y, kind)
    for name, value in wanted.items():  # the key's bias has no gradient: it moves all of an example's scores alike
        assert torch.allclose(found[name], value, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", ["mlp", "digits-cnn", pytest.param("mnist-cnn", marks=pytest.mark.slow)])
def test_it_is_the_mean_over_single_gradients(
    name: str, dtype: torch.dtype, kind: Kind, chosen: Callable[[], str]
) -> None:
    model = build(name, 1).to(dtype)
    x, y = examples(input_shape(name), 12, dtype)
    found = importance(model, cross_entropy, x, y, kind)
    assert chosen() == "fast"
    assert all_of(value.dtype == dtype for value in found.values())
    assert_near(found, one_by_one(model.double(), cross_entropy, x.double(), y, kind), LIMITS[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_strides_dilation_padding_and_in_place_layers_are_followed(kind: Kind, chosen: Callable[[], str]) -> None:
    x, y = examples((2, 9, 8), 7)
    model = odd_convs().double()
    model(x)
    assert_near(importance(model, cross_entropy, x, y, kind), one_by_one(model, cross_entropy, x, y, kind))
    assert chosen() == "fast"


@pytest.mark.slow  # the first use of torch.func takes a second
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (normed, (6,)),
        (shared, (6,)),
        (tied, (6,)),
        (Borrowed, (6,)),
        (words, (6,)),
        (grouped, (2, 5, 5)),
        (same_padding, (2, 5, 5)),
        (batch_norm, (2, 5, 5)),
        (Signs, (6,)),
    ],
)
def test_other_networks_take_the_general_path_and_agree(
    make: Callable[[], nn.Module], shape: tuple[int, ...], kind: Kind, chosen: Callable[[], str]
) -> None:
    model = make().double()
    x, y = examples(shape, 11)
    assert_near(importance(model, cross_entropy, x, y, kind), one_by_one(model, cross_entropy, x, y, kind))
    assert chosen() == "general"


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randn_like(x),
        lambda x: torch.randn(x.shape, generator=OWN, dtype=x.dtype),
        lambda x: torch.empty(x.shape, dtype=x.dtype).normal_(),  # in place, which vmap refuses
        lambda x: torch.bernoulli(torch.full_like(x, 0.5)) * 2**0.5,
    ],
)
def test_a_network_that_draws_draws_for_each_example(draw: Callable[[Tensor], Tensor]) -> None:
    x, y = examples((6,), 800)
    found = importance(Noise(draw), lambda outputs, _: outputs.sum(1), x, y, "sq")["weight"]
    # An example's gradient is its noise, of mean square 1: the mean of 800 has a standard deviation of 0.05 at most.
    assert ((found - 1).abs() < 0.2).all()
    assert len(found.unique()) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_both_paths_agree(kind: Kind) -> None:
    model = build("digits-cnn", 2).double()
    x, y = examples((1, 8, 8), 10)
    assert_near(importance(model, cross_entropy, x, y, kind), one_path(model, x, y, kind))


def one_path(model: nn.Module, x: Tensor, y: Tensor, kind: Kind) -> Tensors:
    sums = gradients.one_by_one(copy.deepcopy(model), cross_entropy, x, y, kind)
    return {name: total / len(x) for name, total in sums.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [normed, lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 10))])
def test_the_size_of_the_chunks_changes_nothing_but_rounding(
    make: Callable[[], nn.Module], kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make().double()
    x, y = examples((6,), 70)
    whole = importance(model, cross_entropy, x, y, kind)
    for size in (1, 13):
        monkeypatch.setattr(batched, "CHUNK", size)
        monkeypatch.setattr(gradients, "VMAP_CHUNK", size)
        assert_near(importance(model, cross_entropy, x, y, kind), whole, 1e-13)


def test_cutting_the_unfolded_images_changes_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("digits-cnn", 2).double()
    x, y = examples((1, 8, 8), 10)
    whole = importance(model, cross_entropy, x, y, "sq")
    monkeypatch.setattr(batched, "UNFOLDED", 1)
    assert_near(importance(model, cross_entropy, x, y, "sq"), whole, 1e-13)


@pytest.mark.parametrize(("make", "limit"), [(normed, gradients.VMAP_CHUNK), (lambda: nn.Linear(6, 10), batched.CHUNK)])
def test_no_more_than_a_chunk_is_ever_in_the_network(make: Callable[[], nn.Module], limit: int) -> None:
    seen: list[int] = []
    at_once: list[int] = []

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        seen.append(len(y))
        return cross_entropy(outputs, y)

    power = gradients.POWER["sq"]

    def watched(tensor: Tensor) -> Tensor:
        at_once.append(len(tensor))
        return power(tensor)

    x, y = examples((6,), 3 * limit + 1, torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(gradients.POWER, "sq", watched)
        importance(make(), loss, x, y, "sq")
    assert max(at_once) == limit
    assert max(seen) <= limit
    assert len(seen) == 4  # three full chunks and the last example


@pytest.mark.parametrize(
    "make",
    [
        lambda: build("digits-cnn", 3),
        lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 10)),
    ],
)
def test_the_square_of_the_mean_is_at_most_the_mean_of_the_squares(make: Callable[[], nn.Module]) -> None:
    model = make().double()
    x, y = examples((1, 8, 8), 9)
    first = importance(model, cross_entropy, x, y, "abs")
    second = importance(model, cross_entropy, x, y, "sq")
    for name in first:
        assert (first[name].square() <= second[name] * (1 + 1e-12)).all()
        assert (first[name].square() < second[name] * 0.999).any()
    first = importance(model, cross_entropy, x[:1], y[:1], "abs")
    assert_near({n: v.square() for n, v in first.items()}, importance(model, cross_entropy, x[:1], y[:1], "sq"), 1e-13)


def test_a_loss_times_c_gives_c_and_c_squared() -> None:
    def tripled(outputs: Tensor, y: Tensor) -> Tensor:
        return 3 * cross_entropy(outputs, y)

    model = build("digits-cnn", 3).double()
    x, y = examples((1, 8, 8), 9)
    for kind, factor in (("abs", 3), ("sq", 9)):
        once = importance(model, cross_entropy, x, y, kind)
        assert_near(importance(model, tripled, x, y, kind), {n: factor * v for n, v in once.items()}, 1e-13)


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 30), nn.Dropout(0.5), nn.Linear(30, 10))


@pytest.mark.parametrize("extra", [[], [nn.LayerNorm(10)]])
def test_dropout_is_off_and_the_random_state_untouched(extra: list[nn.Module]) -> None:
    model = nn.Sequential(*dropping(), *extra).double().train()
    x, y = examples((6,), 9)
    state = torch.random.get_rng_state()
    found = importance(model, cross_entropy, x, y, "sq")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert_near(found, one_by_one(model, cross_entropy, x, y, "sq"))


@pytest.mark.parametrize("extra", [[], [nn.LayerNorm(10)]])
def test_the_callers_model_is_left_as_it_was(extra: list[nn.Module]) -> None:
    model = nn.Sequential(*dropping(), *extra)
    model.train()
    model[0].eval()
    x, y = examples((6,), 9, torch.float32)
    model[2].weight.grad = torch.ones_like(model[2].weight)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():  # the caller's gradient mode is no business of ours either
        importance(model, cross_entropy, x, y, "abs")
    assert [part.training for part in model] == [False, *[True] * (len(model) - 1)]
    assert torch.equal(model[2].weight.grad, torch.ones_like(model[2].weight))
    assert model[0].weight.grad is None
    assert all_of(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all_of(not part._forward_hooks for part in model.modules())


@pytest.mark.parametrize(
    "make",
    [
        lambda: build("digits-cnn", 0).double(),
        lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 10)).double(),
    ],
)
def test_frozen_parameters_have_no_importance(make: Callable[[], nn.Module]) -> None:
    model = make()
    x, y = examples((1, 8, 8), 5)
    whole = importance(model, cross_entropy, x, y, "sq")
    frozen = next(iter(whole))
    model.get_parameter(frozen).requires_grad_(False)
    del whole[frozen]
    assert_near(importance(model, cross_entropy, x, y, "sq"), whole)


def test_a_wholly_frozen_model_has_none() -> None:
    x, y = examples((6,), 5, torch.float32)
    assert importance(nn.Linear(6, 10).requires_grad_(False), cross_entropy, x, y, "sq") == {}


def label_losses(label: int) -> Loss:
    """√p(label) times its cross-entropy, p held fixed: squares then weigh each label by its probability."""

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        probability = outputs.softmax(1)[:, label].detach()
        return probability.sqrt() * cross_entropy(outputs, torch.full_like(y, label))

    return loss


def test_the_true_fisher_of_a_linear_softmax_is_the_diagonal_of_the_hessian() -> None:
    model = nn.Linear(4, 3).double()
    x, y = examples((4,), 20)
    y = y % 3
    fishers = [importance(model, label_losses(label), x, y, "sq") for label in range(3)]
    fisher = {name: sum(each[name] for each in fishers) for name in ("weight", "bias")}

    def mean_loss(weight: Tensor, bias: Tensor) -> Tensor:
        return cross_entropy(F.linear(x, weight, bias), y).mean()

    hessian = torch.autograd.functional.hessian(mean_loss, (model.weight.detach(), model.bias.detach()))
    expected = {
        "weight": hessian[0][0].reshape(12, 12).diagonal().reshape(3, 4),
        "bias": hessian[1][1].diagonal(),
    }
    assert_near(fisher, expected, 1e-12)  # type: ignore[arg-type]


def test_it_refuses_what_it_cannot_answer() -> None:
    model = nn.Linear(6, 10)
    x, y = examples((6,), 5, torch.float32)
    with pytest.raises(ValueError, match=r"kind is 'cube'; .*'abs'.*'sq'"):
        importance(model, cross_entropy, x, y, "cube")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x has 0 examples"):
        importance(model, cross_entropy, x[:0], y[:0], "sq")
    with pytest.raises(ValueError, match="x has 5 examples and y has 4"):
        importance(model, cross_entropy, x, y[:4], "sq")
    with pytest.raises(ValueError, match=r"the loss has shape \(\); it must be one number per example"):
        importance(model, F.cross_entropy, x, y, "sq")


def test_a_layer_that_mixes_the_batch_is_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10, affine=False, track_running_stats=False))
    x, y = examples((6,), 5, torch.float32)
    with pytest.raises(ValueError, match=r"layer '1' normalises over the batch"):
        importance(model, cross_entropy, x, y, "sq")
