"""Networks that read texts: loss and hits, gradients of examples, double backward, and training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Party, Tensors, Training
from algorithms.importance.importance import importance
from algorithms.models import MODELS, UNLABELLED, build, cross_entropy, hits
from algorithms.training.local import outputs, sgd
from algorithms.training.seeding import seeded
from algorithms.training.unfused import twice_differentiable

torch.set_num_threads(1)  # as in a worker

SMALL = ["char-gru-small", "lstm-tiny"]
V, T = 11, 6


def texts(n: int, draw: int = 0) -> tuple[Tensor, Tensor]:
    """n texts of T tokens and the labels of their positions; some positions have none."""
    generator = torch.Generator().manual_seed(draw)
    x, y = (torch.randint(V, (n, T), generator=generator) for _ in range(2))
    y[0, 2:] = UNLABELLED
    return x, y


# ---- loss and hits


def test_the_loss_of_a_text_is_the_mean_over_its_labelled_positions() -> None:
    logits = torch.randn(3, T, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = texts(3)[1]
    log = logits.exp() / logits.exp().sum(2, keepdim=True)
    expected = [-sum(math.log(log[i, t, y[i, t]]) for t in range(k)) / k for i, k in ((0, 2), (1, T), (2, T))]
    assert cross_entropy(logits, y).tolist() == pytest.approx(expected, rel=1e-12)


def test_with_one_label_the_last_position_answers() -> None:
    logits = torch.randn(4, T, V, generator=torch.Generator().manual_seed(1))
    y = torch.tensor([0, 3, 10, 5])
    assert torch.equal(cross_entropy(logits, y), cross_entropy(logits[:, -1], y))
    for a, b in zip(hits(logits, y), hits(logits[:, -1], y), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(2, T), (2,)])
def test_a_text_without_labels_costs_nothing_and_pulls_nowhere(shape: tuple[int, ...]) -> None:
    logits = torch.randn(2, T, V, requires_grad=True)
    y = torch.full(shape, UNLABELLED)
    losses = cross_entropy(logits, y)
    assert losses.tolist() == [0, 0]
    (slope,) = torch.autograd.grad(losses.sum(), logits)
    assert not slope.any()
    assert [part.tolist() for part in hits(logits, y)] == [[0, 0], [0, 0]]


def test_hits_count_positions_that_are_right_and_those_that_have_labels() -> None:
    said = torch.tensor([[1, 2, 3], [4, 4, 4]])
    y = torch.tensor([[1, 0, UNLABELLED], [4, 4, 0]])
    correct, counted = hits(nn.functional.one_hot(said, V).float(), y)
    assert (correct.tolist(), counted.tolist()) == ([1, 2], [2, 3])
    assert correct.dtype == counted.dtype == torch.long


@pytest.mark.parametrize("name", SMALL)
def test_what_comes_later_in_a_text_changes_nothing_before_it(name: str) -> None:
    model, x = build(name, 0, V), texts(2)[0]
    other = x.clone()
    other[:, 3:] = (x[:, 3:] + 1) % V
    said, changed = model(x), model(other)
    assert torch.equal(said[:, :3], changed[:, :3])
    assert not torch.equal(said[:, 3], changed[:, 3])


# ---- gradients of single examples


class Bag(nn.Module):
    """Reads each word by itself: no recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.softmax = nn.Embedding(V, 4), nn.Linear(4, V)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.softmax(torch.tanh(self.embedding(tokens)))
        return logits


def reader(name: str) -> nn.Module:
    seeded(0)
    return (Bag() if name == "bag" else build(name, 0, V)).double()


@pytest.mark.slow  # the first use of torch.func takes a second
@pytest.mark.parametrize("name", [*SMALL, "bag"])
@pytest.mark.parametrize("labels", ["one", "each"])
def test_importance_is_the_mean_over_gradients_of_single_texts(name: str, labels: str) -> None:
    model = reader(name)
    x, y = texts(5)
    y = y if labels == "each" else y[:, 0]
    absolutes: Tensors = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    squares: Tensors = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for i in range(5):
        model.zero_grad()
        torch.autograd.backward(cross_entropy(model(x[i : i + 1]), y[i : i + 1]).sum())
        for n, p in model.named_parameters():
            assert p.grad is not None
            absolutes[n] += p.grad.abs() / 5
            squares[n] += p.grad.square() / 5
    for found, expected in (
        (importance(model, cross_entropy, x, y, "abs"), absolutes),
        (importance(model, cross_entropy, x, y, "sq"), squares),
    ):
        assert found.keys() == expected.keys()
        for n in found:
            torch.testing.assert_close(found[n], expected[n], rtol=1e-9, atol=1e-15)


