"""The networks by name: their sizes, their seeds, and the loss."""

import math

import pytest
import torch
from torch import nn

from algorithms.models import MODELS, build, cross_entropy, input_shape, mnist_cnn

SIZES = {  # algorithms.md §0; digits-cnn by hand: (9*32+32) + (32*9*64+64) + (256*128+128) + (128*10+10)
    "mnist-cnn": 1_663_370,
    "mlp": 159_010,
    "digits-cnn": 53_002,
}


@pytest.mark.parametrize(("name", "parameters"), SIZES.items())
def test_a_model_has_the_published_number_of_parameters(name: str, parameters: int) -> None:
    assert sum(parameter.numel() for parameter in build(name, 0).parameters()) == parameters


def test_the_mnist_network_has_eight_tensors() -> None:
    assert len(list(build("mnist-cnn", 0).parameters())) == 8


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_takes_its_input_shape_and_gives_ten_logits(name: str) -> None:
    assert build(name, 0)(torch.zeros(3, *input_shape(name))).shape == (3, 10)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_seed_alone_decides_the_initial_weights(name: str) -> None:
    def weights(seed: int) -> torch.Tensor:
        return nn.utils.parameters_to_vector(build(name, seed).parameters())

    first = weights(7)
    torch.rand(3)
    assert torch.equal(weights(7), first)
    assert not torch.equal(weights(8), first)


def test_the_mnist_network_drops_a_fifth_and_any_share_on_request() -> None:
    def share(model: nn.Module) -> list[float]:
        return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]

    assert share(build("mnist-cnn", 0)) == [0.2]
    assert share(mnist_cnn(dropout=0.5)) == [0.5]


def test_an_unknown_model_is_refused_with_the_nearest_name_and_the_list() -> None:
    with pytest.raises(
        ValueError, match=r"no model 'mnist-cn'; did you mean 'mnist-cnn'\?.*digits-cnn, mlp, mnist-cnn"
    ):
        build("mnist-cn", 0)
    with pytest.raises(ValueError, match=r"no model 'zzz'; the models are digits-cnn, mlp, mnist-cnn"):
        input_shape("zzz")


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes() -> None:
    losses = cross_entropy(torch.zeros(4, 10), torch.tensor([0, 1, 2, 3]))
    assert losses.tolist() == pytest.approx([math.log(10)] * 4)
