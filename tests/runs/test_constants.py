"""Buffers that are not finite, as a causal mask of -inf, pass where they are as in the first model; nothing else."""

import numpy as np
import pytest
import torch
from safetensors.torch import load as tensors

from algorithms.aggregation import weighted_mean
from algorithms.algorithm import Reply, Training
from algorithms.fedavg import FedAvg
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Guarded
from emulator.lab.seeds import seed as derive
from emulator.messages.codec import Outbox, arrays_of
from network.wire import payload
from network.wire.form import NotFinite
from scenarios.load import build
from tests.all_of import all_of
from tests.conftest import SMALL, merged
from tests.runs import own_models
from tests.runs.test_work import party

NAMES = own_models.__name__
INF, NAN = float("inf"), float("nan")
CONSTANTS = ("mask", "bounds", "unused")


def same(one, other):
    return one.dtype == other.dtype and torch.equal(one.nan_to_num(9, 7, -7), other.nan_to_num(9, 7, -7))


LOSSY = [("int8", "int8"), ("bfloat16", "bfloat16"), ("top-0.1", "float16")]
RUNS = [
    *({"algorithm": name} for name in ("fedavg", "fedavgm", "fedadam", "scaffold", "uga", "fedcurv", "fedcl")),
    {"algorithm": "agentimportance"},
    *({"algorithm": "fedavg", "encoding": {"up": {"weights": up}, "down": {"weights": down}}} for up, down in LOSSY),
]


@pytest.mark.slow
@pytest.mark.parametrize("how", RUNS, ids=lambda how: "-".join(map(str, how.values())))
def test_they_go_through_all_rounds_as_they_are(play, how):
    name = how["algorithm"]
    entry = {name: {"encoding": how["encoding"]}} if "encoding" in how else name
    run = play(entry, model=f"{NAMES}:Masked", training={"batch": 64})
    assert run.outcome.failure is None
    assert [row["counted"] for row in run.rounds] == [4, 4]
    found, first = tensors(run.model), own_models.Masked().state_dict()
    for name in CONSTANTS:
        assert same(found[name], first[name]), name
    assert all_of(found[name].isfinite().all() for name in found.keys() - set(CONSTANTS))


@pytest.mark.parametrize("seed", [1, 2])
def test_they_may_be_drawn_with_the_first_weights(play, seed):
    run = play(model=f"{NAMES}:DrawnMask", seed=seed)
    lab = lab_of(build(merged(SMALL, {"model": f"{NAMES}:DrawnMask", "seeds": [1, 2]})))
    first = lab.network(derive(seed, "weights")).mask
    assert not same(first, lab.network(derive(3 - seed, "weights")).mask)
    assert same(tensors(run.model)["mask"], first)


def test_one_that_changes_to_what_is_finite_is_averaged(play):
    run = play(model=f"{NAMES}:Opening", rounds={"max": 1})
    assert run.outcome.failure is None
    assert tensors(run.model)["mask"][0].tolist() == [0] * 7 + [-INF]


def test_a_value_that_becomes_infinite_is_refused(play):
    run = play(model=f"{NAMES}:Closing", rounds={"max": 1})
    assert [row["counted"] for row in run.rounds] == [0]
    refused = run.of("refused")
    assert len(refused) == 4
    assert all_of("mask" in line["why"] or line["reason"] == "values" for line in refused)


# ---- by hand

CONSTANT = np.array([0.0, -INF, NAN, INF, 1.0], np.float32)


@pytest.mark.parametrize(
    ("values", "sound"),
    [
        ([0, -INF, NAN, INF, 1], True),
        ([5, -INF, NAN, INF, 2], True),  # what is finite may change
        ([0, 3, NAN, 2, 1], True),  # and become so
        ([-INF, -INF, NAN, INF, 1], False),
        ([0, -INF, NAN, INF, NAN], False),
        ([0, INF, NAN, INF, 1], False),
        ([0, NAN, NAN, INF, 1], False),
        ([0, -INF, INF, INF, 1], False),
    ],
)
def test_only_the_same_values_in_the_same_places_are_sound(values, sound):
    found = np.array(values, np.float32)
    assert payload.finite(found, CONSTANT) is sound
    message = {"weights": {"mask": found}}
    shapes = payload.manifest(message)
    data = payload.view(payload.encode(message))
    if sound:
        data.check(shapes, {"mask": CONSTANT})
    for constants in ({}, {"other": CONSTANT}, *([] if sound else [{"mask": CONSTANT}])):
        if not np.isfinite(found).all():
            with pytest.raises(NotFinite, match="mask"):
                data.check(shapes, constants)


def test_a_parameter_is_never_a_constant():
    lab = lab_of(build(merged(SMALL, {"model": f"{NAMES}:Masked"})))
    assert lab.constants(1).keys() == set(CONSTANTS)
    assert lab_of(build(SMALL)).constants(1) == {}


def test_the_mean_of_a_constant_is_the_constant():
    value = torch.tensor([0.5, -INF, NAN, INF])
    replies = {
        name: Reply({"weights": {"mask": value.clone()}}, examples)
        for name, examples in zip("abc", (1, 5, 2), strict=True)
    }
    assert same(weighted_mean(replies)["mask"], value)


@pytest.mark.parametrize("how", ["int8", "bfloat16", "top-0.1"])
def test_its_difference_is_0(how):
    base = {"mask": torch.tensor([0.5, -INF, NAN, INF]), "w": torch.tensor([1.0, 2.0])}
    outbox = Outbox({"weights": how}, 1, reference=base)
    sent = outbox.packed({"weights": {"mask": base["mask"].clone(), "w": torch.tensor([1.5, 2.0])}})
    assert sent.arrays()["weights"]["mask"].tolist() == [0, 0, 0, 0]
    worse = Outbox({"weights": how}, 1, reference=base)
    broken = worse.packed({"weights": {"mask": torch.tensor([NAN, -INF, NAN, INF]), "w": torch.tensor([1.5, 2.0])}})
    assert not np.isfinite(broken.arrays()["weights"]["mask"]).all()


@pytest.mark.parametrize(("at", "sound"), [((0, 7), True), ((7, 0), False)])
def test_the_state_of_a_server_may_hold_them(at, sound):
    network = own_models.Masked()
    server = party("server", "digits-cnn", 3, 0, {})
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    object.__setattr__(server, "model", network)
    object.__setattr__(server, "constants", arrays_of({"": {name: weights[name].clone() for name in CONSTANTS}})[""])
    weights["mask"][at] = -INF
    guarded = Guarded("mine", FedAvg(Training()))
    if sound:
        assert guarded.start(weights, server)["weights"].keys() == weights.keys()
    else:
        with pytest.raises(Faulty, match=r"start\(\) returned weights that are not finite \(mask\)"):
            guarded.start(weights, server)
