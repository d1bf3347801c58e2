"""A weight with two names is one parameter: a network that ties it is the network that uses one weight twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algorithms import models, stack
from algorithms.algorithm import Message, Party, Reply, Tensors
from algorithms.fedavg import stackable
from algorithms.training.seeding import seeded
from algorithms.training.tensors import load, overlap, retied, second_names, tensors_of
from scenarios.builders import plugins
from tests.algorithms.test_stack import OPTIONS, PLAIN, ROUGH

LOOPED: Mapping[str, Sequence[dict[str, Any]]] = {
    "uga": [{}, {"training": PLAIN, "mu": 0.3}],
    "fedmeta": [{}, {"clients": "uga"}, {"meta": "epoch"}],
}
CASES = [(key, options) for key, cases in {**OPTIONS, **LOOPED}.items() for options in cases]
EXAMPLES = {"a": 5, "b": 9, "c": 1}


class Once(nn.Module):
    """One dense layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)
        self._more()
        self.head = nn.Linear(6, 3)
        for number, parameter in enumerate(self.parameters()):
            draw = torch.Generator().manual_seed(number)
            nn.init.uniform_(parameter, -0.5, 0.5, generator=draw)

    def _more(self) -> None:
        """A method as other networks have it."""

    @property
    def second(self) -> nn.Module:
        return self.a

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.head(torch.tanh(self.second(torch.tanh(self.a(x)))))
        return said


class Tied(Once):
    """Two layers with the same weight and bias."""

    def _more(self) -> None:
        self.b = nn.Linear(6, 6)
        self.b.weight, self.b.bias = self.a.weight, self.a.bias

    @property
    def second(self) -> nn.Module:
        return self.b


class Named(Tied):
    """One layer with two names."""

    def _more(self) -> None:
        self.b = self.a


class Partly(Tied):
    """Two layers with one weight, and each its own bias."""

    def _more(self) -> None:
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight


class Normed(Once):
    """With a BatchNorm that is used twice."""

    def _more(self) -> None:
        self.norm = nn.BatchNorm1d(6)

    @property
    def again(self) -> nn.Module:
        return self.norm

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.head(torch.tanh(self.again(self.second(torch.tanh(self.norm(self.a(x)))))))
        return said


class NormedTwice(Normed):
    """And has two names, as have its buffers."""

    def _more(self) -> None:
        super()._more()
        self.b, self.other = self.a, self.norm


class NormedApart(Normed):
    """Two BatchNorms that share all that they have."""

    def _more(self) -> None:
        super()._more()
        self.other = nn.BatchNorm1d(6)
        self.other.weight, self.other.bias = self.norm.weight, self.norm.bias
        for name, buffer in self.norm.named_buffers():
            setattr(self.other, name, buffer)

    @property
    def again(self) -> nn.Module:
        return self.other


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    seeded(2)
    return kind().double()


def party(kind: Callable[[], nn.Module], name: str, round: int, memory: Message) -> Party:
    n, draw = EXAMPLES.get(name, 10), torch.Generator().manual_seed(ord(name[0]))
    x, y = torch.randn(n, 6, generator=draw, dtype=torch.float64), torch.randint(3, (n,), generator=draw)
    model = retied(made(kind), kind())  # double() makes a buffer for each name, as to() does
    found = Party(name, 3, model, models.cross_entropy, x, y, round, round, 10 * round + ord(name[0]), memory)
    return replace(found, fleet=tuple(EXAMPLES))


def played(algorithm: Any, kind: Callable[[], nn.Module], stacked: bool) -> tuple[Tensors, list[Message]]:
    """The model after two rounds, and all uploads."""
    server = party(kind, "server", 0, {})
    weights = {name: value.clone() for name, value in tensors_of(server.model).items()}
    state, kept, uploads = algorithm.start(weights, server), dict[str, Message]().fromkeys(EXAMPLES, {}), []
    for number in range(2):
        server = party(kind, "server", number, {})
        request = algorithm.request(state, tuple(EXAMPLES), server)
        downloads = [{**request.download, **request.extra.get(name, {})} for name in EXAMPLES]
        devices = [party(kind, name, number, kept[name]) for name in EXAMPLES]
        together = stack.train(algorithm, downloads, devices) if stacked else map(algorithm.train, downloads, devices)
        replies: dict[str, Reply] = dict(zip(EXAMPLES, together, strict=True))
        state = algorithm.combine(state, replies, server)
        for name, reply in replies.items():
            assert {k: list(v) for k, v in reply.upload.items()} == {
                k: list(v) for k, v in algorithm.upload_form(number, server.model).items()
            }
            kept[name] = kept[name] | reply.memory | reply.if_counted
            uploads.append(reply.upload)
    return state["weights"], uploads


