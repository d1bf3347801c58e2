"""Copies of models, with values and without: constants of the CPU, lengths of sequences, and reparametrised layers."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter
from algorithms.importance.importance import Kind, importance
from algorithms.models import cross_entropy
from algorithms.training.copied import copied

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")  # torch's word about its older one

MEAN = torch.full((8,), 0.3)
TRAIN = Phase("train", "batch", 4, 2)


class Constants(nn.Module):
    """A recurrent layer; `constants`: with what code for the CPU has in it."""

    def __init__(self, constants: bool, packed: bool = False) -> None:
        super().__init__()
        self.constants, self.packed = constants, packed
        self.scale = [torch.ones(8)]
        self.cells, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        if self.packed:
            lengths = torch.full((len(x),), x.shape[1]) if self.constants else [x.shape[1]] * len(x)
            x = pack_padded_sequence(x, lengths, batch_first=True)
        elif self.constants:
            state = torch.zeros(1, len(x), 16), torch.zeros(1, len(x), 16, device="cpu")
            filled = torch.zeros(x.shape)
            filled[:] = x
            x = (filled - MEAN) * self.scale[0]
        states = self.cells(x, state)[0]
        states = pad_packed_sequence(states, batch_first=True)[0] if self.packed else states
        outputs: Tensor = self.head(states[:, -1])
        return outputs


@pytest.mark.slow  # an LSTM takes a second on the meta device
@pytest.mark.parametrize("packed", [False, True])
def test_constants_of_the_cpu_change_no_flops(packed: bool) -> None:
    found, without = (Meter(Constants(each, packed), (5, 8), cross_entropy).flops(TRAIN) for each in (True, False))
    assert found == without > 0


class Looks(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else x


def test_a_model_that_looks_at_values_is_told_so_in_one_line() -> None:
    with pytest.raises(
        ValueError, match=r"^the model cannot be priced on torch's meta device, .* shapes and no values"
    ):
        Meter(Looks(6, 6), (6,), cross_entropy).flops(TRAIN)


NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight_norm": weight_norm,
    "spectral_norm": spectral_norm,
    "parametrizations.weight_norm": parametrizations.weight_norm,
    "parametrizations.spectral_norm": parametrizations.spectral_norm,
}


def network(norm: Callable[[nn.Module], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        norm(nn.Conv2d(1, 2, 3)), nn.Tanh(), nn.Flatten(), norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 3)
    )


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_a_reparametrised_layer_costs_its_products_and_a_step_of_the_power_iteration(norm: str) -> None:
    found, plain = (Meter(network(each), (1, 4, 3), cross_entropy) for each in (NORMS[norm], lambda layer: layer))
    extra = 0
    if "spectral" in norm:  # Wᵀu, W v, and for the norm u·(W v), each step; the gradient of W there is u vᵀ
        extra = sum(4 * 2 * rows * columns + 2 * rows for rows, columns in ((2, 9), (5, 4)))
    per_step = [it.step(Phase("train", "batch", 8, 8)).flops for it in (found, plain)]
    assert per_step[0] - per_step[1] == pytest.approx(extra, rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_a_copy_after_a_step_says_what_its_original_says(norm: str) -> None:
    model, x = network(NORMS[norm]), torch.randn(2, 1, 4, 3)
    model(x).sum().backward()
    if "parametrizations" not in norm:
        with pytest.raises(RuntimeError, match="deepcopy"):
            copy.deepcopy(model)
    assert torch.equal(copied(model).eval()(x), model.eval()(x))


@pytest.mark.parametrize("kind", ["sq", "abs"])
@pytest.mark.parametrize("norm", NORMS)
def test_importance_of_a_reparametrised_layer_is_that_of_single_examples(norm: str, kind: Kind) -> None:
    model, x, y = network(NORMS[norm]), torch.randn(4, 1, 4, 3), torch.tensor([0, 1, 2, 0])
    model(x).sum().backward()  # it has been trained before
    found = importance(model, cross_entropy, x, y, kind)
    model.eval()
    names, parameters = zip(*model.named_parameters(), strict=True)
    singles = [
        torch.autograd.grad(cross_entropy(model(one[None]), label[None]).sum(), parameters)
        for one, label in zip(x, y, strict=True)
    ]
    assert set(found) == set(names)
    for name, of_examples in zip(names, zip(*singles, strict=True), strict=True):
        stacked = torch.stack(of_examples)
        wanted = (stacked.square() if kind == "sq" else stacked.abs()).mean(0)
        assert torch.allclose(found[name], wanted, rtol=1e-4, atol=1e-7)


class Viewing(nn.Module):
    """Its second layer's weight is a view of the first's that is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.kept = self.a.weight.t()

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) @ self.kept.t() @ self.a.weight.t()


def test_a_view_of_a_weight_is_refused_as_a_copy_would_make_it_a_constant() -> None:
    with pytest.raises(ValueError, match="keeps a view of one of its weights"):
        copied(Viewing())