@pytest.mark.slow
def test_the_fisher_of_texts_with_one_label_weighs_every_next_token_by_its_probability() -> None:
    model = reader("lstm-tiny")
    x, y = texts(2)
    chances = model(x)[:, -1].detach().softmax(1)  # (n, V)
    expected: Tensors = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for i in range(2):
        for token in range(V):
            loss = cross_entropy(model(x[i : i + 1]), torch.tensor([token])).sum()
            slopes = torch.autograd.grad(loss, list(model.parameters()))
            for n, slope in zip(expected, slopes, strict=True):
                expected[n] += chances[i, token] * slope.square() / 2
    found = importance(model, cross_entropy, x, y[:, 0], "true")
    for n in found:
        torch.testing.assert_close(found[n], expected[n], rtol=1e-9, atol=1e-15)


def test_labels_drawn_for_a_text_are_those_the_model_is_sure_of_and_none_where_there_is_none() -> None:
    class Sure(nn.Module):
        """Says that the next token is the one after this, and is the surer the later it comes."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

        def forward(self, tokens: Tensor) -> Tensor:
            sureness = torch.arange(7.0, 7.0 + T, dtype=torch.float64)[:, None]
            return self.scale * sureness * torch.eye(V, dtype=torch.float64)[(tokens + 1) % V]

    x, y = texts(3)
    meant = torch.where(y == UNLABELLED, y, (x + 1) % V)
    drawn = importance(Sure(), cross_entropy, x, y, "sampled", seed=3)["scale"]
    assert drawn == importance(Sure(), cross_entropy, x, meant, "sq")["scale"]
    assert drawn != importance(Sure(), cross_entropy, x, y, "sq")["scale"]


def test_a_word_that_no_text_has_does_not_matter() -> None:
    x, y = texts(3)
    x = x.clamp(max=V - 2)
    found = importance(build("lstm-tiny", 0, V), cross_entropy, x, y, "sq")
    assert not found["embedding.weight"][V - 1].any()
    assert found["embedding.weight"][x[0, 0]].any()


# ---- double backward


def gradient(model: nn.Module, x: Tensor, y: Tensor, keep: bool = False) -> tuple[Tensor, ...]:
    seeded(4)  # the same dropout each time
    loss = cross_entropy(model(x), y).mean()
    return torch.autograd.grad(loss, list(model.parameters()), create_graph=keep)


def directions(model: nn.Module) -> list[Tensor]:
    generator = torch.Generator().manual_seed(9)
    return [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p) for p in model.parameters()]


def flat(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def product(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The Hessian times `directions`, by a backward through the gradient, as one vector."""
    with twice_differentiable():
        slopes = gradient(model, x, y, keep=True)
        parts = torch.autograd.grad(slopes, list(model.parameters()), grad_outputs=directions(model))
    return flat(parts)


def difference(model: nn.Module, x: Tensor, y: Tensor, step: float = 1e-5) -> Tensor:
    """The same result from central differences of the gradient."""
    slopes = []
    for sign in (1, -2, 1):
        with torch.no_grad():
            for p, direction in zip(model.parameters(), directions(model), strict=True):
                p += sign * step * direction
        slopes.append(flat(gradient(model, x, y)))
    return (slopes[0] - slopes[1]) / (2 * step)


def smooth() -> nn.Module:
    seeded(2)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Softplus(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, V)
    )


class Attention(nn.Sequential):
    """An embedding, attention to all positions, and a softmax layer."""

    def __init__(self) -> None:
        super().__init__(nn.Embedding(V, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, V))

    def forward(self, tokens: Tensor) -> Tensor:
        embedded = self[0](tokens)
        said: Tensor = self[2](self[1](embedded, embedded, embedded, need_weights=False)[0])
        return said


