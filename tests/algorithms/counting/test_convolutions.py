"""What a step's convolutions compute and move, by kind, by hand: batches of 2, 8 x 8 pixels, a dense layer behind."""

from __future__ import annotations

import pytest
from torch import nn

from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter
from algorithms.counting.step_counts import StepCounts
from algorithms.models import cross_entropy

pytestmark = pytest.mark.slow  # the first use of the meta device takes two seconds
BATCH = 2
PIXELS = BATCH * 64


def step(*layers: nn.Module, channels: int) -> StepCounts:
    """Returns the counts of a training step; the last layer gives 8 channels."""
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64, 10))
    return Meter(model, (channels, 8, 8), cross_entropy).step(Phase("train", "batch", BATCH, BATCH))


DENSE = 3 * 2 * BATCH * 8 * 64 * 10  # FLOPs: forward, the gradients of its weights and of its inputs


def test_a_convolution_computes_forward_and_the_gradient_of_its_weights() -> None:
    """It reads 4 channels and writes 8; its gradient reads those, the inputs and the weights, and writes theirs."""
    found, weights = step(nn.Conv2d(4, 8, 3, padding=1, bias=False), channels=4), 8 * 4 * 9
    assert (found.conv, found.grouped, found.pointwise) == (2 * 2 * PIXELS * weights, 0, 0)
    assert found.dense == DENSE
    forward, gradient = 4 * PIXELS + weights + 8 * PIXELS, 8 * PIXELS + 4 * PIXELS + 2 * weights
    assert found.conv_floats == forward + gradient


def test_a_depthwise_convolution_is_grouped() -> None:
    found = step(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), channels=8)
    assert (found.conv, found.grouped, found.pointwise) == (2 * 2 * PIXELS * 8 * 9, 2 * 2 * PIXELS * 8 * 9, 0)
    assert found.dense == DENSE


def test_the_gradient_of_a_1_x_1_convolution_is_a_matrix_product() -> None:
    found, weights = step(nn.Conv2d(4, 8, 1, bias=False), channels=4), 8 * 4
    assert (found.conv, found.grouped, found.pointwise) == (2 * PIXELS * weights, 0, 2 * PIXELS * weights)
    assert found.dense == DENSE + 2 * PIXELS * weights
    assert found.conv_floats == 4 * PIXELS + weights + 8 * PIXELS  # of the forward pass alone


def test_kinds_add_up_behind_one_another() -> None:
    """Behind another layer the gradient of the inputs is needed, too."""
    found = step(nn.Conv2d(4, 8, 1, bias=False), nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), channels=4)
    assert (found.pointwise, found.grouped) == (2 * PIXELS * 32, 3 * 2 * PIXELS * 72)
    assert found.conv == found.pointwise + found.grouped


def test_below_frozen_layers_nothing_is_differentiated() -> None:
    frozen = nn.Conv2d(4, 8, 3, padding=1, bias=False).requires_grad_(False)
    found = step(frozen, channels=4)
    assert found.conv == 2 * PIXELS * 288
    assert found.dense == DENSE * 2 // 3  # nor with respect to its inputs
