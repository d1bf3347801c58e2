"""Memory of a device, by hand."""

import pytest
from torch import nn

from algorithms import models
from emulator.forecast.plan import largest
from emulator.forecast.rehearsal import Rehearsal
from emulator.lab.build import lab_of
from emulator.pricing.costs import Costs
from emulator.pricing.memory import activations
from scenarios.load import build
from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow


def test_a_linear_layer_keeps_its_input_and_the_loss_its_logarithms():
    """Per example: 6 inputs and 3 log-probabilities in float32, the label in int64; and one float, their weight."""
    assert activations(nn.Linear(6, 3).to("meta"), (6,), batch=5) == 5 * (6 * 4 + 3 * 4 + 8) + 4


def test_the_digits_network_keeps_what_its_layers_need():
    """Bytes for one 8 x 8 example: x 256; ReLU outputs 8192 + 4096 + 512; pooled 2048 + 1024; the positions of the
    maxima (int64) 4096 + 2048; log-probabilities 40, label 8, its weight 4."""
    expected = 256 + 8192 + 4096 + 512 + 2048 + 1024 + 4096 + 2048 + 40 + 8 + 4
    assert activations(models.build("digits-cnn", 0).to("meta"), (1, 8, 8), batch=1) == expected


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_batch_normalisation_keeps_its_inputs_of_one_example_too(batch):
    """Per example: 6 inputs, 3 outputs of the linear layer, 3 log-probabilities, the label; once: the labels' weight,
    a mean and an inverse deviation of each channel."""
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)).to("meta")
    assert activations(model, (6,), batch) == batch * (24 + 12 + 12 + 8) + 4 + 2 * 12


@pytest.mark.parametrize(("momentum", "buffer"), [(0, 0), (0.9, 212_008)])
def test_parameters_gradients_and_momentum_are_of_the_model_s_size(momentum, buffer):
    lab = lab_of(build(merged(SMALL, {"training": {"momentum": momentum}})))
    messages = {"weights": 212_008, "importance": 7}
    found = largest(Costs(lab, "fedavg", 1), Rehearsal((), (), None, messages, messages, {"importance": 5}))
    assert (found.parameters, found.gradients, found.optimizer) == (212_008, 212_008, buffer)
    assert (found.downloaded, found.uploaded, found.kept) == (212_015, 7, 5)
    assert found.total == 3 * 212_008 + buffer + 7 + 7 + 5 + found.activations