def attention() -> nn.Module:
    seeded(2)
    return Attention()


@pytest.mark.parametrize("name", [*SMALL, "smooth", "attention"])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_hessian_vector_product_is_the_difference_of_gradients(name: str, mode: str) -> None:
    make = {"smooth": smooth, "attention": attention}.get(name, lambda: build(name, 0, V))
    model = make().double().train(mode == "train")
    x, y = texts(3)
    if name == "smooth":
        x, y = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64), y[:, 0]
    exact, measured = product(model, x, y), difference(model, x, y)
    assert float((exact - measured).norm() / exact.norm()) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, design in MODELS.items() if design.input_shape))
def test_the_published_networks_have_hessians_with_dropout_too(name: str) -> None:
    """Steps small enough that hardly a ReLU or a maximum changes sides."""
    model = build(name, 0).double()
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, *(MODELS[name].input_shape or ()), generator=generator, dtype=torch.float64)
    y = torch.tensor([3, 8])
    exact, measured = product(model, x, y), difference(model, x, y, step=1e-9)
    assert float((exact - measured).norm() / exact.norm()) < 1e-4


@pytest.mark.parametrize("name", SMALL)
def test_in_float32_the_fused_layers_have_the_same_hessian(name: str) -> None:
    """On a CPU a float32 LSTM is one operation of oneDNN's; in float64 it is torch's own steps."""
    model, (x, y) = build(name, 0, V), texts(3)
    single = product(model, x, y).double()
    exact = product(model.double(), x, y)
    assert float((single - exact).norm() / exact.norm()) < 1e-5


def test_cudnn_is_off_within_and_as_it_was_afterwards() -> None:
    before = torch.backends.cudnn.enabled
    with twice_differentiable():
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled is before
    with pytest.raises(KeyError), twice_differentiable():
        raise KeyError
    assert torch.backends.cudnn.enabled is before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA: cuDNN's recurrent layers have one gradient only")
@pytest.mark.parametrize("name", SMALL)
def test_on_cuda_too(name: str) -> None:
    model, (x, y) = build(name, 0, V).eval(), texts(3)
    there = product(model.cuda(), x.cuda(), y.cuda()).double().cpu()
    exact = product(model.cpu().double(), x, y)
    assert float((there - exact).norm() / exact.norm()) < 1e-4


# ---- training


@pytest.fixture
def strict() -> Iterator[None]:
    """As in runs: an operation that is not deterministic is an error."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", SMALL)
def test_local_training_is_gradient_descent_and_repeats_bit_for_bit(name: str) -> None:
    model, (x, y) = build(name, 0, V), texts(4)
    start = {n: value.clone() for n, value in model.state_dict().items()}
    expected = {
        n: start[n] - 0.5 * slope for (n, _), slope in zip(model.named_parameters(), gradient(model, x, y), strict=True)
    }
    device = Party("a", 1, model, cross_entropy, x, y, 0, 0, seed=5)
    once, again = (sgd(device, start, Training(epochs=1, batch=4, lr=0.5)) for _ in range(2))
    for n in start:
        torch.testing.assert_close(once[n], expected[n], rtol=1e-5, atol=1e-6)
        assert torch.equal(once[n], again[n])


@pytest.mark.parametrize("name", SMALL)
def test_a_text_model_learns_to_count(name: str) -> None:
    """The next token is the last one plus one: after some epochs every position is right."""
    model = build(name, 0, V)
    x = (torch.arange(8)[:, None] + torch.arange(T)) % V
    y = (x + 1) % V
    device = Party("a", 1, model, cross_entropy, x, y, 0, 0, seed=5)
    weights = {n: value.clone() for n, value in model.state_dict().items()}
    weights = sgd(device, weights, Training(epochs=40, batch=8, lr=1.0, momentum=0.9))
    correct, counted = hits(outputs(model, weights, x), y)
    assert correct.tolist() == counted.tolist() == [T] * 8


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", SMALL)
def test_outputs_come_in_pieces_but_are_those_of_the_model(name: str) -> None:
    model = build(name, 0, V)
    x = torch.arange(203)[:, None] % V
    torch.testing.assert_close(outputs(model, dict(model.state_dict()), x), model(x).detach())
