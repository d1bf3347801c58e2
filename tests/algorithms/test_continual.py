"""Continual federated learning: cycles of drifting data, retraining, and parameters that stay at home."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Algorithm, Load, Message, Party, Phase, Reply, Tensors, Training, matches
from algorithms.continual import Continual
from algorithms.counting.cost import Meter
from algorithms.fedavg import FedAvg
from algorithms.training.local import sgd
from algorithms.training.seeding import seeded
from network.wire.payload import encode
from tests.algorithms.made import cross_entropy, same_bits
from tests.all_of import all_of

NAMES = ("a", "b", "c", "d", "e")
PER_CYCLE = 4
DRIFT = Training(epochs=2, batch=4, lr=0.1, lr_decay=0.9, momentum=0.9, weight_decay=1e-3, per_cycle=PER_CYCLE)
PERSONAL_NAMES = ("softmax.weight", "softmax.bias")
PERSONAL = set(PERSONAL_NAMES)
PARAMETERS = {
    "body.weight": 15,
    "body.bias": 5,
    "norm.weight": 5,
    "norm.bias": 5,
    "softmax.weight": 15,
    "softmax.bias": 3,
}


def network() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(
        OrderedDict(
            body=nn.Linear(3, 5), norm=nn.BatchNorm1d(5), relu=nn.Tanh(), drop=nn.Dropout(0.2), softmax=nn.Linear(5, 3)
        )
    )


def party(name: str, round: int, memory: Message | None = None, cycle: int = 0) -> Party:
    """A device whose labels are a rule of its own, and of the cycle."""
    draw = torch.Generator().manual_seed(1000 * cycle + ord(name[0]))
    n = 6 + 2 * (ord(name[0]) % 3)  # even: no last batch is of one
    x = torch.randn(n, 3, generator=draw)
    y = (x @ torch.randn(3, 3, generator=draw)).argmax(1)
    return Party(name, 5, network(), cross_entropy, x, y, round, cycle, 100 * round + ord(name[0]), memory or {})


def copied(model: nn.Module) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def personal(tensors: Tensors) -> Tensors:
    return {name: value for name, value in tensors.items() if name in PERSONAL}


def shared(tensors: Tensors) -> Tensors:
    return {name: value for name, value in tensors.items() if name not in PERSONAL}


@dataclass
class Round:
    """The observable results of one round."""

    before: Tensors  # the server's model
    down: Message
    replies: dict[str, Reply]
    after: Tensors


@dataclass
class Fleet:
    """Rounds as the engine plays them: two devices are asked, or all."""

    algorithm: Algorithm
    state: Message = field(default_factory=dict)
    memory: dict[str, Message] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.algorithm.start(copied(network()), party("server", 0))

    def play(self, rounds: int = 1, absent: str = "") -> Fleet:
        for _ in range(rounds):
            self._play([name for name in NAMES if name not in absent])
        return self

    def _play(self, names: Sequence[str]) -> None:
        number, before = len(self.rounds), self.state["weights"]
        asked = self.algorithm.cohort(number, names, 2, number)
        server = party("server", number)
        down = self.algorithm.request(self.state, asked, server).download
        replies = {name: self.algorithm.train(down, self.device(name, number)) for name in asked}
        for name, reply in replies.items():
            form = self.algorithm.upload_form(number, network())
            assert {k: shapes(t) for k, t in reply.upload.items()} == {k: shapes(t) for k, t in form.items()}
            self.memory[name] = self.memory.get(name, {}) | reply.memory | reply.if_counted
        self.state = self.algorithm.combine(self.state, replies, server)
        self.rounds.append(Round(before, down, replies, self.state["weights"]))

    def device(self, name: str, number: int) -> Party:
        return party(name, number, self.memory.get(name), self.algorithm.training.cycle(number))


def shapes(tensors: Tensors) -> dict[str, Any]:
    return {name: (value.dtype, value.shape) for name, value in tensors.items()}


@cache
def trail(algorithm: Algorithm) -> list[Tensors]:
    """The server's model after each round of two cycles."""
    return [round.after for round in Fleet(algorithm).play(2 * PER_CYCLE).rounds]


