"""Declared work against torch's own FLOP counter, for every algorithm."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from algorithms import models
from algorithms.algorithm import Load, Party, Training
from algorithms.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedcurv import FedCurv
from algorithms.fedprox import FedProx

TRAINING = Training(epochs=2, batch=8, momentum=0.9)
EXAMPLES, PROXY = 20, 70
ALGORITHMS = {
    "fedavg": FedAvg(TRAINING),
    "fedprox": FedProx(TRAINING, mu=0.1),
    "fedcl": FedCL(TRAINING, strength=0.5),
    "fedcurv": FedCurv(TRAINING, strength=0.5),
}


def party(model, n):
    torch.manual_seed(0)
    shape = models.input_shape(model)
    return Party(
        *("a", 4, models.build(model, 0), models.cross_entropy, torch.randn(n, *shape), torch.randint(10, (n,))),
        *(0, 0, 1),
    )


def per_example(model):
    """One forward and one backward, counted by torch on the meta device."""
    module = models.build(model, 0).to("meta")
    with FlopCounterMode(display=False) as counter:
        x = torch.empty(8, *models.input_shape(model), device="meta")
        models.cross_entropy(module(x), torch.zeros(8, dtype=torch.long, device="meta")).sum().backward()
    return counter.get_total_flops() / 8


def counted(work):
    with FlopCounterMode(display=False) as counter:
        result = work()
    return counter.get_total_flops(), result


@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "mnist-cnn"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_declared_flops_of_a_device_are_those_that_torch_counts(name, model):
    algorithm, device = ALGORITHMS[name], party(model, EXAMPLES)
    weights = {key: value.clone() for key, value in device.model.state_dict().items()}
    download = dict.fromkeys(algorithm.downloads, weights)
    meter = Meter(models.build(model, 0), models.input_shape(model), models.cross_entropy)
    parameters = sum(value.numel() for value in weights.values())
    phases = algorithm.device_work(Load(0, EXAMPLES, parameters, kinds=algorithm.downloads))
    declared = {phase.name: meter.flops(phase) for phase in phases}
    expected = {"train": TRAINING.epochs * EXAMPLES * per_example(model)}
    if name == "fedcurv":
        expected["fisher"] = EXAMPLES * per_example(model)
    assert declared == pytest.approx(expected, rel=0.01)
    done, _ = counted(lambda: algorithm.train(download, device))
    if name == "fedcurv":  # its Fisher pass is faster than one gradient after the other, and charged as that
        done -= counted(lambda: FedAvg(TRAINING).train(download, device))[0]
        assert done <= 1.1 * expected["fisher"]
    else:
        assert done == pytest.approx(expected["train"], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "mnist-cnn"])
def test_declared_flops_of_the_server_s_importance_are_one_forward_and_one_backward_an_example(model):
    meter = Meter(models.build(model, 0), models.input_shape(model), models.cross_entropy)
    (omega,) = ALGORITHMS["fedcl"].request_work(Load(0, PROXY, 1))
    assert meter.flops(omega) == pytest.approx(PROXY * per_example(model), rel=0.01)
