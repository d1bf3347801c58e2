"""Layers of each device's own weights as matrix products: torch's own are the law, in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from algorithms.training import stack_model
from algorithms.training.local import seeded_step
from algorithms.training.stack_layers import StackConv, StackFlatten, StackLinear, instead_of, takes_stacks


def swapped(layer):
    other = copy.deepcopy(layer)
    other.__class__ = instead_of(layer)
    return other


@pytest.mark.parametrize(
    ("size", "padding", "bias"), [(3, 0, True), ((3, 2), (1, 2), True), (1, 0, False), (5, 2, True)]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_outputs_and_gradients_are_those_of_the_convolution(size, padding, bias, channels):
    conv = nn.Conv2d(channels, 5, size, padding=padding, bias=bias).double()
    other = swapped(conv)
    assert type(other) is StackConv
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)

    x, weights = drawn(4, 2, channels, 7, 6), {name: drawn(4, *value.shape) for name, value in conv.named_parameters()}
    said = [vmap(lambda w, x, m=m: functional_call(m, w, (x,)))(weights, x) for m in (conv, other)]
    pull = drawn(*said[0].shape)
    torch.testing.assert_close(said[1], said[0])
    grads = [torch.autograd.grad((each * pull).sum(), [x, *weights.values()]) for each in said]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, stride=2),
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv1d(4, 4, 3),
        nn.Bilinear(4, 4, 4),
    ],
)
def test_others_stay_as_they_are(conv):
    assert instead_of(conv) is None


def test_on_a_cpu_convolutions_stay_and_dense_layers_do_not():
    assert instead_of(nn.Conv2d(4, 4, 3), on_cpu=True) is None
    assert instead_of(nn.Linear(4, 4), on_cpu=True) is StackLinear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 6), (2, 3, 6)])
def test_a_dense_layer_too_and_its_gradient_has_the_weights_order(shape, bias):
    layer = nn.Linear(6, 5, bias=bias).double()
    x, y = torch.randn(4, *shape, dtype=torch.float64), torch.randn(4, *shape[:-1], 5, dtype=torch.float64)
    weights = {
        name: torch.randn(4, *value.shape, dtype=torch.float64, requires_grad=True)
        for name, value in layer.named_parameters()
    }
    said = [vmap(lambda w, x, m=m: functional_call(m, w, (x,)))(weights, x) for m in (layer, swapped(layer))]
    torch.testing.assert_close(said[1], said[0])
    one, other = (torch.autograd.grad((each * y).sum(), list(weights.values())) for each in said)
    for wanted, found in zip(one, other, strict=True):
        torch.testing.assert_close(found, wanted)
    assert other[0].is_contiguous()


def dense(*more):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Dropout(0.5), *more, nn.Linear(8, 3, bias=False))


@pytest.mark.parametrize("training", [True, False])
def test_a_sequence_of_layers_that_know_stacks_is_the_network_of_each_device(training):
    """As torch calls it with each device's weights, and with the dropout that this drew."""
    model = dense(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).double().train(training)
    assert takes_stacks(model)
    weights = {name: torch.randn(4, *value.shape).double() for name, value in model.named_parameters()}
    for value in weights.values():
        value.requires_grad_()
    x, pull = torch.randn(4, 5, 3, 2, 2).double(), torch.randn(4, 5, 3).double()
    of_all = stack_model.StackModel(model)
    seeds, drawn = [3, 5, 8, 13], of_all.draw([3, 5, 8, 13], 2, x, [5] * 4) if training else ()
    said = of_all.outputs("float32", weights, x, drawn)
    wanted = []
    for k, seed in enumerate(seeds):
        seeded_step(seed, 2)  # as local.sgd does before a step
        wanted.append(functional_call(model, {name: value[k] for name, value in weights.items()}, (x[k],)))
    torch.testing.assert_close(said, torch.stack(wanted))
    grads = [torch.autograd.grad((each * pull).sum(), list(weights.values())) for each in (said, torch.stack(wanted))]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("axes", [(1, -1), (1, 2), (2, -1), (-2, -1), (0, 1)])
def test_flattening_leaves_the_devices_apart(axes):
    x = torch.randn(4, 5, 3, 2, 2)
    one = nn.Flatten(*axes)
    assert torch.equal(StackFlatten(*axes)(x), torch.stack([one(each) for each in x]))


def test_what_a_network_does_besides_its_layers_is_done_for_each_device():
    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x).sum(1)

    assert not takes_stacks(Own(nn.Linear(2, 2)))
    assert not takes_stacks(dense(nn.Softmax(1)))
    for hooked in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))):
        hooked.register_forward_hook(lambda layer, given, output: output.sum(1))
        assert not takes_stacks(nn.Sequential(hooked))


def test_a_network_to_which_a_hook_is_added_is_looked_at_anew():
    """An algorithm may add one for a while."""
    model, x = nn.Sequential(nn.Linear(2, 3)), torch.randn(4, 5, 2)
    weights = {name: torch.randn(4, *value.shape) for name, value in model.named_parameters()}

    def said():
        return stack_model.stack_model(model).outputs("float32", weights, x, ())

    before = said()
    handle = model[0].register_forward_hook(lambda layer, given, output: 2 * output)
    torch.testing.assert_close(said(), 2 * before)
    handle.remove()
    assert torch.equal(said(), before)
