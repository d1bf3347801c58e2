"""FedShare: the server's examples go down once, and are trained on beside the device's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Load, Message, Party, Reply, Tensors, Training
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.fedshare import FedShare, packed, unpacked
from algorithms.training.seeding import seeded
from tests.algorithms.made import cross_entropy, same_bits

torch.set_num_threads(1)  # as in a worker

TRAINING = Training(epochs=2, batch=4, lr=0.1)
NAMES = ["a", "b", "c", "d"]


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 3))


def images(n: int, seed: int) -> Tensor:
    """As MNIST's: bytes, scaled and shifted."""
    pixels = torch.randint(256, (n, 1, 4, 4), generator=torch.Generator().manual_seed(seed))
    return (pixels / 255 - 0.1307) / 0.3081


def party(n: int = 10, name: str = "server", round: int = 0) -> Party:
    seeded(3)
    y = torch.arange(n) % 3
    return Party(name, 4, network(), cross_entropy, images(n, ord(name[0])), y, round, 0, 5, fleet=NAMES)


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def nbytes(tensors: Tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def forms(message: Message) -> dict[str, dict[str, tuple[torch.dtype, torch.Size]]]:
    return {kind: {name: (t.dtype, t.shape) for name, t in tensors.items()} for kind, tensors in message.items()}


def received(algorithm: FedShare, server: Party, names: list[str], state: Message | None = None) -> dict[str, Message]:
    """The message that each device receives."""
    request = algorithm.request(state or {"weights": copied(server.model)}, names, server)
    return {name: {**request.download, **request.extra.get(name, {})} for name in names}


# ---- training


def test_an_empty_share_is_fedavg_bit_for_bit() -> None:
    server, device = party(0), party(10, "a")
    algorithm = FedShare(TRAINING)
    down = received(algorithm, server, ["a"])["a"]
    assert down.keys() == {"weights"}
    reply = algorithm.train(down, device)
    plain = FedAvg(TRAINING).train({"weights": copied(server.model)}, device)
    assert same_bits(reply.upload["weights"], plain.upload["weights"])
    assert (reply.examples, reply.memory) == (plain.examples, plain.memory)


def test_two_devices_that_are_given_each_others_examples_train_the_same() -> None:
    seeded(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    one, two = (
        replace(party(n, name), model=model, x=images(n, n).double(), seed=7) for n, name in ((6, "a"), (4, "b"))
    )
    algorithm = FedShare(Training(epochs=2, batch=10, lr=0.1))
    weights = copied(model)
    replies = [
        algorithm.train({"weights": weights, "share": packed(other.x, other.y)}, own)
        for own, other in ((one, two), (two, one))
    ]
    for name, value in replies[0].upload["weights"].items():
        torch.testing.assert_close(value, replies[1].upload["weights"][name], rtol=1e-12, atol=1e-15)
        assert not torch.equal(value, weights[name])
    assert [reply.examples for reply in replies] == [6, 4]  # private ones alone (reading 31)


def test_it_trains_on_its_own_and_the_shared_examples_together() -> None:
    server, device = party(7), party(10, "a")
    reply = FedShare(TRAINING).train(received(FedShare(TRAINING), server, ["a"])["a"], device)
    both = replace(device, x=torch.cat([device.x, server.x]), y=torch.cat([device.y, server.y]))
    plain = FedAvg(TRAINING).train({"weights": copied(server.model)}, both)
    assert same_bits(reply.upload["weights"], plain.upload["weights"])
    assert (reply.examples, plain.examples) == (10, 17)


def test_what_was_kept_trains_like_what_was_received() -> None:
    server, device = party(7), party(10, "a")
    algorithm = FedShare(TRAINING)
    first = algorithm.train(received(algorithm, server, ["a"])["a"], device)
    again = algorithm.train({"weights": copied(server.model)}, replace(device, memory=first.memory))
    assert same_bits(again.upload["weights"], first.upload["weights"])
    assert again.memory == {}  # nothing new


# ---- who gets what, and when


def replies_of(names: list[str]) -> dict[str, Reply]:
    return {name: Reply({"weights": copied(network())}, 1) for name in names}


@pytest.mark.parametrize("split", ["whole", "per_client"])
def test_examples_go_down_until_an_upload_has_been_counted(split: Any) -> None:
    algorithm, server = FedShare(TRAINING, split), party(8)
    state = algorithm.start(copied(server.model), server)
    assert algorithm.request(state, ["a", "b"], server).extra.keys() == {"a", "b"}
    state = algorithm.combine(state, replies_of(["a"]), server)  # b's upload is lost
    later = replace(server, round=1)
    assert algorithm.request(state, ["a", "b", "c"], later).extra.keys() == {"b", "c"}
    state = algorithm.combine(state, replies_of(["a", "b"]), later)
    assert algorithm.request(state, ["a", "b"], replace(server, round=2)).extra == {}
    assert {name: int(round) for name, round in state["shared_with"].items()} == {"a": 0, "b": 1}


def test_a_part_for_each_device_is_the_same_in_all_rounds_and_belongs_to_no_other() -> None:
    algorithm, server = FedShare(TRAINING, "per_client"), party(10)
    parts = {name: unpacked(down["share"])[0] for name, down in received(algorithm, server, NAMES).items()}
    assert [len(part) for part in parts.values()] == [2, 2, 2, 2]  # two are left out
    rows = torch.cat([part.flatten(1) for part in parts.values()])
    assert {tuple(row.tolist()) for row in rows} == {tuple(row.tolist()) for row in server.x[:8].flatten(1)}
    alone = received(algorithm, replace(server, round=5, seed=99), ["c"])["c"]
    assert torch.equal(unpacked(alone["share"])[0], parts["c"])


def test_a_part_of_each_round_is_drawn_anew_and_sent_anew() -> None:
    algorithm, server = FedShare(TRAINING, "per_round"), party(9)
    state = algorithm.combine({"weights": copied(server.model)}, replies_of(["a", "c"]), server)
    seen = []
    for seed in (5, 6):
        parts = {
            name: unpacked(down["share"])
            for name, down in received(algorithm, replace(server, seed=seed), ["a", "c"], state).items()
        }
        assert [len(y) for _, y in parts.values()] == [4, 4]
        rows = torch.cat([x.flatten(1) for x, _ in parts.values()])
        told = {tuple(row.tolist()) for row in rows}
        assert len(told) == 8  # one is left out
        assert told < {tuple(row.tolist()) for row in server.x.flatten(1)}
        seen.append(parts["a"][0])
    assert not torch.equal(*seen)
    down = received(algorithm, server, ["a"], state)["a"]
    assert algorithm.train(down, party(3, "a")).memory == {}


@pytest.mark.parametrize("split", ["per_client", "per_round"])
def test_fewer_examples_than_parts_are_told(split: Any) -> None:
    with pytest.raises(ValueError, match="the server holds 3 examples for 4 parts; each needs at least 1"):
        received(FedShare(TRAINING, split), party(3), NAMES)


def test_labels_stay_with_their_images() -> None:
    server = replace(party(10), x=torch.arange(10.0).view(10, 1, 1, 1).expand(10, 1, 4, 4), y=torch.arange(10))
    for split in ("whole", "per_client", "per_round"):
        for down in received(FedShare(TRAINING, split), server, NAMES).values():
            x, y = unpacked(down["share"])
            assert torch.equal(x[:, 0, 0, 0], y.float())


def test_the_form_is_that_of_the_largest_download() -> None:
    server = party(10)
    for split in ("whole", "per_client"):
        algorithm = FedShare(TRAINING, split)
        assert forms(algorithm.download_form(server)) == forms(received(algorithm, server, NAMES)["a"])
    alone = received(FedShare(TRAINING, "per_round"), server, ["a"])["a"]
    assert forms(FedShare(TRAINING, "per_round").download_form(server)) == forms(alone)
    assert FedShare(TRAINING).download_form(party(0)).keys() == {"weights"}


# ---- bytes


@pytest.mark.slow
def test_cifars_five_hundred_images_are_a_byte_a_pixel() -> None:
    pixels = torch.randint(256, (500, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    mean = torch.tensor([0.49, 0.48, 0.45]).view(3, 1, 1)
    deviation = torch.tensor([0.25, 0.24, 0.26]).view(3, 1, 1)
    x, y = (pixels / 255 - mean) / deviation, torch.zeros(500, dtype=torch.long)
    share = packed(x, y)
    assert torch.equal(unpacked(share)[0], x)
    assert nbytes(share) == 500 * 3072 + 3 * 256 * 4 + 500 * 8  # pixels, what they stand for, labels
    assert nbytes(share) == pytest.approx(1.5e6, rel=0.03)  # docs/design/algorithms.md §8


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(30, 1, 4, 4, generator=torch.Generator().manual_seed(1)),  # 480 levels
        torch.full((2, 1, 4, 4), float("nan")),
        torch.arange(12).view(3, 4),  # a text
        torch.ones(3, 4),
        torch.ones(0, 1, 4, 4),
    ],
)
def test_what_a_byte_cannot_tell_apart_goes_down_as_it_is(x: Tensor) -> None:
    share = packed(x, torch.zeros(len(x), dtype=torch.long))
    assert share.keys() == {"x", "y"}
    torch.testing.assert_close(unpacked(share)[0], x, rtol=0, atol=0, equal_nan=True)


def test_few_levels_and_a_channel_of_one_colour_come_back_as_they_were() -> None:
    x = torch.stack([images(6, 1)[:, 0], torch.full((6, 4, 4), 0.3)], 1)
    share = packed(x, torch.zeros(6, dtype=torch.long))
    assert share["x"].dtype == torch.uint8
    assert torch.equal(unpacked(share)[0], x)


# ---- work


@pytest.mark.slow
@pytest.mark.parametrize(("split", "shared"), [("whole", 8), ("per_client", 2), ("per_round", 4)])
def test_the_declared_flops_are_those_that_torch_counts(split: Any, shared: int) -> None:
    server, device = party(8), party(10, "a")
    algorithm = FedShare(TRAINING, split)
    down = received(algorithm, server, ["a", "b"])["a"]
    load = Load(0, 10, 100, kinds=frozenset(down), proxy=8, devices=4, asked=2)
    meter = Meter(device.model, (1, 4, 4), cross_entropy)
    with FlopCounterMode(display=False) as counted:
        algorithm.train(down, device)
    declared = sum(meter.flops(phase) for phase in algorithm.device_work(load))
    assert declared == pytest.approx(counted.get_total_flops(), rel=0.01)
    (phase,) = algorithm.device_work(load)
    assert phase.examples == 10 + shared
    assert algorithm.device_work(replace(load, kinds=(), memory=("share",))) == (phase,)
    assert algorithm.device_work(replace(load, kinds=())) == FedAvg(TRAINING).device_work(load)


@pytest.mark.parametrize("split", ["per_client", "per_round"])
def test_the_declared_examples_are_those_of_each_device(split: Any) -> None:
    names = [f"d{k}" for k in range(7)]
    server, algorithm = replace(party(72), devices=7, fleet=names), FedShare(TRAINING, split)
    (phase,) = algorithm.device_work(Load(0, 10, 100, kinds=("weights", "share"), proxy=72, devices=7, asked=7))
    downs = received(algorithm, server, names).values()
    assert [10 + len(down["share"]["y"]) for down in downs] == [phase.examples] * 7 == [20] * 7


# ---- slips


def test_slips_are_told() -> None:
    with pytest.raises(ValueError, match="split is 'half'"):
        FedShare(TRAINING, split="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the 0 names of the fleet lack"):
        received(FedShare(TRAINING, "per_client"), replace(party(3), fleet=()), ["a"])