def equal(one: Algorithm, *others: Algorithm) -> bool:
    first = trail(one)
    return all_of(all_of(map(same_bits, first, trail(other))) for other in others)


def continual(variant: Any, training: Training = DRIFT, **options: Any) -> Continual:
    return Continual(training, variant=variant, **options)


# ---- equalities (docs/design/algorithms.md §13)


def test_without_retraining_epochs_all_but_alg2_are_the_baseline_that_averages() -> None:
    none = {"retrain_epochs": 0}
    assert equal(continual("baseline", average=True), continual("alg0", **none), continual("alg1", **none))


def test_if_nothing_is_personal_alg1_and_alg2_are_the_baseline_that_averages() -> None:
    nothing = {"personal": ""}
    assert equal(continual("baseline", average=True), continual("alg1", **nothing), continual("alg2", **nothing))


def test_if_all_is_personal_alg1_is_alg0() -> None:
    assert equal(continual("alg0"), continual("alg1", personal="*"))


def test_the_baseline_is_fedavg() -> None:
    assert equal(continual("baseline"), FedAvg(DRIFT))


def test_averaging_models_that_are_equal_changes_nothing() -> None:
    for number, after in enumerate(rounds := trail(continual("baseline", average=True))):
        if number % PER_CYCLE == PER_CYCLE - 1:
            assert same_bits(after, rounds[number - 1])


@pytest.mark.parametrize("variant", ["alg1", "alg2"])
def test_what_the_minimal_upload_leaves_out_the_server_knows(variant: str) -> None:
    assert equal(continual(variant), continual(variant, upload="literal"))


def test_all_variants_differ_once_something_is_retrained() -> None:
    ends = [trail(continual(variant))[-1]["body.weight"] for variant in ("baseline", "alg0", "alg1", "alg2")]
    assert all_of(not torch.equal(a, b) for k, a in enumerate(ends) for b in ends[k + 1 :])


# ---- what stays equal, and what stays at home


@pytest.mark.parametrize("variant", ["alg1", "alg2"])
def test_after_retraining_all_shared_parts_are_the_servers(variant: str) -> None:
    rounds = Fleet(continual(variant, inner=2 if variant == "alg2" else 1)).play(3 * PER_CYCLE).rounds
    whole = [round for round in rounds if len(round.replies) == len(NAMES)]
    assert len(whole) == (5 if variant == "alg2" else 3)
    for round in whole:
        for reply in round.replies.values():
            assert same_bits(shared(reply.model), shared(round.before))
            assert same_bits(shared(reply.model), shared(round.after))
            assert not torch.equal(reply.model["softmax.weight"], round.before["softmax.weight"])


@pytest.mark.parametrize("upload", ["minimal", "literal"])
def test_after_cycle_0_no_byte_of_a_personal_parameter_is_on_any_link(upload: Any) -> None:
    fleet = Fleet(continual("alg2", upload=upload, inner=2)).play(3 * PER_CYCLE)
    kept = [
        value.numpy().tobytes()
        for round in fleet.rounds
        for reply in round.replies.values()
        for value in personal(reply.model).values()
        if not torch.equal(value, torch.zeros_like(value))
    ]
    for round in fleet.rounds[PER_CYCLE:]:
        for message in (round.down, *(reply.upload for reply in round.replies.values())):
            sent = encode({kind: {n: t.numpy() for n, t in m.items()} for kind, m in message.items()})
            assert b"softmax" not in sent
            assert all_of(value not in sent for value in kept)
    assert all_of(round.down["weights"].keys() >= PERSONAL for round in fleet.rounds[:PER_CYCLE])  # global until then