def close(found: Tensors, wanted: Tensors) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9)


def algorithm_of(key: str, options: dict[str, Any]) -> Any:
    own = {"personal": "head.*"} if key == "continual" else {}
    return plugins.kinds()[key](**{"training": ROUGH, **options, **own})


@pytest.mark.parametrize("kind", [Tied, Named])
@pytest.mark.parametrize(("key", "options"), CASES, ids=str)
def test_every_algorithm_gives_the_model_of_the_network_with_one_name(
    key: str, options: dict[str, Any], kind: type[nn.Module]
) -> None:
    algorithm = algorithm_of(key, options)
    model, uploads = played(algorithm, kind, stacked=False)
    wanted, wanted_uploads = played(algorithm, Once, stacked=False)
    close(model, wanted)
    assert len(uploads) == len(wanted_uploads) == 2 * len(EXAMPLES)
    for found, expected in zip(uploads, wanted_uploads, strict=True):  # so as many bytes travel, too
        assert found.keys() == expected.keys()
        for kind_of, tensors in expected.items():
            close(found[kind_of], tensors)


@pytest.mark.parametrize(("key", "options"), [case for case in CASES if stackable(plugins.kinds()[case[0]])], ids=str)
def test_so_do_stacks(key: str, options: dict[str, Any]) -> None:
    algorithm = algorithm_of(key, options)
    close(played(algorithm, Tied, stacked=True)[0], played(algorithm, Once, stacked=False)[0])


@pytest.mark.parametrize("key", ["fedavg", "fedadam", "scaffold", "agentimportance", "uga", "fedmeta"])
@pytest.mark.parametrize("kind", [NormedTwice, NormedApart])
def test_so_do_buffers_with_two_names(key: str, kind: type[nn.Module]) -> None:
    algorithm = algorithm_of(key, {})
    close(played(algorithm, kind, stacked=False)[0], played(algorithm, Normed, stacked=False)[0])


def test_what_is_tied_in_part_has_the_rest_under_its_own_name() -> None:
    assert list(tensors_of(Partly())) == ["a.weight", "a.bias", "b.bias", "head.weight", "head.bias"]
    assert second_names(Partly()) == {"b.weight": "a.weight"}


def test_names_are_those_of_named_parameters_in_the_order_of_state_dict() -> None:
    for kind in (Once, Tied, Named, Partly, Normed, NormedTwice, NormedApart):
        model = kind()
        names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
        assert list(tensors_of(model)) == [name for name in model.state_dict() if name in names]


def test_a_parameter_that_is_a_buffer_elsewhere_goes_by_its_name_as_a_parameter() -> None:
    model = nn.Module()
    model.a = nn.Linear(2, 2)
    model.register_buffer("seen", model.a.weight)
    assert list(model.state_dict()) == ["seen", "a.weight", "a.bias"]
    assert list(tensors_of(model)) == ["a.weight", "a.bias"]


def test_weights_are_loaded_under_all_names_and_others_are_refused() -> None:
    model = Tied()
    weights = {name: torch.full_like(value, k) for k, (name, value) in enumerate(tensors_of(model).items())}
    load(model, weights)
    assert torch.equal(model.b.weight, torch.zeros(6, 6))
    assert model.b.weight is model.a.weight
    for wrong in ({**weights, "c": torch.zeros(1)}, {name: v for name, v in weights.items() if name != "a.weight"}):
        with pytest.raises(RuntimeError):
            load(model, wrong)


def test_two_parameters_in_one_memory_are_neither_one_nor_two() -> None:
    """Optimisers would step twice there, and each name would travel."""
    model = Partly()
    assert overlap(model) is None
    model.b.bias = nn.Parameter(model.a.bias.data)
    assert overlap(model) == ("a.bias", "b.bias")
    model.b.bias = nn.Parameter(model.a.weight.data[2])
    assert overlap(model) == ("a.weight", "b.bias")


def aliased() -> nn.Module:
    model = Once()
    model.c = nn.Linear(6, 6)
    model.c.weight.data = model.a.weight.data
    return model


def test_such_a_network_is_refused_by_the_names_of_both() -> None:
    with pytest.raises(ValueError, match=r"a\.weight and c\.weight share memory"):
        models.build(f"{__name__}:aliased", 0)
