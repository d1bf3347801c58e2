"""A network may keep what it likes: whoever uses it next begins with what was built, and the weights that he gives."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from algorithms import models, stack
from algorithms.algorithm import Party, Tensors, Training
from algorithms.course import alone
from algorithms.fedavg import FedAvg
from algorithms.importance.importance import estimating
from algorithms.keeptrace import keep_trace
from algorithms.training import local
from algorithms.training.as_built import has_changed, remember, restore
from algorithms.training.seeding import seeded
from algorithms.training.tensors import load, tensors_of
from tests.algorithms import made
from tests.all_of import all_of

TRAINING = Training(epochs=2, batch=3, lr=0.1)


@dataclass
class Diary:
    lines: list[int] = field(default_factory=list)

    def note(self) -> float:
        """Adds a line, and returns the number of lines including it."""
        self.lines.append(1)
        return float(len(self.lines))

    def hook(self, _: nn.Module, __: Any, output: Tensor) -> Tensor:
        return output + self.note()


class Net(nn.Module):
    """A dense layer; `keep` is called in each forward pass, with the network and its inputs."""

    def __init__(self, keep: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.a, self.drop = nn.Linear(3, 3), nn.Dropout(0.0)
        self.keep = keep
        self.register_buffer("seen", torch.zeros(3), persistent=False)
        self.tensor, self.array, self.count, self.state = torch.zeros(3), np.zeros(3), 0, None
        self.row, self.nested, self.names, self.last = [0], {"x": [1]}, {"x"}, deque([1], 2)
        self.python, self.numpy, self.torch = random.Random(1), np.random.default_rng(1), torch.Generator()
        self.counter, self.diary, self.space = itertools.count(), Diary(), SimpleNamespace(n=0)
        self.draw, self.drawn = random.Random(2).random, np.random.default_rng(2).random
        self.diaries, self.noting = (Diary(),), partial(Diary.note, Diary())
        self.register_buffer("spread", torch.zeros(1).expand(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        more = self.keep(self, x.detach())
        said: Tensor = self.drop(self.a(x)) + (0.0 if more is None else more)
        return said


def running(net: Any, x: Tensor) -> Tensor:
    net.seen = 0.9 * net.seen + 0.1 * x.mean(0)
    found: Tensor = net.seen
    return found


def hidden(net: Any, x: Tensor) -> Tensor:
    net.state = x.sum() if net.state is None else net.state + x.sum()
    found: Tensor = net.state
    return found


def freezing(net: Any, x: Tensor) -> float:
    net.count += 1
    net.a.bias.requires_grad_(net.count < 3)
    return 0.0


def growing(net: Any, x: Tensor) -> Tensor:
    if not hasattr(net, "more"):
        net.more = nn.Linear(3, 3).requires_grad_(False)
    net.more.weight.data.add_(1.0)
    found: Tensor = net.more.weight.detach().sum()
    return found


def hooking(net: Any, x: Tensor) -> Tensor:
    net.a.register_forward_hook(lambda _, __, output: 2 * output)
    return torch.zeros(())


KEEPING: dict[str, Callable[[Any, Tensor], Any]] = {
    "a buffer that is not saved": running,
    "the same in place": lambda net, x: net.seen.add_(x.mean(0)).clone(),
    "a tensor": lambda net, x: net.tensor.add_(x.mean(0)).clone(),
    "a hidden state": hidden,
    "a counter": lambda net, x: setattr(net, "count", net.count + 1) or float(net.count),
    "an array": lambda net, x: float(np.add(net.array, 1, out=net.array).sum()),
    "a list": lambda net, x: net.row.append(1) or float(sum(net.row)),
    "a list in a dict": lambda net, x: net.nested["x"].append(1) or float(sum(net.nested["x"])),
    "a set": lambda net, x: net.names.add(len(net.names)) or float(len(net.names)),
    "a deque": lambda net, x: net.last.append(net.last[-1] + 1) or float(net.last[0]),
    "Python's generator": lambda net, x: net.python.random(),
    "NumPy's generator": lambda net, x: net.numpy.random(),
    "torch's generator": lambda net, x: float(torch.rand(1, generator=net.torch)),
    "an iterator": lambda net, x: float(next(net.counter)),
    "an object": lambda net, x: net.diary.lines.append(1) or float(len(net.diary.lines)),
    "an object in a tuple": lambda net, x: net.diaries[0].note(),
    "an object of a partial": lambda net, x: net.noting(),
    "a method of Python's generator": lambda net, x: net.draw(),
    "a method of NumPy's generator": lambda net, x: net.drawn(),
    "one value that stands for several": lambda net, x: net.spread[:1].add_(1.0).clone(),
    "a namespace": lambda net, x: setattr(net.space, "n", net.space.n + 1) or float(net.space.n),
    "a layer's setting": lambda net, x: setattr(net.drop, "p", min(0.9, net.drop.p + 0.1)),
    "what is trained": freezing,
    "a layer": growing,
    "a hook": hooking,
}


def closing() -> Net:
    """A counter, a list and a tensor that only a hook's closure knows."""
    count, values, total = 0, [0.0], torch.zeros(3)

    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        nonlocal count
        count += 1
        values.append(float(count))
        return output + sum(values) + total.add_(1.0).clone()

    net = Net(lambda net, x: None)
    net.a.register_forward_hook(hook)
    return net


