"""A convolution of each device's own weights as one matrix product: torch's own is the law, in float64."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from algorithms.patches import PatchConv, can_be_patched


@pytest.mark.parametrize(
    ("size", "padding", "bias"), [(3, 0, True), ((3, 2), (1, 2), True), (1, 0, False), (5, 2, True)]
)
@pytest.mark.parametrize("channels", [3, 4])
def test_outputs_and_gradients_are_those_of_the_convolution(size, padding, bias, channels):
    conv = nn.Conv2d(channels, 5, size, padding=padding, bias=bias).double()
    assert can_be_patched(conv)
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)

    x, weights = drawn(4, 2, channels, 7, 6), {name: drawn(4, *value.shape) for name, value in conv.named_parameters()}
    said = [vmap(lambda w, x, m=m: functional_call(m, w, (x,)))(weights, x) for m in (conv, PatchConv(conv))]
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
        nn.Linear(4, 4),
    ],
)
def test_others_stay_as_they_are(conv):
    assert not can_be_patched(conv)
