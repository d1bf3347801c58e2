"""FLOPs by hand: 2 for each multiply-add of a layer's products, with and without its gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.algorithm import Pass, Phase
from algorithms.counting.cost import Meter
from algorithms.counting.flops import counter
from algorithms.models import cross_entropy

pytestmark = pytest.mark.slow  # the first use of the meta device takes two seconds


@dataclass(frozen=True)
class Hand:
    """FLOPs of one example: of a forward pass, of training where the layer is the first one, and where a parameter
    stands before it, whose gradient needs that of the layer's inputs; the last also with the layer's own frozen."""

    forward: int
    first: int
    behind: int
    frozen: int


def layer(forward: int) -> Hand:
    """The gradient of the weights and that of the inputs take as much as the forward pass each."""
    return Hand(forward, 2 * forward, 3 * forward, 2 * forward)


class Applied(nn.Module):
    """A function of the examples and of one matrix."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.function, self.matrix = function, nn.Parameter(torch.ones(*shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.matrix)


class Pairs(nn.Bilinear):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x[:, : self.in1_features], x[:, self.in1_features :])


class States(nn.Module):
    def __init__(self, recurrent: nn.RNNBase) -> None:
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.recurrent(x)[0]
        return states


class Attention(nn.MultiheadAttention):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, need_weights=False)[0]


def attended(x: Tensor, matrix: Tensor) -> Tensor:
    q = (x @ matrix)[:, None]
    return F.scaled_dot_product_attention(q, q, q)


def recurrent(positions: int, inputs: int, states: int) -> Hand:
    """`inputs`, `states`: FLOPs of a position's products with these.  The first state is 0 and needs no gradient."""
    forward, weights = positions * (inputs + states), positions * (inputs + states)
    to_states, to_inputs = (positions - 1) * states, positions * inputs
    return Hand(
        forward,
        forward + weights + to_states,
        forward + weights + to_states + to_inputs,
        forward + to_states + to_inputs,
    )


def attention(first: int, last: int, products: int) -> Hand:
    """`first`, `last`: products of the inputs, and of what comes out, with weights; `products`: of two activations."""
    forward = first + last + products
    return Hand(forward, 2 * first + 3 * last + 3 * products, 3 * forward, 2 * (first + last) + 3 * products)


T = 5  # positions of a sequence
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Hand]] = {
    "linear": (lambda: nn.Linear(6, 4), (6,), layer(2 * 6 * 4)),
    "linear at each position": (lambda: nn.Linear(6, 4), (T, 6), layer(T * 2 * 6 * 4)),
    "vector": (lambda: Applied(torch.matmul, 6), (6,), layer(2 * 6)),
    "vector at each position": (lambda: Applied(torch.matmul, 6), (T, 6), layer(T * 2 * 6)),
    "matrix of each example": (
        lambda: Applied(lambda x, matrix: torch.stack([matrix @ row for row in x]), 4, 6),
        (6,),
        layer(2 * 4 * 6),
    ),
    "bilinear": (  # products with W, and the outputs' or the inputs' 5 * 4 that are left; two inputs have gradients
        lambda: Pairs(3, 4, 5),
        (7,),
        Hand(2 * (60 + 12), 2 * 2 * (60 + 12), 4 * 2 * (60 + 12), 3 * 2 * (60 + 12)),
    ),
    "einsum": (
        lambda: Applied(lambda x, matrix: torch.einsum("nti,oi->nto", x, matrix), 4, 6), (T, 6), layer(T * 2 * 6 * 4)
    ),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, padding=1), (4, 5, 5), layer(2 * 25 * 6 * 4 * 9)),
    "strided": (lambda: nn.Conv2d(4, 6, 3, stride=2), (4, 7, 7), layer(2 * 9 * 6 * 4 * 9)),
    "dilated": (lambda: nn.Conv2d(4, 6, 3, dilation=2), (4, 7, 7), layer(2 * 9 * 6 * 4 * 9)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (4, 5, 5), layer(2 * 25 * 6 * 2 * 9)),
    "grouped and strided": (lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), (4, 7, 7), layer(2 * 9 * 6 * 2 * 9)),
    "depthwise": (lambda: nn.Conv2d(96, 96, 3, padding=1, groups=96), (96, 5, 5), layer(2 * 25 * 96 * 9)),
    "depthwise, two each": (lambda: nn.Conv2d(4, 8, 3, groups=4), (4, 5, 5), layer(2 * 9 * 8 * 9)),
    "1-d": (lambda: nn.Conv1d(4, 6, 3), (4, 7), layer(2 * 5 * 6 * 4 * 3)),
    "1-d, grouped": (lambda: nn.Conv1d(4, 6, 3, groups=2), (4, 7), layer(2 * 5 * 6 * 2 * 3)),
    "3-d": (lambda: nn.Conv3d(4, 6, 2), (4, 3, 3, 3), layer(2 * 8 * 6 * 4 * 8)),
    "3-d, grouped": (lambda: nn.Conv3d(4, 6, 2, groups=2), (4, 3, 3, 3), layer(2 * 8 * 6 * 2 * 8)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3), (4, 5, 5), layer(2 * 25 * 4 * 6 * 9)),
    "transposed, strided": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (4, 5, 5), layer(2 * 25 * 4 * 6 * 9)),
    "transposed, grouped": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), (4, 5, 5), layer(2 * 25 * 4 * 3 * 9)),
    "transposed, 1-d, grouped": (lambda: nn.ConvTranspose1d(4, 6, 3, groups=2), (4, 5), layer(2 * 5 * 4 * 3 * 3)),
    "transposed, 3-d": (lambda: nn.ConvTranspose3d(4, 6, 2), (4, 3, 3, 3), layer(2 * 27 * 4 * 6 * 8)),
    "rnn": (lambda: States(nn.RNN(6, 4, batch_first=True)), (T, 6), recurrent(T, 2 * 4 * 6, 2 * 4 * 4)),
    "gru": (lambda: States(nn.GRU(6, 4, batch_first=True)), (T, 6), recurrent(T, 2 * 12 * 6, 2 * 12 * 4)),
    "lstm": (lambda: States(nn.LSTM(6, 4, batch_first=True)), (T, 6), recurrent(T, 2 * 16 * 6, 2 * 16 * 4)),
    "attention": (lambda: Applied(attended, 6, 4), (T, 6), attention(T * 2 * 6 * 4, 0, 2 * 2 * T * T * 4)),
    "attention of two heads": (
        lambda: Attention(6, 2, batch_first=True),
        (T, 6),
        attention(T * 3 * 2 * 6 * 6, T * 2 * 6 * 6, 2 * 2 * T * T * 6),
    ),
}  # fmt: skip