def recording() -> Net:
    """A feature extractor: forward reads what a hook has kept, which is a method of an object that it also has."""
    net = Net(lambda net, x: float(len(net.diary.lines)))
    net.a.register_forward_hook(net.diary.hook)
    return net


HOOKED: dict[str, Callable[[], Net]] = {"a hook's closure": closing, "an object that a hook shares": recording}


def built(what: str) -> nn.Module:
    seeded(1)
    return HOOKED[what]() if what in HOOKED else Net(KEEPING[what])


def party(model: nn.Module, name: str) -> Party:
    return made.party(model, name, 7, draw=ord(name), shape=(3,), devices=2, seed=ord(name))


def trained(device: Party, weights: Tensors) -> Tensors:
    return local.sgd(device, weights, TRAINING)


def traced(device: Party, weights: Tensors) -> Tensors:
    return keep_trace(device, weights, TRAINING).gradient


def estimated(device: Party, weights: Tensors) -> Tensors:
    return alone(estimating(device, weights, "sq"))


def evaluated(device: Party, weights: Tensors) -> Tensors:
    return {"": local.outputs(device.model, weights, device.x)}


WHATS = [*KEEPING, *HOOKED]


# torch.func refuses to write outside of what it maps.
UNMAPPED = ("a buffer that is not saved", "the same in place", "a tensor", "one value that stands for several")
USES = [
    (what, use)
    for what in WHATS
    for use in (trained, evaluated, estimated)
    if use is not estimated or what not in UNMAPPED
]


@pytest.mark.parametrize(("what", "use"), USES)
def test_a_device_starts_from_its_download_alone(what: str, use: Callable[[Party, Tensors], Tensors]) -> None:
    own = built(what)
    weights = {name: value.clone() for name, value in tensors_of(own).items()}
    wanted = use(party(own, "b"), weights)  # a network that nobody has used
    shared = remember(built(what))
    for earlier in (trained, evaluated):
        earlier(party(shared, "a"), weights)
        found = use(party(shared, "b"), weights)
        assert wanted.keys() == found.keys() != set()
        assert all_of(torch.equal(found[name], value) for name, value in wanted.items())


@pytest.mark.parametrize("what", WHATS)
def test_without_that_it_would_start_from_what_others_left(what: str) -> None:
    """The control: what `Net` keeps does play a part."""
    own = built(what)
    weights = {name: value.clone() for name, value in tensors_of(own).items()}
    wanted = local.outputs(own.train(), weights, party(own, "b").x), trained(party(built(what), "b"), weights)
    if what == "a layer":  # which is not in the weights
        with pytest.raises(RuntimeError):
            trained(party(own, "a"), weights)
        return
    trained(party(own, "a"), weights)
    found = local.outputs(own, weights, party(own, "b").x), trained(party(own, "b"), weights)
    assert any(not torch.equal(one, other) for one, other in zip(found[:1], wanted[:1], strict=True)) or any(
        not torch.equal(found[1][name], value) for name, value in wanted[1].items()
    )


