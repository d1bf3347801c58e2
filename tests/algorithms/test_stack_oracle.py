"""Stacks of all algorithms against programs that are independent of the product (oracle.py), over all options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from algorithms import stack
from algorithms.algorithm import Message, Party, Tensors, Training
from algorithms.fedavg import FedAvg, stackable
from algorithms.training.local import Quadratic, pull
from algorithms.training.seeding import seeded
from algorithms.uga import UGA
from scenarios.builders import plugins
from tests.algorithms import made, oracle

ROUGH = Training(epochs=2, batch=3, lr=0.1, lr_decay=0.8, momentum=0.9, weight_decay=0.01)
PLAIN = Training(epochs=2, batch=3, lr=0.2)
COSINE = replace(ROUGH, momentum=0.5, lr_schedule="cosine", lr_end=0.02, lr_rounds=2)
TO_ZERO = replace(COSINE, lr_end=0.0)  # from round 2 on the rate is 0
LARGE = Training(epochs=1, batch=33, lr=0.1)
STEP = Training(epochs=1, batch=50, lr=0.1)  # one step in a round
CYCLES = replace(ROUGH, epochs=1, per_cycle=2)
LONG_CYCLES = replace(CYCLES, per_cycle=4)

SHARDS = {"a": 4, "b": 7, "c": 1, "d": 7, "e": 5}  # examples: 2, 3, 1, 3 and 2 batches, some of them short
MANY = {"a": 66, "b": 3, "c": 1, "d": 65, "e": 64}  # importance is summed over 64 examples at a time
# Devices that are asked in each round, and those of them whose replies are counted.
Rounds = Sequence[tuple[str, str]]
THREE: Rounds = (("abde", "bde"), ("abcde", "ace"), ("bcde", "bd"))  # round 1: c is new, a has not been counted yet
SIX: Rounds = (*THREE, ("abcde", "abe"), ("acde", ""), ("abde", "d"))
CYCLE: Rounds = (("abde", "bde"), ("abcde", "acde"))
ABSENT: Rounds = (("abcd", "bcd"), ("abd", "ad"), *CYCLE)  # in the first cycle c does not retrain, and e is away


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 3))


def conv() -> nn.Sequential:
    layers = nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, 3, padding=1), nn.Dropout2d(0.3), nn.Tanh()
    return nn.Sequential(*layers, nn.Conv2d(3, 2, 2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 3))


def rows() -> nn.Sequential:
    """With a layer that takes two rows of each example, so that its examples' gradients have no short form."""
    layers = nn.Unflatten(1, (2, 3)), nn.Linear(3, 4), nn.Tanh(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 3)
    return nn.Sequential(*layers)


@dataclass(frozen=True)
class Norm:
    """A user's pull of one length in each tensor, towards 0, which looks at whole tensors."""

    strength: float = 0.1
    importance: None = None

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        pull(grad, parameter / parameter.norm(), self.strength)

    def value(self, weights: Tensors) -> float:
        return 2 * self.strength * sum(float(value.norm()) for value in weights.values())


@dataclass(frozen=True)
class Towards0(FedAvg):
    """A user's algorithm that overrides nothing but the penalty."""

    def penalty(self, download: Message, device: Party) -> Norm:
        return Norm()


@dataclass(frozen=True)
class Some(FedAvg):
    """One in which only some devices have a penalty, each with its own strength."""

    def penalty(self, download: Message, device: Party) -> Quadratic | None:
        return None if device.name == "b" else Quadratic(download["weights"], len(device.y) / 50)


KINDS: Mapping[str, Any] = {**plugins.kinds(), "towards0": Towards0, "some": Some}
ORACLES = {name.lower(): kind for name, kind in vars(oracle).items()}


@dataclass(frozen=True)
class Case:
    """An algorithm with options, and what it is played on."""

    key: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Training = ROUGH
    net: Callable[[], nn.Sequential] = dense
    rounds: Rounds = THREE
    shards: Mapping[str, int] = field(default_factory=lambda: SHARDS)
    proxy: int = 5  # examples of the server
    stale: Mapping[str, int] = field(default_factory=dict)  # staleness of these devices' replies, as `combine` sees it

    def __str__(self) -> str:
        return " ".join([self.key, *(f"{name}={value}" for name, value in self.options.items())])

    def party(self, model: nn.Module, name: str, round: int, memory: Message) -> Party:
        """Returns the server or a device; in each time slice of the data it has other examples."""
        cycle = self.training.cycle(round)
        seeds = {"draw": sum(name.encode()) + 100 * cycle, "seed": 10 * round + ord(name[0])}
        given = {"round": round, "shape": (6,), "memory": memory, "fleet": tuple(SHARDS), **seeds}
        return made.party(model, name, self.shards.get(name, self.proxy) + cycle, **given)


