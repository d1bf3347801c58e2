"""Algorithms that must agree, played as whole runs."""

import numpy as np
import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

MOMENTUM = {"training": {"epochs": 2, "batch": 16, "momentum": 0.9, "weight_decay": 1e-4}, "rounds": {"max": 3}}


@pytest.mark.parametrize(
    "algorithm",
    [
        {"fedprox": {"mu": 0.0}},
        {"fedcl": {"strength": 0.0, "importance": "sq"}},
        {"fedcl": {"strength": 0.0, "interval": 2, "fallback": "keep_last"}},
        {"fedcurv": {"strength": 0.0}},
    ],
)
def test_a_penalty_of_strength_zero_is_fedavg_bit_for_bit(play, algorithm):
    assert play(algorithm, **MOMENTUM).model == play("fedavg", **MOMENTUM).model


@pytest.mark.parametrize("mu", [1.0, 0.1])
def test_fedcl_that_sends_no_importance_is_fedprox_from_the_second_round_on(play, mu):
    """Ω is sent in round 0 only; with strength 0 there, the rest is FedProx with μ = 2λ (algorithms.md §9 (c))."""
    rounds = {"rounds": {"max": 1}}
    assert play({"fedprox": {"mu": mu}}, **rounds).model != play("fedavg", **rounds).model


def test_fedcurv_on_a_fleet_of_one_is_fedavg_bit_for_bit(play):
    """Its own term is all there is, and it is subtracted (algorithms.md §9 F)."""
    alone = {
        "fleet": [{"profile": "pi-4", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}],
        "rounds": {"max": 3},
        "data": {"validation": 0.9},
    }
    assert play({"fedcurv": {"strength": 3.0}}, **alone).model == play("fedavg", **alone).model


def test_a_penalty_changes_the_model(play):
    plain = play("fedavg", rounds={"max": 3})
    for algorithm in ({"fedprox": {"mu": 1.0}}, {"fedcl": {"strength": 5.0}}, {"fedcurv": {"strength": 5.0}}):
        assert play(algorithm, rounds={"max": 3}).model != plain.model


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(play):
    first, again, other = play(seed=3), play(seed=3), play(seed=4)
    assert [path.read_bytes() for path in sorted(first.folder.iterdir())] == [
        path.read_bytes() for path in sorted(again.folder.iterdir())
    ]
    assert first.model != other.model


def test_all_algorithms_of_a_seed_start_from_the_same_model_and_ask_the_same_devices(play):
    runs = [play(algorithm, rounds={"fraction": 0.5}) for algorithm in ("fedavg", {"fedprox": {"mu": 1.0}})]
    opens = [[line["asked"] for line in run.of("open")] for run in runs]
    assert opens[0] == opens[1]
    assert runs[0].of("open")[0]["model"] == runs[1].of("open")[0]["model"]


def test_the_model_on_disk_is_the_one_that_the_last_combine_made(play):
    run = play()
    weights = load_file(run.folder / "final.safetensors")
    assert sum(value.size for value in weights.values()) == 53_002
    assert all(np.isfinite(value).all() for value in weights.values())