@pytest.mark.parametrize("what", WHATS)
def test_whoever_asks_is_told_that_it_keeps_something(what: str) -> None:
    model = remember(built(what))
    weights = {name: value.clone() for name, value in tensors_of(model).items()}
    assert not has_changed(model)
    trained(party(model, "a"), weights)
    assert has_changed(model)
    restore(model)
    assert not has_changed(model)


@pytest.mark.parametrize("name", ["digits-cnn", "char-gru-small", "lstm-tiny"])
def test_ours_keep_nothing(name: str) -> None:
    model = remember(models.build(name, 0))
    x = torch.rand(2, 1, 8, 8) if name == "digits-cnn" else torch.ones(2, 5, dtype=torch.int64)
    y = torch.zeros(x.shape[0] if x.is_floating_point() else x.shape, dtype=torch.int64)
    weights = {name: value.clone() for name, value in tensors_of(model).items()}
    local.sgd(Party("", 1, model, models.cross_entropy, x, y, 0, 0, 1), weights, TRAINING)
    local.outputs(model, weights, x)
    assert not has_changed(model)


def test_an_error_leaves_nothing_either() -> None:
    """As training that froze what it does not train."""
    model = remember(Net(lambda net, x: None))
    weights = {name: value.clone() for name, value in tensors_of(model).items()}
    broken = party(model, "a")
    with pytest.raises(RuntimeError):
        local.sgd(
            Party("", 1, model, models.cross_entropy, broken.x[:, :2], broken.y, 0, 0, 1),
            weights,
            TRAINING,
            only="a.bias",
        )
    assert not model.a.weight.requires_grad
    load(model, weights)
    assert model.a.weight.requires_grad


def test_a_hook_knows_its_network_still() -> None:
    """Put back in place: in a copy this hook would fill the list of the network that it was copied from."""
    net = Net(lambda net, x: None)
    net.row = []
    net.a.register_forward_hook(lambda _, __, output: net.row.append(float(output.sum().detach())))
    remember(net)
    for _ in range(2):
        restore(net)
        net(torch.ones(2, 3))
        assert len(net.row) == 1


def test_copies_and_pickles_are_networks_of_their_own() -> None:
    model = remember(nn.Linear(2, 2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.extra = 1
        restore(other)
        assert other.extra == 1
        assert other.state_dict().keys() == model.state_dict().keys()


def test_what_cannot_be_copied_stays() -> None:
    class Locked(Net):
        def __init__(self) -> None:
            super().__init__(lambda net, x: None)
            self.stream = (number for number in range(3))

    model = remember(Locked())
    next(model.stream)
    restore(model)
    assert next(model.stream) == 1


def test_devices_of_one_job_that_train_one_after_the_other_do_not_meet() -> None:
    """Two courses whose tasks are of different sorts share a network."""
    model = remember(built("a counter"))
    down = {"weights": {name: value.clone() for name, value in tensors_of(model).items()}}
    algorithms = [FedAvg(TRAINING), FedAvg(Training(epochs=1, batch=3, lr=0.1))]
    courses = [each.course(down, party(model, name)) for each, name in zip(algorithms, "ab", strict=True)]
    wanted = [each.train(down, party(built("a counter"), name)) for each, name in zip(algorithms, "ab", strict=True)]
    for reply, expected in zip(stack.together(courses), wanted, strict=True):
        found = reply.upload["weights"]
        assert found.keys() == down["weights"].keys()
        assert all_of(torch.equal(found[name], value) for name, value in expected.upload["weights"].items())


def test_a_look_at_a_weight_stays_one() -> None:
    """As torch.nn.utils.spectral_norm keeps one: to put back its numbers would put back the weight's."""
    model = nn.Linear(2, 2)
    model.look = model.weight.data
    remember(model)
    model.weight.data.fill_(7.0)
    restore(model)
    assert torch.equal(model.weight, torch.full((2, 2), 7.0))
    assert model.look.data_ptr() == model.weight.data_ptr()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_network_is_put_back_too() -> None:
    model = remember(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
    weights = {name: torch.ones_like(value) for name, value in tensors_of(model).items()}
    load(model.eval(), weights)
    assert torch.equal(model(torch.ones(1, 2)), torch.full((1, 2), 3.0))