def test_personal_parts_live_on_from_cycle_to_cycle_and_the_servers_rests() -> None:
    fleet = Fleet(continual("alg2")).play(3 * PER_CYCLE)
    after_cycle_0 = fleet.rounds[PER_CYCLE - 1].after
    assert same_bits(personal(fleet.state["weights"]), personal(after_cycle_0))
    last: dict[str, Tensors] = {}
    for number, round in enumerate(fleet.rounds):
        for name, reply in round.replies.items():
            retrains = number % PER_CYCLE == PER_CYCLE - 1
            if number >= PER_CYCLE:
                assert bool(reply.memory) == retrains
                assert same_bits(personal(reply.model), last[name]) == (not retrains)
            last[name] = personal(reply.model)
    assert len({value["softmax.bias"].numpy().tobytes() for value in last.values()}) == len(NAMES)


def test_a_reply_tells_the_whole_model() -> None:
    for round in Fleet(continual("alg2")).play(2 * PER_CYCLE).rounds:
        assert all_of(shapes(reply.model) == shapes(round.before) for reply in round.replies.values())


@pytest.mark.parametrize("variant", ["baseline", "alg0", "alg1", "alg2"])
def test_what_a_device_would_use_is_trained_only_where_all_retrain(variant: str) -> None:
    """A trial, for the metric `personalised`: the model received (with Alg. 2 under the device's own θ^pe), and in the
    last round of a cycle what retraining makes of it.  FedAvg's passes are no part of it: nobody pays for them."""
    fleet = Fleet(continual(variant, average=variant == "baseline"))
    for number in range(2 * PER_CYCLE):
        down, party = (
            fleet.algorithm.request(fleet.state, NAMES, fleet.device("s", number)).download,
            fleet.device("a", number),
        )
        fleet.play()
        used = fleet.algorithm.train(down, replace(party, trial=True)).model
        if number % PER_CYCLE == PER_CYCLE - 1:
            assert same_bits(used, fleet.rounds[-1].replies["a"].model)
            assert same_bits(used, fleet.rounds[-1].before) == (variant == "baseline")
        else:
            own = party.memory.get("personal", {}) if number >= PER_CYCLE else {}
            assert same_bits(used, fleet.rounds[-1].before | own)


def test_a_device_that_was_never_asked_before_gets_the_model_to_retrain() -> None:
    fleet = Fleet(continual("alg2")).play(PER_CYCLE)
    seen = {name for round in fleet.rounds[:-1] for name in round.replies}
    assert len(seen) < len(NAMES)
    assert fleet.rounds[-1].replies.keys() == set(NAMES)
    assert fleet.memory.keys() == set(NAMES)


def test_a_device_that_was_never_reached_begins_with_zeros_and_is_counted() -> None:
    fleet = Fleet(continual("alg2", training=replace(DRIFT, momentum=0.0, weight_decay=0.0)))
    fleet.play(PER_CYCLE, absent="e").play(PER_CYCLE - 1, absent="abcd").play()
    *_, trained, retrained = fleet.rounds
    assert all_of(not value.any() for value in personal(trained.replies["e"].model).values())
    assert trained.replies["e"].numbers == {"without_personal": 1.0}
    # A softmax of zeros sends no gradient down: what it uploads is what it got, but for BatchNorm's statistics.
    for name in ("body.weight", "body.bias", "norm.weight"):
        assert torch.equal(trained.replies["e"].upload["weights"][name], trained.before[name])
    assert retrained.replies["e"].model["softmax.weight"].any()
    assert retrained.replies["a"].numbers == {"without_personal": 0.0}


def test_the_mean_that_a_cycle_begins_with_counts_the_examples_of_the_finished_one() -> None:
    round = Fleet(continual("alg0")).play(PER_CYCLE).rounds[-1]
    n = {name: len(party(name, 0).y) for name in NAMES}
    assert len(set(n.values())) > 1
    for name in ("body.weight", "softmax.bias"):
        mean = sum(n[k] * reply.model[name].double() for k, reply in round.replies.items()) / sum(n.values())
        torch.testing.assert_close(round.after[name].double(), mean, rtol=1e-6, atol=1e-7)
    assert {name: reply.examples for name, reply in round.replies.items()} == n


