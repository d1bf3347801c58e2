"""Training on another device than the CPU: every tensor is made there, and what is drawn is drawn on the CPU.

The device is torch's `meta`, which computes shapes only.  Like a GPU it takes no tensors of other devices, and it
cannot say what a value is: so nothing here waits for one either.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim.sgd import sgd as descend

from algorithms import dropout, local, models, stack_sgd
from algorithms.algorithm import Party, Training
from algorithms.dropout import drawn_on_the_cpu
from algorithms.importance import estimating
from algorithms.keeptrace import keep_trace
from algorithms.local import Quadratic, Sgd, seeded
from algorithms.placebo import replaced
from algorithms.stack import together

TRAINING = Training(epochs=2, batch=4, lr=0.1, momentum=0.9, weight_decay=0.01)
META = "meta"


def net():
    seeded(2)
    layers = nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 5)
    return nn.Sequential(*layers, nn.Dropout(0.5), nn.Linear(5, 3))


@pytest.fixture(autouse=True)
def unfused(monkeypatch):
    """Torch has no fused SGD that computes shapes only."""
    monkeypatch.setattr(local, "descend", lambda *args, **how: descend(*args, **{**how, "fused": False}))


def shape(model):
    return (2, 4, 4) if isinstance(model[0], nn.Conv2d) else (48,)


def party(n, model=None):
    model = drawn_on_the_cpu((model or net()).to(META))
    x, y = torch.zeros(n, *shape(model), device=META), torch.zeros(n, dtype=torch.int64, device=META)
    return Party(f"d{n}", 3, model, models.cross_entropy, x, y, round=0, cycle=0, seed=n)


def task(n, model=None):
    device = party(n, model)
    weights = {name: value.detach().clone() for name, value in device.model.state_dict().items()}
    losses = []
    return Sgd(device, weights, TRAINING, (Quadratic(weights, 0.1),), losses=losses)


def there(tensors):
    return {value.device.type for value in tensors.values()} == {META}


def test_no_tensor_of_another_device_is_taken():
    """The control: else this file would show nothing."""
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3, device=META) + torch.zeros(3)


def test_a_device_trains_there():
    one = task(6)
    assert there(one.alone())
    assert len(one.losses) == 2
    assert {loss.device.type for loss in one.losses} == {META}


def test_a_stack_trains_there():
    tasks = [task(6), task(9), task(1)]
    assert all(map(there, stack_sgd.sgd(tasks)))
    assert all(loss.device.type == META for each in tasks for loss in each.losses)


@pytest.mark.parametrize("kind", ["abs", "sq", "true", "mas", "batch_squared"])
def test_importance_is_computed_there(kind):
    devices = [party(5), party(3)]
    found = together([estimating(each, each.model.state_dict(), kind, batch=2) for each in devices])
    assert all(map(there, found))


@pytest.mark.parametrize("placebo", ["shuffled", "mean"])
def test_so_is_its_placebo(placebo):
    assert there(replaced(dict(net().to(META).named_parameters()), placebo, 1, 0))


def test_the_gradient_through_training_is_computed_there():
    device = party(6)
    weights = {name: value.detach().clone() for name, value in device.model.state_dict().items()}
    assert there(keep_trace(device, weights, TRAINING).gradient)


def test_a_model_is_evaluated_there():
    device = party(130)
    assert local.outputs(device.model, device.model.state_dict(), device.x).device.type == META


# Meta convolutions do not know the channels-last layout, which draws follow.
@pytest.mark.parametrize(
    ("train", "model"),
    [(lambda one: stack_sgd.sgd([one]), net), (Sgd.alone, lambda: net()[3:])],
    ids=["in a stack", "alone"],
)
def test_dropout_draws_what_it_draws_on_the_cpu(monkeypatch, train, model):
    found, true = [], dropout.mask

    def noted(layer, ones):
        found.append(true(layer, ones))
        return found[-1]

    for user in (stack_sgd, dropout):
        monkeypatch.setattr(user, "mask", noted)
    train(task(6, model()))
    wanted = masks_of_the_cpu(model())
    assert len(found) == len(wanted) > 0
    assert all(map(torch.allclose, found, wanted))


def masks_of_the_cpu(model):
    """Of 2 epochs over 6 examples in batches of 4, by the layers of a model that trains on the CPU."""
    found = []
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.register_forward_hook(lambda *of: found.append(of))
    device = replace(party(6), model=model, x=torch.ones(6, *shape(model)), y=torch.zeros(6, dtype=torch.int64))
    local.sgd(device, {name: value.abs() + 1 for name, value in model.state_dict().items()}, replace(TRAINING, lr=1e-9))
    return [output / inputs for _, (inputs,), output in found]
