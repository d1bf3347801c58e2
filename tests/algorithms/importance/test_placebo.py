"""Placebos of an importance: the values of each tensor out of their places, or their mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Training
from algorithms.fedavg import FedAvg
from algorithms.fedcl import FedCL
from algorithms.fedcurv import FedCurv
from algorithms.importance.importance import importance
from algorithms.importance.placebo import replaced
from algorithms.models import cross_entropy
from algorithms.training.seeding import seeded
from tests.algorithms import made
from tests.algorithms.made import same_bits
from tests.all_of import all_of

torch.set_num_threads(1)  # as in a worker

ROUGH = Training(epochs=2, batch=8, lr=0.05, momentum=0.9, weight_decay=1e-4)
SUMS = ("fisher", "fisher_theta")
EITHER: Any = pytest.mark.parametrize("placebo", ["shuffled", "mean"])


def network() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3)).double()


def party(name: str, round: int = 0, memory: Message | None = None) -> Party:
    given = {"devices": 4, "round": round, "seed": 100 * round + ord(name[0]), "memory": memory or {}}
    return made.party(network(), name, draw=sum(map(ord, name)), **given)


def first() -> Tensors:
    return {name: value.clone() for name, value in network().state_dict().items()}


def some() -> Tensors:
    """Different numbers in each place of each tensor."""
    shapes = {name: value.shape for name, value in first().items()}
    return {name: torch.arange(shape.numel()).view(shape) + 100.0 * k for k, (name, shape) in enumerate(shapes.items())}


def placed_otherwise(found: Tensors, wanted: Tensors) -> bool:
    """Whether the values of each tensor with at least 10 values changed places.  A shuffle hardly ever leaves them all
    in place."""
    return all_of(not torch.equal(found[name], value) for name, value in wanted.items() if value.numel() >= 10)


def is_placebo(found: Tensors, true: Tensors, placebo: str, rel: float = 0.0) -> None:
    """Asserts that `found` is the placebo of the importance `true`, by the placebo's definition.  `rel`: the tolerance
    for rounding."""
    assert {n: (v.shape, v.dtype) for n, v in found.items()} == {n: (v.shape, v.dtype) for n, v in true.items()}
    for name, value in true.items():
        if placebo == "mean":
            assert len(found[name].unique()) == 1
            assert float(found[name].double().sum()) == pytest.approx(float(value.double().sum()), rel=max(rel, 1e-12))
        else:
            ordered = [each.flatten().sort().values for each in (found[name], value)]
            torch.testing.assert_close(*ordered, rtol=rel, atol=rel * float(value.abs().max()))
    assert placed_otherwise(found, true)


class Fleet:
    """Server and devices, round by round; all that are asked are counted."""

    def __init__(self, algorithm: FedAvg) -> None:
        self.algorithm, self.round = algorithm, 0
        self.memory: dict[str, Message] = {}
        self.state = algorithm.start(first(), party("server"))

    def play(self, names: str) -> dict[str, tuple[Message, Reply]]:
        """A round with these devices: what each received, and replied."""
        server = party("server", self.round)
        request = self.algorithm.request(self.state, tuple(names), server)
        found = {}
        for name in names:
            download = request.download | request.extra.get(name, {})
            reply = self.algorithm.train(download, party(name, self.round, self.memory.get(name)))
            self.memory[name] = self.memory.get(name, {}) | reply.memory | reply.if_counted
            found[name] = (download, reply)
        self.state = self.algorithm.combine(self.state, {name: reply for name, (_, reply) in found.items()}, server)
        self.round += 1
        return found


# ---- what is done with a tensor


def test_none_is_the_importance_itself() -> None:
    omega = some()
    assert replaced(omega, "none", 1, 0) is omega


def test_a_mean_by_hand() -> None:
    found = replaced({"a": torch.tensor([[0.0, 1.0], [2.0, 5.0]]), "b": torch.tensor([7.0])}, "mean", 1, 0)
    assert {name: value.tolist() for name, value in found.items()} == {"a": [[2.0, 2.0], [2.0, 2.0]], "b": [7.0]}


def test_a_mean_is_taken_in_double_precision() -> None:
    """In half precision the sum of these is infinite, and in single precision 1 is lost beside 2**24."""
    assert replaced({"a": torch.full((4,), 6e4).half()}, "mean", 1, 0)["a"].tolist() == [6e4] * 4
    wide = torch.tensor([2.0**24, 1.0, 1.0, -(2.0**24)])
    assert replaced({"a": wide}, "mean", 1, 0)["a"].tolist() == [0.5] * 4


@EITHER
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_each_tensor_keeps_its_values_or_its_sum(placebo: Any, dtype: torch.dtype) -> None:
    omega = {name: value.to(dtype) for name, value in some().items()}
    is_placebo(replaced(omega, placebo, 1, 0), omega, placebo, 0.0 if placebo == "shuffled" else 1e-6)


@EITHER
def test_the_importance_itself_stays_as_it_is(placebo: Any) -> None:
    omega = some()
    replaced(omega, placebo, 1, 0)
    assert same_bits(omega, some())


@EITHER
@pytest.mark.parametrize("shape", [(0,), (1,), (1, 1)])
def test_tensors_with_nothing_to_move(placebo: Any, shape: tuple[int, ...]) -> None:
    assert torch.equal(replaced({"a": torch.ones(shape)}, placebo, 1, 0)["a"], torch.ones(shape))


def test_where_values_lie_in_memory_does_not_matter() -> None:
    plain = torch.arange(48.0).view(4, 3, 2, 2)
    turned = plain.contiguous(memory_format=torch.channels_last)
    assert torch.equal(*(replaced({"a": value}, "shuffled", 1, 0)["a"] for value in (plain, turned)))


def test_one_seed_and_round_have_one_order_and_others_have_others() -> None:
    orders = {at: replaced(some(), "shuffled", *at) for at in ((5, 0), (5, 1), (6, 0), (6, 1))}
    assert all_of(same_bits(replaced(some(), "shuffled", *at), found) for at, found in orders.items())
    for at, found in orders.items():
        for other in orders.keys() - {at}:
            assert placed_otherwise(found, orders[other])


def test_every_order_comes_as_often_as_any_other() -> None:
    """Six orders of three values in 1,200 draws: 200 each, with a standard deviation of 12.9."""
    value = torch.tensor([1.0, 2.0, 3.0])
    seen = Counter(tuple(replaced({"a": value}, "shuffled", seed, 0)["a"].tolist()) for seed in range(1200))
    assert len(seen) == 6
    assert all_of(135 < count < 265 for count in seen.values())


def test_tensors_of_one_size_are_not_shuffled_alike() -> None:
    value = torch.arange(20.0)
    found = replaced({"a": value, "b": value}, "shuffled", 1, 0)
    assert not torch.equal(found["a"], found["b"])


# ---- FedCL

SERVERS: Any = pytest.mark.parametrize(
    "options",
    [
        *({"importance": kind} for kind in ("abs", "sq", "mas", "si")),
        {"interval": 2},
        {"interval": 2, "fallback": "catch_up"},
        {"importance": "si", "fallback": "catch_up"},
        {"first": "send"},
    ],
    ids=str,
)


@EITHER
@SERVERS
def test_the_servers_importance_is_replaced_in_each_round(placebo: Any, options: dict[str, Any]) -> None:
    """At strength 0 both runs have the same models, so their importances can be compared."""
    true, fleet = (Fleet(FedCL(ROUGH, strength=0.0, **options, placebo=each)) for each in ("none", placebo))
    compared = 0
    for names in ("ab", "bc", "cd"):
        wanted, found = ({name: down for name, (down, _) in each.play(names).items()} for each in (true, fleet))
        for name, down in wanted.items():
            assert down.keys() == found[name].keys()
            assert same_bits(found[name]["weights"], down["weights"])
            if "importance" in down and any(value.any() for value in down["importance"].values()):  # si begins with 0
                is_placebo(found[name]["importance"], down["importance"], placebo)
                compared += 1
    assert compared >= 3


def test_all_devices_of_a_round_get_one_importance() -> None:
    fleet = Fleet(FedCL(ROUGH, interval=3, fallback="catch_up", placebo="shuffled"))
    fleet.play("ab")
    late = fleet.play("cd")
    assert all(same_bits(late[name][0]["importance"], fleet.memory["a"]["importance"]) for name in "cd")


@pytest.mark.parametrize("fallback", ["none", "catch_up"])
def test_the_server_shuffles_anew_for_each_round(fallback: Any) -> None:
    """Whose importance is the same, as the model stays.  One that is kept is made by the round before, which also made
    that of round 0."""
    algorithm = FedCL(ROUGH, fallback=fallback, placebo="shuffled")
    state, orders = algorithm.start(first(), party("server")), []
    for round in range(3):
        orders.append(algorithm.request(state, ["a"], party("server", round)).download["importance"])
        state = algorithm.combine(state, {"a": Reply({"weights": first()}, 1)}, party("server", round))
    for k, one in enumerate(orders[:-1]):
        for other in orders[k + 1 :]:
            is_placebo(one, other, "shuffled")


@EITHER
@pytest.mark.parametrize("kind", ["abs", "sq", "mas"])
def test_so_is_a_devices_own_estimate(placebo: Any, kind: Any) -> None:
    options: dict[str, Any] = {"importance": kind, "fallback": "local_estimate", "interval": 10, "placebo": placebo}
    algorithm, device = FedCL(ROUGH, strength=5.0, **options), party("c", 1)
    known = algorithm.holder.known({"weights": first()}, device)
    assert known is not None
    is_placebo(known, importance(network(), cross_entropy, device.x, device.y, kind), placebo)
    own, sent = (algorithm.train({"weights": first()} | more, party("c", 1)) for more in ({}, {"importance": known}))
    assert same_bits(own.upload["weights"], sent.upload["weights"])
    assert (own.leverage, own.numbers) == (sent.leverage, sent.numbers)


def test_devices_and_rounds_shuffle_their_own_estimates_differently() -> None:
    algorithm = FedCL(ROUGH, fallback="local_estimate", interval=10, placebo="shuffled")
    same = {"x": party("a").x, "y": party("a").y}
    parties = [replace(party(name, round), **same) for name, round in (("a", 1), ("b", 1), ("a", 2))]
    one, other, later = (algorithm.holder.known({"weights": first()}, each) for each in parties)
    assert one is not None and other is not None and later is not None  # noqa: PT018
    for pair in ((one, other), (one, later), (other, later)):
        is_placebo(*pair, "shuffled")


@EITHER
@pytest.mark.parametrize("interval", [1, 2])
def test_what_a_device_receives_or_keeps_is_not_replaced_again(placebo: Any, interval: int) -> None:
    down, omega = {"weights": first()}, {name: value.double() / 100 for name, value in some().items()}
    with_, without = (FedCL(ROUGH, interval=interval, placebo=each) for each in (placebo, "none"))
    kept = {"importance": omega, "importance_round": {"round": torch.tensor(0)}}
    for download, memory in ((down | {"importance": omega}, {}), (down, kept)):
        found, wanted = (each.train(download, party("a", 1, memory)) for each in (with_, without))
        assert same_bits(found.upload["weights"], wanted.upload["weights"])
        assert found.leverage == wanted.leverage


# ---- FedCurv

CURVED: Any = pytest.mark.parametrize(
    "options",
    [
        *({"fisher": fisher} for fisher in ("empirical", "exact", "sampled", "batch_squared")),
        {"upload": "lean"},
        {"centred": True},
        {"participation": "last_round"},
    ],
    ids=str,
)


@EITHER
@CURVED
@pytest.mark.parametrize("round", [0, 3])
def test_each_devices_fisher_is_replaced_before_its_product_with_the_model(
    placebo: Any, options: dict[str, Any], round: int
) -> None:
    """The upload of a device that keeps nothing is its whole part of the sums."""
    down, device = {"weights": first()}, party("a", round)
    true, found = (FedCurv(ROUGH, **options, placebo=each).train(down, device).upload for each in ("none", placebo))
    assert same_bits(found["weights"], true["weights"])
    is_placebo(found["fisher"], true["fisher"], placebo)
    for name, product in found.get("fisher_theta", {}).items():
        away = found["weights"][name] - (down["weights"][name] if "centred" in options else 0.0)
        torch.testing.assert_close(product, found["fisher"][name] * away, rtol=1e-14, atol=0)


@pytest.mark.parametrize("upload", ["paper", "lean"])
@EITHER
def test_the_sums_are_those_of_the_placebos(placebo: Any, upload: Any) -> None:
    """Each estimated and replaced here, at the model that the device uploaded last."""
    algorithm = FedCurv(ROUGH, 0.1, upload=upload, placebo=placebo)
    fleet, last = Fleet(algorithm), {}
    for round, names in enumerate(("ab", "bc", "ac")):
        last |= {name: (round, reply.upload["weights"]) for name, (_, reply) in fleet.play(names).items()}
    parts = []
    for name, (round, theta) in last.items():
        model, device = network(), party(name, round)
        model.load_state_dict(theta)
        fisher = importance(model, cross_entropy, device.x, device.y, "sq")
        parts.append((replaced(fisher, placebo, device.seed, round), theta))
    for name, total in fleet.state["fisher"].items():
        torch.testing.assert_close(total, sum_of(u[name] for u, _ in parts), rtol=1e-11, atol=1e-16)
        product = sum_of(u[name] * theta[name] for u, theta in parts)
        torch.testing.assert_close(fleet.state["fisher_theta"][name], product, rtol=1e-10, atol=1e-15)


def sum_of(values: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(values)).sum(0)


def test_devices_and_rounds_shuffle_their_fishers_differently() -> None:
    """Devices with the same examples, whose training hardly moves: as if all were the same estimate."""
    still = FedCurv(replace(ROUGH, lr=1e-30), placebo="shuffled")
    same = {"x": party("a").x, "y": party("a").y}
    parties = [replace(party(name, round), **same) for name, round in (("a", 0), ("b", 0), ("a", 1))]
    one, other, later = (still.train({"weights": first()}, each).upload["fisher"] for each in parties)
    for pair in ((one, other), (one, later), (other, later)):
        is_placebo(*pair, "shuffled")


@pytest.mark.parametrize("upload", ["paper", "lean"])
def test_a_share_that_is_kept_is_that_of_the_shuffled_values(upload: Any) -> None:
    """A cut takes the largest of the whole model, wherever they lie: as many of each tensor."""
    down, device = {"weights": first()}, party("a")
    true, found = (
        FedCurv(ROUGH, keep=0.3, upload=upload, placebo=each).train(down, device).upload["fisher"]
        for each in ("none", "shuffled")
    )
    is_placebo(found, true, "shuffled")


# ---- both


@pytest.mark.parametrize("kind", [FedCL, FedCurv])
@pytest.mark.parametrize("placebo", ["none", "shuffled", "mean"])
def test_without_strength_it_is_fedavg_to_the_bit(kind: Any, placebo: Any) -> None:
    more = {"interval": 2, "fallback": "local_estimate"} if kind is FedCL else {}
    fleet, plain = Fleet(kind(ROUGH, strength=0.0, placebo=placebo, **more)), Fleet(FedAvg(ROUGH))
    for names in ("ab", "bc", "ad"):
        fleet.play(names)
        plain.play(names)
        assert same_bits(fleet.state["weights"], plain.state["weights"])


@pytest.mark.parametrize("kind", [FedCL, FedCurv])
def test_with_strength_each_placebo_trains_another_model(kind: Any) -> None:
    """Else a lab could not tell them apart."""
    finals = []
    for placebo in ("none", "shuffled", "mean"):
        fleet = Fleet(kind(ROUGH, strength=20.0 if kind is FedCL else 1.0, placebo=placebo))
        for names in ("ab", "bc"):
            fleet.play(names)
        finals.append(fleet.state["weights"])
    assert not same_bits(finals[0], finals[1])
    assert not same_bits(finals[0], finals[2])
    assert not same_bits(finals[1], finals[2])


@EITHER
@pytest.mark.parametrize(
    "algorithm",
    [
        *(FedCL(ROUGH, interval=2, fallback=how) for how in ("keep_last", "catch_up", "local_estimate")),  # type: ignore[arg-type]
        FedCL(ROUGH, importance="si"),
        FedCurv(ROUGH),
        FedCurv(ROUGH, upload="lean"),
    ],
)
def test_the_declared_work_is_that_of_the_original(placebo: Any, algorithm: Any) -> None:
    other = replace(algorithm, placebo=placebo)
    for round in range(3):
        for kinds in ((), ("weights", "importance", *SUMS)):
            load = Load(round, 20, 91, kinds=kinds, memory=kinds, replies=2)
            for half in ("request_work", "device_work", "combine_work", "device_floats"):
                assert getattr(other, half)(load) == getattr(algorithm, half)(load)


@EITHER
@pytest.mark.parametrize("options", [{"importance": "tensor_scalar"}, {"preset": "author_code"}])
def test_one_number_for_a_tensor_has_no_placebo(placebo: Any, options: dict[str, Any]) -> None:
    words = f"^placebo is '{placebo}'; with importance tensor_scalar it must be 'none': [^.]*as it is$"
    with pytest.raises(ValueError, match=words):
        FedCL(ROUGH, placebo=placebo, **options)


def test_of_equal_values_none_is_the_largest() -> None:
    with pytest.raises(ValueError, match=r"^placebo is 'mean'; with keep 0.3 it must be 'shuffled': [^.]*$"):
        FedCurv(ROUGH, placebo="mean", keep=0.3)


@pytest.mark.parametrize("kind", [FedCL, FedCurv])
def test_another_word_is_named(kind: Any) -> None:
    with pytest.raises(ValueError, match="^placebo is 'sugar'; it must be 'none', 'shuffled' or 'mean'$"):
        kind(ROUGH, placebo="sugar")