class Behind(nn.Module):
    """The layer with a parameter before it that multiplies no matrix."""

    def __init__(self, layer: nn.Module, frozen: bool) -> None:
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(())), layer.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(self.scale * x)
        return outputs


def summed(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs.reshape(len(y), -1).sum(1)


PASSES: dict[str, Pass] = {"train": "batch", "per example": "each"}


@pytest.mark.parametrize("name", LAYERS)
def test_a_forward_pass_costs_the_products_of_its_layers(name: str) -> None:
    make, shape, hand = LAYERS[name]
    assert Meter(make(), shape, summed).flops(Phase("evaluate", "forward", 6, 3)) == 6 * hand.forward


@pytest.mark.parametrize("kind", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_cost_as_much_where_they_are_needed(name: str, kind: Pass) -> None:
    make, shape, hand = LAYERS[name]
    networks = make(), Behind(make(), frozen=False), Behind(make(), frozen=True)
    found = [Meter(network, shape, summed).flops(Phase("pass", kind, 6, 3)) for network in networks]
    assert found == [6 * hand.first, 6 * hand.behind, 6 * hand.frozen]


@pytest.mark.parametrize("groups", [1, 2, 4, 16])
def test_a_hessian_vector_pass_is_three_gradients_whatever_the_groups(groups: int) -> None:
    """A convolution behind another one, tanh between them: 9 F, of which a first layer takes 5."""
    first, second = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.Conv2d(16, 16, 3, padding=1, groups=groups)
    network = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Flatten(), nn.Linear(16 * 64, 10))
    of_first, of_second, of_last = 2 * 64 * 16 * 9, 2 * 64 * 16 * 16 * 9 // groups, 2 * 16 * 64 * 10
    found = Meter(network, (1, 8, 8), cross_entropy).flops(Phase("reverse", "batch", 0, 4, second_order=4))
    assert found == 4 * (5 * of_first + 9 * (of_second + of_last))


@pytest.mark.parametrize(
    ("product", "shapes", "forward", "backward"),
    [
        (torch.mv, [(3, 4), (4,)], 2 * 12, 2 * 2 * 12),
        (torch.addmv, [(3,), (3, 4), (4,)], 2 * 12, 2 * 2 * 12),
        (torch.addr, [(3, 4), (3,), (4,)], 2 * 12, 2 * 2 * 12),
        (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)], 2 * 2 * 60, 2 * 2 * 2 * 60),
        (lambda x, one, two: (1 * x).addmm_(one, two), [(3, 5), (3, 4), (4, 5)], 2 * 60, 2 * 2 * 60),
        (lambda x, one, two: (1 * x).baddbmm_(one, two), [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 240, 2 * 240),
        (torch.cdist, [(30, 4), (50, 4)], 2 * 30 * 50 * 4, 2 * 2 * 30 * 50 * 4),
        (torch.conv_tbc, [(10, 2, 3), (3, 3, 4), (4,)], 8 * 2 * 2 * 36, 2 * 8 * 2 * 2 * 36),
        (torch.dot, [(4,), (4,)], 2 * 4, 0),  # a number times a vector: elements
        (torch.outer, [(3,), (4,)], 2 * 12, 0),
        (torch.mul, [(3, 4), (4,)], 0, 0),
    ],
)  # fmt: skip
def test_products_that_torch_does_not_count(
    product: Callable[..., Tensor], shapes: list[tuple[int, ...]], forward: int, backward: int
) -> None:
    factors = [torch.empty(shape, device="meta", requires_grad=True) for shape in shapes]
    with counter() as counted:
        result = product(*factors).sum()
    assert counted.get_total_flops() == forward
    with counter() as counted:
        result.backward()
    assert counted.get_total_flops() == backward