def test_the_order_of_arrival_leaves_no_trace() -> None:
    for variant in ("alg0", "alg1", "alg2"):
        algorithm = continual(variant)
        round = Fleet(algorithm).play(PER_CYCLE).rounds[-1]
        turned = dict(reversed(round.replies.items()))
        again = algorithm.combine({"weights": round.before}, turned, party("server", PER_CYCLE - 1))
        assert same_bits(again["weights"], round.after)


def test_one_full_batch_of_retraining_is_one_step_on_the_personal_parameters() -> None:
    algorithm = continual("alg1", Training(epochs=3, batch=99, lr=0.5, lr_decay=0.9, per_cycle=2))
    device = replace(wide_party(1), seed=4)
    start, model = copied(wide()), wide()
    loss = cross_entropy(model(device.x), device.y).mean()
    slopes = dict(zip(PERSONAL_NAMES, torch.autograd.grad(loss, list(model.softmax.parameters())), strict=True))
    reply = algorithm.train({"weights": start}, device)
    for name, value in reply.model.items():
        step = 0.5 * 0.9 * slopes[name] if name in slopes else torch.zeros_like(value)
        torch.testing.assert_close(value, start[name] - step, rtol=1e-6, atol=1e-7)


# ---- before round 0


@pytest.mark.parametrize("variant", ["baseline", "alg2"])
def test_without_pretraining_the_first_weights_are_those_given(variant: str) -> None:
    weights = copied(network())
    state = continual(variant, pretrain=0).start(weights, party("server", 0))
    assert state.keys() == {"weights"}
    assert same_bits(state["weights"], weights)
    assert equal(continual(variant), continual(variant, pretrain=0))


def test_pretraining_is_so_many_epochs_of_sgd_on_the_proxy_set() -> None:
    weights, server = copied(network()), party("server", 0)
    state = continual("alg1", pretrain=3).start(weights, server)
    assert same_bits(state["weights"], sgd(server, weights, replace(DRIFT, epochs=3)))
    assert not same_bits(state["weights"], sgd(server, weights, DRIFT))


def test_the_declared_flops_of_pretraining_are_those_of_the_real_call_once() -> None:
    algorithm, meter = continual("alg1", LARGE, pretrain=3, personal="softmax.*"), Meter(wide(), (40,), cross_entropy)
    with FlopCounterMode(display=False) as counter:
        algorithm.start(copied(wide()), wide_party(0))
    (phase,) = algorithm.request_work(Load(0, 16, 1850))
    assert (phase.name, phase.epochs) == ("pretrain", 3)
    assert meter.flops(phase) == pytest.approx(counter.get_total_flops(), rel=0.01)
    assert meter.step(phase).floats == meter.step(FedAvg(LARGE).device_work(Load(0, 16, 1850))[0]).floats
    assert algorithm.request_work(Load(1, 16, 1850)) == continual("alg1", LARGE).request_work(Load(0, 16, 1850)) == ()


def test_without_a_proxy_set_there_is_nothing_to_train_on_before() -> None:
    server = party("server", 0)
    empty = replace(server, x=server.x[:0], y=server.y[:0])
    with pytest.raises(ValueError, match="pretrain is 2; it must be 0, for the server's proxy set has no examples"):
        continual("baseline", pretrain=2).start(copied(network()), empty)


# ---- which rounds, which bytes

ALL, SHARED, PRIVATE = sum(PARAMETERS.values()) + 11, 30 + 11, 18  # BatchNorm has 2 x 5 + 1 buffers, which are shared


