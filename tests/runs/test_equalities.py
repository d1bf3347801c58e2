"""Algorithms that must agree, played as whole runs."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.all_of import all_of

pytestmark = pytest.mark.slow

UNSEEN = {"evaluate": {"every": 0}}  # what models are worth plays no part in whether they are the same
TRAINING = {"epochs": 2, "batch": 32, "momentum": 0.9, "weight_decay": 1e-4}
MOMENTUM = {"training": TRAINING, "rounds": {"max": 3}, **UNSEEN}


@pytest.fixture(scope="module")
def plain(play):
    return play("fedavg", **MOMENTUM).model


@pytest.mark.parametrize(
    "algorithm",
    [
        {"fedprox": {"mu": 0.0}},
        {"fedcl": {"strength": 0.0, "importance": "sq"}},
        {"fedcl": {"strength": 0.0, "interval": 2, "fallback": "keep_last"}},
        {"fedcurv": {"strength": 0.0}},
        {"fedcl": {"strength": 0.0, "placebo": "shuffled"}},
        {"fedcurv": {"strength": 0.0, "placebo": "mean"}},
        {"agentimportance": {"strength": 0.0, "weighted": False}},
        {"fedmeta": {"eta_meta": 0.0}},
    ],
)
def test_a_penalty_of_strength_zero_is_fedavg_bit_for_bit(play, plain, algorithm):
    assert play(algorithm, **MOMENTUM).model == plain


@pytest.mark.parametrize("fallback", ["none", "identity"])
def test_fedcl_whose_only_importance_is_0_is_fedavg_unless_1_stands_for_the_next(play, plain, fallback):
    """si has Ω = 0 in round 0.  That the rounds after are then FedProx's is in tests/algorithms/test_fedcl.py."""
    once = {"fedcl": {"importance": "si", "interval": 1000, "fallback": fallback, "strength": 1.0}}
    assert (play(once, **MOMENTUM).model == plain) == (fallback == "none")


def test_fedcurv_on_a_fleet_of_one_is_fedavg_bit_for_bit(play):
    """Its own term is all there is, and it is subtracted."""
    alone = {
        "fleet": [{"profile": "pi-4", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}],
        "rounds": {"max": 3},
        "data": {"validation": 0.9},
        **UNSEEN,
    }
    assert play({"fedcurv": {"strength": 3.0}}, **alone).model == play("fedavg", **alone).model


def test_a_penalty_changes_the_model(play):
    plain = play("fedavg", **UNSEEN)
    for algorithm in ({"fedprox": {"mu": 1.0}}, {"fedcl": {"strength": 5.0}}, {"fedcurv": {"strength": 5.0}}):
        assert play(algorithm, **UNSEEN).model != plain.model


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(play):
    first, again, other = play(seed=3), play(seed=3), play(seed=4)
    assert [path.read_bytes() for path in sorted(first.folder.iterdir())] == [
        path.read_bytes() for path in sorted(again.folder.iterdir())
    ]
    assert first.model != other.model


def test_all_algorithms_of_a_seed_start_from_the_same_model_and_ask_the_same_devices(play):
    runs = [play(algorithm, rounds={"fraction": 0.5}, **UNSEEN) for algorithm in ("fedavg", {"fedprox": {"mu": 1.0}})]
    opens = [[line["asked"] for line in run.of("open")] for run in runs]
    assert opens[0] == opens[1]
    assert runs[0].of("open")[0]["model"] == runs[1].of("open")[0]["model"]


def test_the_model_on_disk_is_the_one_that_the_last_combine_made(play):
    run = play()
    weights = load_file(run.folder / "final.safetensors")
    assert sum(value.size for value in weights.values()) == 53_002
    assert all_of(np.isfinite(value).all() for value in weights.values())
