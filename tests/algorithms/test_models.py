"""The networks by name: their sizes, their seeds, what they take, and the loss on images.  Texts: test_texts.py."""

import math
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from algorithms.models import (
    MODELS,
    build,
    cifar_cnn,
    cifar_cnn_32_64,
    cross_entropy,
    fits,
    hits,
    input_shape,
    mnist_cnn,
    takes,
)
from tests.all_of import all_of
from tests.runs import nets

SIZES = {  # docs/design/algorithms.md §2; digits-cnn by hand: (9*32+32) + (32*9*64+64) + (256*128+128) + (128*10+10)
    "cifar-cnn": 1_756_426,
    "cifar-cnn-32-64": 2_156_490,
    "cifar-cnn-3x3": (9 * 3 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 14 * 14 * 128 + 128) + (128 * 10 + 10),
    "cifar-mlp": 616_610,
    "digits-cnn": 53_002,
    "digits-mlp": (64 * 50 + 50) + (50 * 10 + 10),
    "fedcurv-cnn": 431_080,
    "mlp": 159_010,
    "mlp-50": (784 * 50 + 50) + (50 * 10 + 10),
    "mnist-cnn": 1_663_370,
}
SIZES_OF_CLASSES = [  # docs/design/algorithms.md §2; lstm-tiny and char-gru-small by its formula and by hand
    ("mnist-cnn", 62, 1_690_046),
    ("char-gru", 80, 4_040_784),
    ("char-gru", 86, 4_048_470),
    ("char-gru", 90, 4_053_594),
    ("lstm-small", 10_000, 2_090_800),
    ("lstm-medium", 10_000, 4_331_600),
    ("lstm-large", 10_000, 14_894_800),
    ("lstm-tiny", 2_000, 2 * 2_000 * 32 + 2_000 + 8 * 32 * 32 + 8 * 32),
    ("char-gru-small", 90, 90 * 32 + 3 * 64 * (32 + 64) + 2 * 3 * 64 + 64 * 90 + 90),
]
USUAL = dict.fromkeys(SIZES, 10) | {"char-gru": 90, "char-gru-small": 90}  # classes; all the others: 2,000


@pytest.mark.parametrize(("name", "parameters"), SIZES.items())
def test_a_model_has_the_published_number_of_parameters(name: str, parameters: int) -> None:
    assert sum(parameter.numel() for parameter in build(name, 0).parameters()) == parameters


@pytest.mark.parametrize(("name", "classes", "parameters"), SIZES_OF_CLASSES)
def test_a_model_for_so_many_classes_has_the_published_number_of_parameters(
    name: str, classes: int, parameters: int
) -> None:
    assert sum(parameter.numel() for parameter in build(name, 0, classes).parameters()) == parameters


@pytest.mark.parametrize(("name", "tensors"), [("mnist-cnn", 8), ("cifar-cnn", 10)])
def test_a_network_has_the_published_number_of_tensors(name: str, tensors: int) -> None:
    assert len(list(build(name, 0).parameters())) == tensors


@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("classes", [None, 1, 62])
def test_an_image_model_takes_its_input_shape_and_gives_a_logit_for_each_class(name: str, classes: int | None) -> None:
    assert build(name, 0, classes)(torch.zeros(3, *input_shape(name))).shape == (3, classes or 10)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(SIZES)))
@pytest.mark.parametrize("length", [1, 5])
def test_a_text_model_gives_a_logit_for_each_token_at_each_position(name: str, length: int) -> None:
    tokens = torch.zeros(2, length, dtype=torch.long)
    assert build(name, 0, 7)(tokens).shape == (2, length, 7)
    assert build(name, 0)(tokens).shape == (2, length, USUAL.get(name, 2_000))


def test_the_usual_number_of_classes_may_be_said() -> None:
    said, usual = build("mnist-cnn", 3, 10), build("mnist-cnn", 3)
    assert all_of(torch.equal(a, b) for a, b in zip(said.parameters(), usual.parameters(), strict=True))


def test_less_than_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="classes is 0; a network tells at least 1 class apart"):
        build("mlp", 0, 0)


def two_weights() -> nn.Module:
    return nn.Linear(1, 1)


def as_many(classes: int = 3) -> nn.Module:
    return nn.Linear(1, classes)


def no_network() -> int:
    return 3


def test_an_own_function_gets_the_classes_only_if_it_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(two_weights=two_weights, as_many=as_many, no_network=no_network)
    monkeypatch.setitem(sys.modules, "own_networks", module)  # type: ignore[arg-type]
    assert build("own_networks:two_weights", 0, 5)(torch.zeros(2, 1)).shape == (2, 1)
    assert build("own_networks:as_many", 0, 5)(torch.zeros(2, 1)).shape == (2, 5)
    assert build("own_networks:as_many", 0)(torch.zeros(2, 1)).shape == (2, 3)
    with pytest.raises(TypeError, match=r"own_networks:no_network\(\) must return a torch.nn.Module, not int"):
        build("own_networks:no_network", 0)