def floats(message: Message) -> int:
    return sum(value.numel() for tensors in message.values() for value in tensors.values())


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        (continual("baseline"), [ALL] * 8, [ALL] * 8),
        (continual("alg0"), [ALL] * 8, [ALL] * 8),
        (continual("alg1"), [ALL] * 8, 2 * [ALL, ALL, ALL, PRIVATE]),
        (continual("alg1", upload="literal"), [ALL] * 8, [ALL] * 8),
        (continual("alg2"), 4 * [ALL] + 4 * [SHARED], [ALL, ALL, ALL, 0, SHARED, SHARED, SHARED, 0]),
        (continual("alg2", inner=2), 4 * [ALL] + 4 * [SHARED], [ALL, ALL, ALL, 0, SHARED, 0, SHARED, 0]),
        (
            continual("alg2", inner=2, upload="literal"),
            4 * [ALL] + 4 * [SHARED],
            [ALL, ALL, ALL, SHARED, SHARED, 0, SHARED, SHARED],
        ),
    ],
    ids=["baseline", "alg0", "alg1", "alg1 literal", "alg2", "alg2 m=2", "alg2 m=2 literal"],
)
def test_what_travels_in_each_round_of_two_cycles(algorithm: Continual, down: list[int], up: list[int]) -> None:
    rounds = Fleet(algorithm).play(2 * PER_CYCLE).rounds
    assert [floats(round.down) for round in rounds] == down
    assert [{floats(reply.upload) for reply in round.replies.values()} for round in rounds] == [{n} for n in up]
    assert floats(algorithm.download_form(party("server", 0))) == max(down)


@pytest.mark.parametrize(
    ("algorithm", "whole"),
    [
        (continual("baseline"), set()),
        (continual("baseline", average=True), {3, 7, 11}),
        (continual("alg0"), {3, 7, 11}),
        (continual("alg1"), {3, 7, 11}),
        (continual("alg2"), {3, 7, 11}),
        (continual("alg2", inner=2), {3, 5, 7, 9, 11}),  # cycle 0 is Alg. 1's
    ],
)
def test_the_last_round_of_a_block_asks_the_whole_fleet(algorithm: Continual, whole: set[int]) -> None:
    asked = [len(algorithm.cohort(round, NAMES, 2, seed=round)) for round in range(12)]
    assert asked == [5 if round in whole else 2 for round in range(12)]


# ---- work


LARGE = Training(lr=0.1, epochs=2, batch=8, per_cycle=2, momentum=0.9)


def wide() -> nn.Sequential:
    seeded(3)
    return nn.Sequential(OrderedDict(body=nn.Linear(40, 30), relu=nn.Tanh(), softmax=nn.Linear(30, 20)))


