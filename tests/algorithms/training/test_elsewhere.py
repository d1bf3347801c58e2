"""Training on another device than the CPU: every tensor is made there, but for what dropout follows from.

The device is torch's `meta`, which computes shapes only.  Like a GPU it takes no tensors of other devices, and it
cannot say what a value is: so nothing here waits for one either.
"""

import pytest
import torch
from torch import nn
from torch.optim.sgd import sgd as descend

from algorithms import models
from algorithms.algorithm import Party, Training
from algorithms.importance.importance import estimating
from algorithms.importance.placebo import replaced
from algorithms.keeptrace import keep_trace
from algorithms.stack import together
from algorithms.training import dropout, local, optimizers, stack_model, stack_sgd, transfers
from algorithms.training.dropout import counter_based
from algorithms.training.local import Quadratic, Sgd
from algorithms.training.seeding import seeded
from tests.all_of import all_of

TRAINING = Training(epochs=2, batch=4, lr=0.1, momentum=0.9, weight_decay=0.01)
META = "meta"


def net():
    seeded(2)
    layers = nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 5)
    return nn.Sequential(*layers, nn.Dropout(0.5), nn.Linear(5, 3))


@pytest.fixture(autouse=True)
def unfused(monkeypatch):
    """Torch has no fused SGD that computes shapes only."""
    monkeypatch.setattr(optimizers, "sgd", lambda *args, **how: descend(*args, **{**how, "fused": False}))


def shape(model):
    return (2, 4, 4) if isinstance(model[0], nn.Conv2d) else (48,)


def party(n, model=None):
    model = counter_based((model or net()).to(META))
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
    assert all_of(map(there, stack_sgd.sgd(tasks)))
    assert all_of(loss.device.type == META for each in tasks for loss in each.losses)


@pytest.mark.parametrize("kind", ["abs", "sq", "true", "mas", "batch_squared"])
def test_importance_is_computed_there(kind):
    devices = [party(5), party(3)]
    found = together([estimating(each, each.model.state_dict(), kind, batch=2) for each in devices])
    assert all_of(map(there, found))


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


def test_dropout_alone_and_in_a_stack_follows_from_the_same_numbers(monkeypatch):
    """Two layers in each of 2 epochs of 2 batches: alone they are drawn one by one."""
    found, true = [], dropout.keys

    def noted(calls, generator=None):
        found.append(true(calls, generator))
        return found[-1]

    for user in (stack_model, dropout):
        monkeypatch.setattr(user, "keys", noted)
    task(6).alone()
    alone, found[:] = torch.cat(found), []
    stack_sgd.sgd([task(6)])
    assert len(alone.unique()) == 8
    assert torch.equal(torch.cat(found), alone)


def image_net():
    seeded(3)
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.Dropout2d(0.3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Dropout(0.4)
    return counter_based(nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 3)).double())


def test_a_stack_is_the_loop_there(monkeypatch):
    """In float64, on the CPU, which does what a GPU would do: layers as matrix products, and dropout from numbers."""
    monkeypatch.setattr(transfers, "elsewhere", lambda place: True)
    monkeypatch.setattr(stack_model, "_known", {})
    model, draw = image_net(), torch.Generator().manual_seed(1)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def task(n):
        x = torch.randn(n, 2, 4, 4, dtype=torch.float64, generator=draw)
        device = Party(f"d{n}", 3, model, models.cross_entropy, x, torch.arange(n) % 3, round=0, cycle=0, seed=n)
        return Sgd(device, weights, TRAINING)

    tasks = [task(6), task(9), task(1)]
    for found, one in zip(stack_sgd.sgd(tasks), tasks, strict=True):
        for name, value in one.alone().items():
            torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)
    (known,) = stack_model._known.values()
    assert {type(layer).__name__ for layer in known.model} >= {
        "StackConv",
        "StackLinear",
        "_CounterBasedDropout",
        "_CounterBasedDropout2d",
    }


def test_layers_keep_their_hooks_and_attributes_there(monkeypatch):
    """A hook that doubles, and a network that asks a layer for its inputs."""
    monkeypatch.setattr(transfers, "elsewhere", lambda place: True)

    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 3)
            self.fc.register_forward_hook(lambda layer, given, output: 2 * output)

        def forward(self, x):
            return self.fc(x.view(-1, self.fc.in_features))

    for model in (Asks(), nn.Linear(6, 3)):
        x = torch.randn(2, 4, 6)
        weights = {name: torch.stack([value, 3 * value]) for name, value in model.named_parameters()}
        found = stack_model.StackModel(model).outputs("float32", weights, x, ())
        torch.testing.assert_close(found[0], model(x[0]))
        wanted = torch.func.functional_call(model, {name: value[1] for name, value in weights.items()}, (x[1],))
        torch.testing.assert_close(found[1], wanted)


class Counts(nn.Module):
    """With a buffer that it changes whenever it is used, and weights with two names."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head.weight = self.fc.weight
        self.register_buffer("uses", torch.zeros(()))

    def forward(self, x):
        self.uses += 1
        return self.head(self.fc(x))


def test_a_model_that_is_not_simple_is_evaluated_as_on_the_cpu(monkeypatch):
    model, x = Counts(), torch.randn(3, 4)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    wanted = local.outputs(model, weights, x)
    monkeypatch.setattr(transfers, "elsewhere", lambda place: True)
    assert torch.equal(local.outputs(model, weights, x), wanted)
    assert weights["uses"] == 0


def test_test_shards_of_a_stack_are_looked_at_in_pieces(monkeypatch):
    monkeypatch.setattr(transfers, "elsewhere", lambda place: True)
    monkeypatch.setattr(local, "PIECE_ON_GPU", 6)
    model = nn.Sequential(nn.Linear(4, 3))
    weights = [{name: k * value.detach() for name, value in model.named_parameters()} for k in (1, 2, 3)]
    xs = [torch.randn(n, 4) for n in (5, 0, 3)]
    for found, each, x in zip(stack_model.outputs(model, weights, xs), weights, xs, strict=True):
        torch.testing.assert_close(found, torch.func.functional_call(model, each, (x,)))