@pytest.mark.parametrize(
    ("name", "shape", "tokens", "said"),
    [
        ("mlp", (1, 28, 28), False, True),
        ("mlp", [1, 28, 28], False, True),
        ("mlp", (3, 32, 32), False, False),
        ("mlp", (1, 28, 28), True, False),
        ("char-gru", (80,), True, True),
        ("char-gru", (1,), True, True),
        ("char-gru", (0,), True, False),
        ("char-gru", (80,), False, False),
        ("char-gru", (1, 28, 28), False, False),
        ("own.networks:net", (7, 9), True, True),
    ],
)
def test_what_examples_fit_a_model(name: str, shape: tuple[int, ...], tokens: bool, said: bool) -> None:
    assert fits(name, shape, tokens) is said


def test_what_a_model_takes_is_told_in_words() -> None:
    assert takes("cifar-cnn") == "examples of shape (3, 32, 32)"
    assert takes("lstm-small") == "texts, of any number of int64 tokens"
    with pytest.raises(ValueError, match="lstm-small takes texts, of any number of int64 tokens"):
        input_shape("lstm-small")


@pytest.mark.slow  # the largest have millions of parameters
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_seed_alone_decides_the_initial_weights(name: str) -> None:
    def weights(seed: int) -> torch.Tensor:
        return nn.utils.parameters_to_vector(build(name, seed).parameters())

    first = weights(7)
    torch.rand(3)
    assert torch.equal(weights(7), first)
    assert not torch.equal(weights(8), first)


@pytest.mark.parametrize(
    ("name", "make", "layers"),
    [("mnist-cnn", mnist_cnn, 1), ("cifar-cnn", cifar_cnn, 2), ("cifar-cnn-32-64", cifar_cnn_32_64, 1)],
)
def test_a_convolutional_network_drops_a_fifth_and_any_share_on_request(
    name: str, make: Callable[..., nn.Module], layers: int
) -> None:
    def share(model: nn.Module) -> list[float]:
        return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]

    assert share(build(name, 0)) == [0.2] * layers
    assert share(make(dropout=0.5)) == [0.5] * layers


def test_an_unknown_model_is_refused_with_the_nearest_name_and_the_list() -> None:
    with pytest.raises(
        ValueError, match=r"no model 'mnist-cn'; did you mean 'mnist-cnn'\?.*digits-cnn, .*, mlp, mlp-50, mnist-cnn"
    ):
        build("mnist-cn", 0)
    with pytest.raises(ValueError, match=r"no model 'zzz'; the models are char-gru, .*, mlp, mlp-50, mnist-cnn"):
        input_shape("zzz")


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes() -> None:
    losses = cross_entropy(torch.zeros(4, 10), torch.tensor([0, 1, 2, 3]))
    assert losses.tolist() == pytest.approx([math.log(10)] * 4)


def test_an_image_is_right_when_its_largest_logit_is_that_of_its_label() -> None:
    outputs = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    correct, counted = hits(outputs, torch.tensor([1, 1, 2]))
    assert (correct.tolist(), counted.tolist()) == ([1, 0, 1], [1, 1, 1])
    assert correct.dtype == counted.dtype == torch.long


@pytest.mark.parametrize("shape", [(4,), (3, 10), (4, 5, 10)])
def test_labels_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    y = torch.zeros(4, 3, dtype=torch.long) if len(shape) == 3 else torch.zeros(4, dtype=torch.long)
    for judge in (cross_entropy, hits):
        with pytest.raises(ValueError, match=r"outputs have shape .* and labels .*; they must be \(n, classes\)"):
            judge(torch.zeros(shape), y)


def test_lazy_layers_get_the_weights_of_layers_whose_sizes_are_said() -> None:
    found, wanted = (build(f"{nets.__name__}:{name}", 3, 10, (1, 8, 8)) for name in ("lazy", "said"))
    assert [type(layer) for layer in found] == [type(layer) for layer in wanted]
    assert found.state_dict().keys() == wanted.state_dict().keys()
    assert all_of(torch.equal(value, wanted.state_dict()[name]) for name, value in found.state_dict().items())
    assert all_of(layer.training for layer in found.modules())


def test_a_lazy_layer_that_no_example_reaches_is_refused() -> None:
    with pytest.raises(ValueError, match=r"spare\.weight, spare\.bias has no shape, for no example reaches"):
        build(f"{nets.__name__}:Unreached", 3, 10, (1, 8, 8))