def wide_party(round: int) -> Party:
    x, y = torch.randn(16, 40, generator=torch.Generator().manual_seed(0)), torch.arange(16)
    return Party("a", 5, wide(), cross_entropy, x, y, round, round // 2, 1)


@pytest.mark.parametrize("round", [0, 1, 2, 3])
@pytest.mark.parametrize("variant", ["baseline", "alg0", "alg1", "alg2"])
def test_the_declared_flops_are_those_of_the_real_call(variant: str, round: int) -> None:
    algorithm = continual(variant, LARGE, retrain_epochs=3)
    device = wide_party(round)
    down = algorithm.request({"weights": copied(wide())}, ["a"], replace(device, name="server")).download
    meter = Meter(wide(), (40,), cross_entropy)
    with FlopCounterMode(display=False) as counter:
        algorithm.train(down, device)
    work = algorithm.device_work(Load(round, 16, 1850))
    assert sum(meter.flops(phase) for phase in work) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_work_by_hand() -> None:
    # Multiply-adds count 2; a step of 8: forward 2*8*(40*30 + 30*20); backward both weights' gradients, and the
    # softmax's input gradient only if something below it is trained.
    forward, body, top = 2 * 8 * (1200 + 600), 2 * 8 * 1200, 2 * 8 * 600
    meter = Meter(wide(), (40,), cross_entropy)
    algorithm = continual("alg2", LARGE)
    whole, retrain, apart, _ = (algorithm.device_work(Load(round, 8, 1850)) for round in range(4))
    assert [phase.name for phase in (*whole, *retrain, *apart)] == ["train", "retrain", "train"]
    assert meter.step(whole[0]).flops == forward + body + 2 * top
    assert meter.step(retrain[0]).flops == forward + top
    assert meter.step(apart[0]).flops == forward + body + top


def test_the_optimiser_is_charged_for_what_it_trains() -> None:
    meter = Meter(wide(), (40,), cross_entropy)
    algorithm = continual("alg2", LARGE)
    for round, parameters in ((0, 1230 + 620), (1, 620), (2, 1230)):
        (phase,) = algorithm.device_work(Load(round, 8, 1850))
        moved = meter.step(phase).floats - meter.step(replace(phase, per_parameter=0.0)).floats
        assert moved == 5 * parameters  # parameter and momentum read and written, gradient read
    (plain,) = FedAvg(LARGE).device_work(Load(0, 8, 1850))
    (ours,) = algorithm.device_work(Load(0, 8, 1850))
    assert meter.step(plain).floats == meter.step(ours).floats


def test_combining_reads_what_was_uploaded() -> None:
    meter = Meter(wide(), (40,), cross_entropy)
    algorithm = continual("alg2", LARGE)
    work = [algorithm.combine_work(Load(round, 8, 1850, replies=3)) for round in range(4)]
    assert work[1] == work[3] == ()
    assert [meter.step(work[round][0]).floats for round in (0, 2)] == [4 * 1850, 4 * 1230]
    assert meter.steps(work[0][0]) == 1
    assert meter.flops(work[0][0]) == 0


def test_without_epochs_or_personal_parameters_there_is_no_work_to_retrain() -> None:
    for algorithm in (
        continual("baseline", LARGE, average=True),
        continual("alg1", LARGE, retrain_epochs=0),
        continual("alg1", LARGE, personal=""),
    ):
        assert algorithm.device_work(Load(1, 8, 1850)) == ()


def test_globs_behind_an_exclamation_mark_name_what_is_left_out() -> None:
    assert matches("fc1.weight", "* !fc2.*")
    assert not matches("fc2.weight", "* !fc2.*")
    assert not matches("fc2.weight", "!fc2.* *")
    assert not matches("fc1.weight", "!fc2.*")
    assert not matches("fc1.weight", "")
    assert matches("fc1.weight", "fc2.* fc1.*")


def test_a_phase_refuses_floats_that_are_not_numbers() -> None:
    with pytest.raises(ValueError, match="per_parameter of phase 'train' is -1"):
        Meter(wide(), (40,), cross_entropy).steps(Phase("train", "batch", 8, 8, per_parameter=-1.0))


# ---- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "alg3"}, "variant is 'alg3'; it must be 'baseline', 'alg0', 'alg1' or 'alg2'"),
        ({"upload": "none"}, "upload is 'none'; it must be 'minimal' or 'literal'"),
        ({"retrain_epochs": -1}, "retrain_epochs is -1"),
        ({"inner": 0}, "inner is 0"),
        ({"pretrain": -1}, "pretrain is -1; it must be 0 or more"),
        ({"inner": 2, "variant": "alg1"}, "inner is 2; it must be 1, or more with alg2"),
        ({"personal": "!body.*"}, "personal is '!body"),
        ({"inner": 3}, "inner is 3 and rounds.per_cycle 4; a cycle must consist of so many equal blocks"),
        ({"inner": 4}, "inner is 4 and rounds.per_cycle 4"),
        ({"training": Training(epochs=1, batch=32, lr=0.1, per_cycle=1)}, "rounds.per_cycle 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.").replace("*", r"\*")):
        Continual(**{"training": DRIFT, "variant": "alg2", **options})


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (continual("alg1", Training(epochs=1, batch=32, lr=0.1)), "rounds.per_cycle is 0; alg1 needs data that drift"),
        (continual("alg1", personal="fc9.*"), "it must name some of body.weight, body.bias"),
        (continual("alg2", personal="body.* norm.* soft*"), "alg2 needs other parameters"),
    ],
)
def test_what_does_not_fit_the_model_or_the_data_is_told_at_the_start(algorithm: Continual, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        algorithm.start(copied(network()), party("server", 0))


def test_the_baseline_needs_no_cycles() -> None:
    assert equal(continual("baseline", replace(DRIFT, per_cycle=0)), FedAvg(replace(DRIFT, per_cycle=0)))