N2 = {"interval": 2, "strength": 2.0}
CASES = [
    Case("fedavg"),
    Case("fedavg", training=PLAIN, net=conv),
    Case("fedavg", training=COSINE),
    Case("fedprox", {"mu": 0.3}),
    Case("fedprox", {"mu": 1.5}, PLAIN, conv),
    Case("some"),
    Case("towards0", training=PLAIN),
    Case("fedcl", {"strength": 2.0}, COSINE),
    Case("fedcl", {"importance": "sq", "strength": 2.0}, PLAIN, conv),
    Case("fedcl", {"importance": "si", "strength": 0.2, "placebo": "mean"}),
    Case("fedcl", {"strength": 2.0, "placebo": "mean"}, net=rows, proxy=10),
    Case("fedcl", {**N2, "importance": "sq"}, rounds=SIX),
    Case("fedcl", {**N2, "importance": "mas", "first": "identity", "placebo": "mean"}, PLAIN),
    Case("fedcl", {**N2, "importance": "si", "first": "send", "damping": 0.1}, PLAIN, rounds=SIX),
    Case("fedcl", {**N2, "importance": "tensor_scalar", "first": "identity"}, PLAIN, conv, proxy=70),
    Case("fedcl", {**N2, "importance": "abs", "fallback": "identity", "placebo": "shuffled"}),
    Case("fedcl", {**N2, "importance": "tensor_scalar", "fallback": "none"}),
    Case("fedcl", {**N2, "importance": "sq", "fallback": "catch_up", "placebo": "shuffled"}, PLAIN),
    Case("fedcl", {**N2, "importance": "si", "fallback": "catch_up", "damping": 0.01}, rounds=SIX),
    Case("fedcl", {**N2, "importance": "tensor_scalar", "fallback": "catch_up"}, COSINE),
    Case("fedcl", {**N2, "importance": "mas", "fallback": "local_estimate"}, net=conv),
    Case("fedcl", {**N2, "importance": "abs", "fallback": "local_estimate", "placebo": "mean"}, PLAIN),
    Case("fedcl", {**N2, "importance": "sq", "fallback": "local_estimate", "placebo": "shuffled"}, COSINE),
    Case("fedcl", {**N2, "preset": "paper_text"}, PLAIN),
    Case("fedcl", {**N2, "preset": "author_code"}, LARGE, rounds=THREE[:2], shards=MANY),
    Case("fedcurv", {"strength": 2.0}, rounds=SIX),
    Case("fedcurv", {"strength": 2.0, "fisher": "exact", "placebo": "shuffled"}, PLAIN),
    Case("fedcurv", {"strength": 2.0, "fisher": "exact", "upload": "lean"}, COSINE, conv),
    Case("fedcurv", {"strength": 2.0, "fisher": "sampled", "centred": True}, COSINE),
    Case("fedcurv", {"strength": 2.0, "fisher": "sampled", "participation": "last_round"}, PLAIN, rows),
    Case("fedcurv", {"strength": 2.0, "fisher": "batch_squared", "upload": "lean", "centred": True}, PLAIN),
    Case("fedcurv", {"strength": 2.0, "fisher": "batch_squared", "centred": False, "placebo": "mean"}, net=conv),
    Case("fedcurv", {"strength": 2.0, "participation": "last_round", "keep": 0.5, "placebo": "shuffled"}),
    Case("fedcurv", {"strength": 2.0, "participation": "last_round", "upload": "lean", "placebo": "mean"}, PLAIN),
    Case("fedcurv", {"strength": 2.0, "participation": "last_round", "centred": True}, COSINE, rounds=SIX),
    Case("fedcurv", {"strength": 2.0, "upload": "lean", "max_age": 1, "keep": 0.7}, rounds=SIX),
    Case("fedcurv", {"strength": 2.0, "upload": "lean", "max_age": 2, "centred": True, "placebo": "mean"}, PLAIN),
    Case("fedcurv", {"strength": 2.0}, LARGE, rounds=THREE[:1], shards=MANY),
    Case("agentimportance"),
    Case("agentimportance", {"strength": 30.0, "gamma": 0.5}, PLAIN, conv),
    Case("agentimportance", {"ewc": False}, COSINE),
    Case("agentimportance", {"fisher": "mean_squared", "from_zero": True}),
    Case("agentimportance", {"fisher": "mean_squared", "strength": 100.0}, LARGE, conv, THREE[:2], MANY),
    Case("agentimportance", {"from_zero": True, "weigh_by": "raw"}, PLAIN),
    Case("agentimportance", {"placebo": "shuffled"}, COSINE),
    Case("agentimportance", {"placebo": "mean", "weigh_by": "raw"}, PLAIN, conv),
    Case("agentimportance", {"weighted": False, "threshold": 0.1}, PLAIN),
    Case("agentimportance", {"ewc": False, "weighted": False}),
    Case("agentimportance", {"weigh_by": "raw", "threshold": 0.2}, COSINE, rounds=SIX),
    Case("agentimportance", {"weigh_by": "raw", "ewc": False, "gamma": 0.6}, PLAIN),
    Case("agentimportance", {"fisher": "mean_squared", "from_zero": True, "strength": 30.0}, COSINE, rounds=SIX),
    Case("agentimportance", {"fisher": "mean_squared", "strength": 1e3}, LARGE, conv, THREE[:2], MANY),
    Case("agentimportance", {"from_zero": True, "weigh_by": "raw", "strength": 30.0}, PLAIN),
    Case("agentimportance", {"importance": "rwalk", "window": 3}),
    Case("agentimportance", {"importance": "rwalk", "window": 4, "weigh_by": "raw", "damping": 0.1}, PLAIN, rows),
    Case("agentimportance", {"importance": "rwalk", "normalise": True, "strength": 0.5, "threshold": 0.1}, COSINE),
    Case("scaffold", rounds=SIX),
    Case("scaffold", {"server_lr": 0.5}, PLAIN, conv),
    Case("scaffold", training=TO_ZERO),
    Case("scaffold", training=STEP),
    Case("fednova", rounds=SIX),
    Case("fednova", training=PLAIN, net=conv),
    Case("feddyn", {"alpha": 0.5}, rounds=SIX),
    Case("feddyn", {"alpha": 2.0}, PLAIN, conv),
    Case("ditto", {"strength": 0.4}, rounds=SIX),
    Case("ditto", {"strength": 0.0}, PLAIN, conv),
    Case("fedavgm", training=COSINE),
    Case("fedavgm", {"beta": 0.5, "server_lr": 0.7}),
    Case("fedadam"),
    Case("fedadam", {"server_lr": 0.1, "beta1": 0.5, "beta2": 0.8, "tau": 0.01}, PLAIN),
    Case("fedyogi", training=COSINE),
    Case("fedyogi", {"server_lr": 0.1, "beta1": 0.5, "beta2": 0.8, "tau": 0.01}),
    Case("fedasync", {"mu": 0.3, "a": 1.0}, stale={"a": 2, "e": 1}, rounds=SIX),
    Case("fedasync", {"staleness": "hinge", "b": 1.0, "alpha": 0.9}, PLAIN, conv, stale={"b": 1, "d": 3}),
    Case("fedasync", {"staleness": "constant"}, COSINE, stale={"d": 5}),
    Case("fedbuff", stale={"a": 2, "e": 1}, rounds=SIX),
    Case("fedbuff", {"staleness": "hinge", "b": 1.0, "a": 2.0, "server_lr": 0.7}, PLAIN, conv, stale={"b": 1, "d": 3}),
    Case("fedbuff", {"staleness": "constant", "divisor": "weights"}, COSINE, stale={"d": 5}),
    Case("fedbuff", {"divisor": "weights"}, stale={"a": 2, "d": 1}),
    Case("fadas", {"epsilon": 0.01, "server_lr": 0.1}, rounds=SIX, stale={"d": 20}),
    Case("fadas", {"server_lr": 0.1, "beta1": 0.5, "beta2": 0.8, "tau_c": 3}, PLAIN, conv, stale={"b": 3, "d": 50}),
    Case("fadas", {"delayed": "divide"}, COSINE, stale={"a": 7}),
    Case("fadas", {"delayed": "none"}, stale={"b": 7}),
    Case("ca2fl", rounds=SIX),
    Case("ca2fl", {"server_lr": 0.7}, PLAIN, conv),
    Case("fedshare"),
    Case("fedshare", {"split": "per_client"}, PLAIN, proxy=12),
    Case("fedshare", {"split": "per_round"}, COSINE, proxy=12),
    Case("fedmeta"),
    Case("fedmeta", {"meta": "sum", "eta_meta": 0.01}, PLAIN),
    Case("fedmeta", {"meta": "epoch"}, COSINE, conv),
    Case("fedmeta", {"meta": "E_epochs", "eta_meta": 0.05}),
    Case("continual", {"variant": "baseline", "average": True, "personal": "3.*"}, CYCLES, rounds=2 * CYCLE),
    Case("continual", {"variant": "alg0", "retrain_epochs": 2, "personal": "3.*"}, CYCLES, rounds=2 * CYCLE),
    Case("continual", {"variant": "alg1", "personal": "3.* 0.bias"}, CYCLES, rounds=2 * CYCLE),
    Case("continual", {"variant": "alg1", "upload": "literal", "personal": "7.*"}, CYCLES, conv, 2 * CYCLE),
    Case("continual", {"variant": "alg2", "personal": "3.*", "pretrain": 2}, CYCLES, rounds=ABSENT),
    Case(
        "continual",
        {"variant": "alg2", "upload": "literal", "inner": 2, "personal": "3.*"},
        LONG_CYCLES,
        rounds=4 * CYCLE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stack_does_what_the_papers_say(case: Case) -> None:
    compare(case, torch.float64, 1e-10)


@pytest.mark.parametrize("case", {case.key: case for case in reversed(CASES) if case.net is dense}.values(), ids=str)
def test_in_float32_up_to_its_rounding(case: Case) -> None:
    """Some hundred operations, each with an error of 6e-8."""
    compare(case, torch.float32, 1e-5)


def compare(case: Case, dtype: torch.dtype, error: float) -> None:
    """Plays the rounds with stacks, and asserts that each device's model, its report and the server's state are the
    oracle's up to this error, relative to each tensor's largest value.  In the last round so is each device alone."""
    seeded(2)
    model = case.net().to(dtype)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    algorithm, net = KINDS[case.key](case.training, **case.options), oracle.Net(case.net().double())
    known = ORACLES[case.key](net, algorithm, net.vector(weights))
    known.stale = case.stale
    state = algorithm.start(weights, case.party(model, "server", 0, {}))
    memory: dict[str, Message] = {name: {} for name in SHARDS}

    def near(found: Tensors, wanted: Tensor) -> None:
        for name, one, other in zip(net.shapes, net.layers(net.vector(found)), net.layers(wanted), strict=True):
            assert (one - other).abs().max() <= error * other.abs().max() + 1e-15, name

    for round, (asked, counted) in enumerate(case.rounds):
        server = case.party(model, "server", round, {})
        known.open(server, asked)
        request = algorithm.request(state, asked, server)
        downloads = [{**request.download, **request.extra.get(name, {})} for name in asked]
        devices = [case.party(model, name, round, memory[name]) for name in asked]
        together = stack.train(algorithm, downloads, devices)
        last = round == len(case.rounds) - 1
        alone = [algorithm.train(*each) for each in zip(downloads, devices, strict=True)] if last else together
        for device, *replies in zip(devices, together, alone, strict=True):
            wanted, told = known.train(device), known.told(device)
            for reply in replies:
                near(reply.model or reply.upload["weights"], wanted)
                found = {name: value for name, value in (reply.leverage | reply.numbers).items() if name in told}
                assert found == pytest.approx(told, rel=10 * error, abs=1e-12)
                assert reply.examples == len(device.y)
            assert replies[0].numbers == pytest.approx(replies[1].numbers, rel=10 * error)
        replies = dict(zip(asked, together, strict=True))
        for name, reply in replies.items():
            memory[name] = memory[name] | reply.memory | (reply.if_counted if name in counted else {})
        if counted:
            late = {name: replace(replies[name], staleness=case.stale.get(name, 0)) for name in counted}
            state = algorithm.combine(state, late, server)
            known.close(server, counted)
        for kind, wanted in known.kinds().items():
            near(state[kind], wanted)


LOOPED = {"clients", *(option.name for option in fields(UGA))}  # FedMeta's with clients that train one by one


def test_no_algorithm_and_no_option_is_left_out() -> None:
    """Every word and truth that an option may have is in some case, and of each number another than the default."""
    kinds = {key: kind for key, kind in plugins.kinds().items() if stackable(kind)}
    assert kinds.keys() <= ORACLES.keys()
    for key, kind in kinds.items():
        hints = get_type_hints(kind)
        for option in fields(kind)[1:]:
            if key == "fedmeta" and option.name in LOOPED:
                continue
            tried = {case.options.get(option.name, option.default) for case in CASES if case.key == key}
            words = {word for hint in (hints[option.name], *get_args(hints[option.name])) for word in words_of(hint)}
            assert words <= tried, (key, option.name)
            assert words or tried - {option.default}, (key, option.name)


def words_of(hint: Any) -> tuple[Any, ...]:
    """Returns the values that a type of an option lists; () for numbers and text."""
    return (True, False) if hint is bool else get_args(hint) if get_origin(hint) is Literal else ()
