"""FedCL's kinds of importance, its fallbacks and presets: who gets which Ω, what travels, what it costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Training, Work
from algorithms.counting.cost import PULL, PULL_PLAIN, Meter
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedcl_si import scored
from algorithms.fedprox import FedProx
from algorithms.importance.importance import importance
from algorithms.models import cross_entropy
from algorithms.training.seeding import seeded
from network.wire.payload import encode
from tests.algorithms import made
from tests.algorithms.made import same_bits
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker

ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)
KINDS = ("abs", "sq", "tensor_scalar", "mas", "si")
FALLBACKS = ("identity", "keep_last", "catch_up", "local_estimate", "none")
WAYS = [way for way in product(KINDS, FALLBACKS) if way != ("si", "local_estimate")]
NAMES = ("a", "b", "c", "d")


def fedcl(**options: Any) -> FedCL:
    return FedCL(ROUGH, **options)


def network() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))


def party(name: str, round: int = 0, memory: Message | None = None, model: nn.Module | None = None) -> Party:
    given = {"devices": len(NAMES), "round": round, "seed": 5 + round, "memory": memory or {}}
    return made.party(model or network(), name, draw=sum(map(ord, name)), **given)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


class Fleet:
    """Server and devices, round by round, as the engine plays them; what is lost was trained and kept, not counted."""

    def __init__(self, algorithm: FedAvg, model: nn.Module | None = None) -> None:
        self.algorithm, self.model = algorithm, model or network()
        self.memory: dict[str, Message] = {}
        self.round = 0
        self.state = algorithm.start(copied(self.model), self.server())

    def server(self) -> Party:
        return party("server", self.round, model=self.model)

    def play(self, names: str, lost: str = "") -> dict[str, tuple[Message, Reply]]:
        """A round with these devices: what each received, and replied."""
        request = self.algorithm.request(self.state, tuple(names), self.server())
        found = {}
        for name in names:
            download = request.download | request.extra.get(name, {})
            reply = self.algorithm.train(download, party(name, self.round, self.memory.get(name), self.model))
            self.memory[name] = self.memory.get(name, {}) | reply.memory
            found[name] = (download, reply)
        counted = {name: reply for name, (_, reply) in found.items() if name not in lost}
        if counted:
            self.state = self.algorithm.combine(self.state, counted, self.server())
        self.round += 1
        return found

    def who_got(self, names: str, lost: str = "") -> str:
        return "".join(name for name, (download, _) in self.play(names, lost).items() if "importance" in download)


# ---- equal to others, bit for bit


ROUNDS = ("ab", "bc", "ad")


@cache
def plain() -> list[Tensors]:
    fleet, found = Fleet(FedAvg(ROUGH)), []
    for names in ROUNDS:
        fleet.play(names)
        found.append(fleet.state["weights"])
    return found


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(way=st.sampled_from(WAYS), interval=st.integers(1, 3), first=st.sampled_from(["none", "identity", "send"]))
def test_without_strength_every_way_is_fedavg(way: tuple[str, str], interval: int, first: str) -> None:
    fleet = Fleet(fedcl(importance=way[0], fallback=way[1], interval=interval, first=first, strength=0.0))
    for names, expected in zip(ROUNDS, plain(), strict=True):
        fleet.play(names)
        assert same_bits(fleet.state["weights"], expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_estimated_every_round_all_fallbacks_are_one(kind: str) -> None:
    """Ω arrives in each round, so no device falls back."""
    found = []
    for fallback in FALLBACKS:
        if (kind, fallback) in WAYS:
            fleet = Fleet(fedcl(importance=kind, fallback=fallback, strength=20.0))
            for names in ("ab", "bc"):
                fleet.play(names)
            found.append(fleet.state["weights"])
    assert all_of(same_bits(found[0], other) for other in found[1:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_are_not_one_another(kind: str) -> None:
    finals = {}
    for each in {kind, "abs", "sq"}:
        fleet = Fleet(fedcl(importance=each, strength=20.0))
        for names in ("ab", "bc"):
            fleet.play(names)
        finals[each] = fleet.state["weights"]
    assert all_of(not same_bits(finals[kind], finals[other]) for other in finals if other != kind)


def test_none_is_fedavg_in_the_rounds_between() -> None:
    fleet = Fleet(fedcl(fallback="none", interval=10, strength=5.0))
    fleet.play("ab")
    start = fleet.state["weights"]
    ((_, reply),) = fleet.play("c").values()
    plain = FedAvg(ROUGH).train({"weights": start}, party("c", 1))
    assert same_bits(reply.upload["weights"], plain.upload["weights"])
    assert reply.leverage == {}


@pytest.mark.parametrize(("first", "mu"), [("none", 0.0), ("identity", 1.0)])
def test_keep_last_without_an_importance_so_far_does_what_first_says(first: str, mu: float) -> None:
    fleet = Fleet(fedcl(fallback="keep_last", first=first, interval=10, strength=0.5))
    fleet.play("ab")
    start = fleet.state["weights"]
    ((_, reply),) = fleet.play("c").values()
    prox = FedProx(ROUGH, mu).train({"weights": start}, party("c", 1))
    assert same_bits(reply.upload["weights"], prox.upload["weights"])
    assert reply.memory == {}


def test_keep_last_with_first_identity_still_uses_what_it_has() -> None:
    options = {"fallback": "keep_last", "interval": 10, "strength": 5.0}
    ways = [Fleet(fedcl(first=first, **options)) for first in ("none", "identity")]
    for names in ("ab", "ab"):
        for fleet in ways:
            fleet.play(names)
    assert same_bits(ways[0].state["weights"], ways[1].state["weights"])


@pytest.mark.parametrize("kind", ["abs", "sq", "tensor_scalar", "mas"])
def test_a_local_estimate_is_the_importance_of_the_devices_examples_at_the_broadcast_model(kind: str) -> None:
    algorithm = fedcl(importance=kind, fallback="local_estimate", interval=10, strength=5.0)
    weights = {name: value + 0.1 for name, value in copied(network()).items()}
    own, device = algorithm.train({"weights": weights}, party("c", 1)), party("c", 1)
    device.model.load_state_dict(weights)
    omega = importance(device.model, cross_entropy, device.x, device.y, kind)  # type: ignore[arg-type]
    sent = algorithm.train({"weights": weights, "importance": omega}, party("c", 1))
    assert same_bits(own.upload["weights"], sent.upload["weights"])
    assert own.memory == {}
    assert (own.leverage, own.numbers) == (sent.leverage, sent.numbers)


# ---- who gets an importance, and when


@pytest.mark.slow
def test_catch_up_sends_the_current_importance_once_to_each_that_lacks_it() -> None:
    fleet = Fleet(fedcl(fallback="catch_up", interval=4))
    assert fleet.who_got("ab") == "ab"  # 0: due
    assert fleet.who_got("bc") == "c"
    assert fleet.who_got("bd", lost="d") == "d"
    assert fleet.who_got("ad") == "d"  # it was not counted, so the server cannot know
    assert fleet.who_got("ac") == "ac"  # 4: due
    assert fleet.who_got("abcd") == "bd"
    assert fleet.who_got("abcd") == ""


def test_keep_last_with_first_send_sends_to_those_who_never_had_one() -> None:
    fleet = Fleet(fedcl(fallback="keep_last", first="send", interval=2))
    assert fleet.who_got("ab", lost="b") == "ab"
    assert fleet.who_got("abc") == "bc"
    assert fleet.who_got("ab") == "ab"  # 2: due
    assert fleet.who_got("cd") == "d"  # c has an old one, and keeps that


@pytest.mark.parametrize("fallback", ["identity", "keep_last", "local_estimate", "none"])
def test_others_send_an_importance_in_its_rounds_only(fallback: str) -> None:
    fleet = Fleet(fedcl(fallback=fallback, interval=2))
    assert [fleet.who_got(names) for names in ("ab", "cd", "cd", "ab")] == ["ab", "", "cd", ""]


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_catches_up_gets_what_the_others_got(kind: str) -> None:
    fleet = Fleet(fedcl(importance=kind, fallback="catch_up", interval=3))
    for expected in ("ab", "c", "d"):
        got = {name: download for name, (download, _) in fleet.play("abcd"[: 2 + fleet.round]).items()}
        assert "importance" in got[expected[0]]
        assert same_bits(got[expected[0]]["importance"], fleet.memory["a"]["importance"])
    old = fleet.memory["a"]["importance"]
    (download, _) = fleet.play("a")["a"]
    assert not same_bits(download["importance"], old)  # 3: due, and the model has moved


def test_an_importance_is_the_same_whether_the_server_keeps_it_or_not() -> None:
    due = []
    for fallback in ("none", "catch_up"):
        fleet = Fleet(fedcl(fallback=fallback, interval=2, strength=0.0))
        fleet.play("ab")
        fleet.play("bc")
        due.append(fleet.play("ab")["a"][0]["importance"])
    assert same_bits(*due)


def test_a_round_that_did_not_close_leaves_the_last_importance_to_catch_up_with() -> None:
    fleet = Fleet(fedcl(fallback="catch_up", interval=2))
    fleet.play("ab")
    first = fleet.memory["a"]["importance"]
    fleet.play("ab", lost="ab")  # round 1, which would have made the model that round 2 needs
    assert same_bits(fleet.play("cd")["c"][0]["importance"], first)
    assert fleet.who_got("ac") == "ac"  # by now there is a new one, which nobody has


def test_the_age_of_an_importance_counts_from_its_estimate() -> None:
    fleet = Fleet(fedcl(fallback="catch_up", interval=3))
    ages = [fleet.play(names)[names[0]][1].leverage["age"] for names in ("ab", "cb", "cb", "cd", "ab")]
    assert ages == [0, 1, 2, 0, 1]


# ---- what travels


def elements(message: Message) -> int:
    return sum(value.numel() for tensors in message.values() for value in tensors.values())


@pytest.mark.parametrize(("visits", "ratio"), [("once", 1.5), ("often", 1.05)])
def test_catch_up_costs_from_a_twentieth_to_half_as_much_more(visits: str, ratio: float) -> None:
    """One device that comes in 20 rounds with N=10 gets two; 40 that come once each get one each."""
    names = [f"{k}" for k in range(40)] if visits == "once" else ["0"]
    fleet = Fleet(fedcl(fallback="catch_up", interval=10))
    size, total, uploads = elements({"weights": fleet.state["weights"]}), 0, 0
    for k in range(20):
        chosen = names[2 * k : 2 * k + 2] if visits == "once" else names
        request = fleet.algorithm.request(fleet.state, chosen, fleet.server())
        for name in chosen:
            total += elements(request.download | request.extra.get(name, {})) + size
            uploads += 1
        replies = {name: Reply({"weights": fleet.state["weights"]}, 1) for name in chosen}
        fleet.state = fleet.algorithm.combine(fleet.state, replies, fleet.server())
        fleet.round += 1
    assert total / (2 * uploads * size) == pytest.approx(ratio)


def test_the_authors_importance_takes_four_bytes_a_tensor() -> None:
    fleet = Fleet(fedcl(importance="tensor_scalar"))
    omega = fleet.play("a")["a"][0]["importance"]
    names = [name for name, _ in fleet.model.named_parameters()]
    assert {name: (value.shape, value.dtype) for name, value in omega.items()} == {
        name: (torch.Size([]), torch.float32) for name in names
    }
    arrays = {"importance": {name: value.numpy() for name, value in omega.items()}}
    empty = {"importance": {name: value.numpy()[None][:0] for name, value in omega.items()}}
    assert len(encode(arrays)) - len(encode(empty)) <= 4 * len(names)


@pytest.mark.parametrize("kind", KINDS)
def test_the_blank_download_looks_like_a_real_one(kind: str) -> None:
    fleet = Fleet(fedcl(importance=kind))
    form, real = fleet.algorithm.download_form(fleet.server()), fleet.play("a")["a"][0]
    assert form.keys() == real.keys()
    for kind_, tensors in real.items():
        assert {n: (v.shape, v.dtype) for n, v in tensors.items()} == {
            n: (v.shape, v.dtype) for n, v in form[kind_].items()
        }


def test_mas_needs_no_labels() -> None:
    algorithm, server = fedcl(importance="mas"), party("server")
    state = {"weights": copied(server.model)}
    known = algorithm.request(state, "a", server).download["importance"]
    unknown = algorithm.request(state, "a", replace(server, y=torch.zeros_like(server.y))).download["importance"]
    assert same_bits(known, unknown)


# ---- synaptic intelligence


@pytest.mark.parametrize("fallback", ["none", "catch_up"])
def test_si_begins_with_nothing_so_round_0_is_fedavg(fallback: str) -> None:
    fleet, plain = Fleet(fedcl(importance="si", fallback=fallback, strength=50.0)), Fleet(FedAvg(ROUGH))
    sent = fleet.play("ab")["a"][0]["importance"]
    plain.play("ab")
    assert all_of(not value.any() for value in sent.values())
    assert same_bits(fleet.state["weights"], plain.state["weights"])


def test_si_follows_every_round_and_sends_in_its_own() -> None:
    """ω adds up -∇L_proxy(θ_t) (θ_{t+1} - θ_t) of rounds 0, 1 and 2; Ω of round 3 is by the way from θ_0."""
    fleet = Fleet(fedcl(importance="si", interval=3, damping=0.01))
    server, thetas = party("server"), [fleet.state["weights"]]
    for names in ("ab", "bc", "cd"):
        fleet.play(names)
        thetas.append(fleet.state["weights"])
    path = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in server.model.named_parameters()}
    for before, after in pairwise(thetas):
        server.model.load_state_dict(before)
        loss = cross_entropy(server.model.eval()(server.x), server.y).mean()
        for name, g in zip(path, torch.autograd.grad(loss, list(server.model.parameters())), strict=True):
            path[name] -= (g * (after[name] - before[name])).double()
    sent = fleet.play("ab")["a"][0]["importance"]
    for name, omega in scored(path, thetas[0], thetas[3], 0.01).items():
        torch.testing.assert_close(sent[name], omega, rtol=1e-3, atol=1e-6)
    assert all_of(value.max() > 0 and value.min() == 0 for value in sent.values() if value.numel() > 20)


# ---- what is told


def test_mean_and_largest_importance_are_told_over_all_coordinates() -> None:
    algorithm, device = fedcl(importance="tensor_scalar"), party("a")
    weights = copied(device.model)
    omega = {name: torch.tensor(float(k)) for k, name in enumerate(weights)}  # of 36, 4, 48 and 3 coordinates
    told = algorithm.train({"weights": weights, "importance": omega}, device).numbers
    assert told["omega_mean"] == pytest.approx((4 * 1 + 48 * 2 + 3 * 3) / 91)
    assert told["omega_max"] == 3.0


def test_one_number_for_a_tensor_pulls_like_as_many_equal_ones() -> None:
    algorithm, device = fedcl(strength=3.0), party("a")
    weights = copied(device.model)
    short = {name: torch.tensor(0.3 + k) for k, name in enumerate(weights)}
    long = {name: value.expand(weights[name].shape).clone() for name, value in short.items()}
    replies = [algorithm.train({"weights": weights, "importance": omega}, device) for omega in (short, long)]
    assert same_bits(replies[0].upload["weights"], replies[1].upload["weights"])
    assert replies[0].leverage == replies[1].leverage


def test_without_an_importance_only_that_is_told_of_it() -> None:
    reply = fedcl(interval=10).train({"weights": copied(network())}, party("a", 1))
    assert (reply.numbers, reply.leverage) == ({"no_importance": 1.0}, {})


# ---- options that contradict each other


def test_a_preset_sets_the_importance_and_the_fallback() -> None:
    paper, code = fedcl(preset="paper_text"), fedcl(preset="author_code", interval=10)
    assert (paper.importance, paper.fallback) == ("abs", "identity")
    assert (code.importance, code.fallback, code.interval) == ("tensor_scalar", "local_estimate", 10)
    assert replace(code, strength=1.0).importance == "tensor_scalar"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "author_code", "importance": "sq"}, "importance is 'sq'; it must be 'tensor_scalar' with preset"),
        ({"preset": "paper_text", "fallback": "none"}, "fallback is 'none'; it must be 'identity' with preset"),
        ({"preset": "mine"}, "preset is 'mine'"),
        ({"importance": "si", "fallback": "local_estimate"}, "fallback is 'local_estimate'; .* the server's"),
        ({"first": "last"}, "first is 'last'; it must be 'none', 'identity' or 'send'"),
        ({"damping": 0.0}, "damping is 0.0"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fedcl(**options)


# ---- batch normalisation


@pytest.mark.parametrize(("kind", "fallback"), WAYS)
def test_batch_normalisation_goes_through(kind: str, fallback: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    fleet = Fleet(fedcl(importance=kind, fallback=fallback, interval=2), model)
    for names in ("ab", "bc", "cd"):
        fleet.play(names)
    assert fleet.state["weights"].keys() == model.state_dict().keys()
    assert int(fleet.state["weights"]["1.num_batches_tracked"]) == 18  # 3 rounds of 2 epochs of ceil(20 / 8)
    assert all_of(value.isfinite().all() for value in fleet.state["weights"].values())


# ---- what it costs


@cache
def meter() -> Meter:
    return Meter(network(), (1, 4, 4), cross_entropy)


def flops(work: Work) -> float:
    return sum(meter().flops(phase) for phase in work)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fallback"), WAYS)
def test_the_declared_work_is_what_torch_counts(kind: str, fallback: str) -> None:
    fleet = Fleet(fedcl(importance=kind, fallback=fallback, interval=2, strength=0.5))
    algorithm, count = fleet.algorithm, 91
    for round, names in enumerate(("ab", "bc", "cd")):
        kept = fallback == "catch_up" and round == 0  # then Ω is estimated before round 0, and charged to it
        with FlopCounterMode(display=False) as requested:
            if kept:
                algorithm.start(fleet.state["weights"], fleet.server())
            request = algorithm.request(fleet.state, tuple(names), fleet.server())
        assert flops(algorithm.request_work(Load(round, 20, count))) == pytest.approx(requested.get_total_flops(), 0.01)
        replies = {}
        for name in names:
            download, memory = request.download | request.extra.get(name, {}), fleet.memory.get(name, {})
            with FlopCounterMode(display=False) as trained:
                replies[name] = algorithm.train(download, party(name, round, memory))
            load = Load(round, 20, count, kinds=download.keys(), memory=memory.keys())
            assert flops(algorithm.device_work(load)) == pytest.approx(trained.get_total_flops(), 0.01)
            fleet.memory[name] = memory | replies[name].memory
        with FlopCounterMode(display=False) as combined:
            fleet.state = algorithm.combine(fleet.state, replies, fleet.server())
        load = Load(round, 20, count, replies=2)
        assert flops(algorithm.combine_work(load)) == pytest.approx(combined.get_total_flops(), 0.01)
        fleet.round += 1


@pytest.mark.parametrize(
    ("options", "kinds", "memory", "moved"),
    [
        ({"fallback": "none"}, (), (), 0.0),
        ({"fallback": "none"}, ("importance",), (), PULL),
        ({"fallback": "catch_up"}, (), ("importance",), PULL),
        ({"fallback": "keep_last", "first": "identity"}, (), (), PULL_PLAIN),
        ({"fallback": "local_estimate"}, (), (), PULL),
        ({"importance": "tensor_scalar"}, ("importance",), (), PULL_PLAIN),
        ({"fallback": "local_estimate", "strength": 0.0}, (), (), 0.0),
    ],
)
def test_the_penalty_moves_floats(
    options: dict[str, Any], kinds: tuple[str, ...], memory: tuple[str, ...], moved: float
) -> None:
    assert fedcl(interval=2, **options).penalty_traffic(Load(1, 20, 91, kinds=kinds, memory=memory)) == moved


def test_only_an_own_estimate_takes_room_beside_training() -> None:
    load = Load(1, 20, 91)
    assert fedcl(fallback="catch_up").device_floats(load) == 0
    assert fedcl(fallback="local_estimate").device_floats(load) == 4 * 91
    assert fedcl(fallback="local_estimate").device_floats(replace(load, kinds=("importance",))) == 0
