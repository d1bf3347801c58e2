"""Data that come in time slices: who trains on what and when, and what is said of the models."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from devices.data.babble import babble
from emulator.record.seal import seal_results
from tests.all_of import all_of
from tests.conftest import SMALL, merged

pytestmark = pytest.mark.slow

OWN = """
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from algorithms.fedavg import FedAvg
from devices.data.dataset import Dataset

TOKENS, OWNERS, CYCLES = 8, 4, 3


@dataclass(frozen=True)
class Probe(FedAvg):
    \"\"\"FedAvg that tells what its devices were given.\"\"\"

    def train(self, download, device):
        told = {"slice": float(device.cycle), "examples": float(len(device.y)), "tokens": float(device.x.sum())}
        reply = super().train(download, device)
        return replace(reply, numbers=told)


def turning():
    \"\"\"After token k comes k + 1 in slice 0, k + 2 in slice 1, and so on; each fifth label is any token.

    In slice c each owner says 8 + 4c windows to train on, and 3 to be tested on.
    \"\"\"
    rng = np.random.default_rng(5)
    parts = []
    for test in (False, True):
        owner, cycle = [], []
        for k in range(OWNERS):
            for c in range(CYCLES):
                owner += [k] * (3 if test else 8 + 4 * c)
                cycle += [c] * (3 if test else 8 + 4 * c)
        owner, cycle = np.array(owner), np.array(cycle)
        x = rng.integers(TOKENS, size=(len(owner), 5))
        y = (x + 1 + cycle[:, None]) % TOKENS
        y = np.where(rng.random(y.shape) < 0.2, rng.integers(TOKENS, size=y.shape), y)
        parts.append((x, y, owner, cycle))
    (x, y, owner, cycle), (x_test, y_test, owner_test, cycle_test) = parts
    names = tuple(f"owner {k}" for k in range(OWNERS))
    return Dataset("turning", x, y, x_test, y_test, TOKENS, names, owner, owner_test, CYCLES, cycle, cycle_test)


class Bigram(nn.Module):
    \"\"\"Logits of the next token: a row of a table for each token.\"\"\"

    def __init__(self):
        super().__init__()
        self.table = nn.Linear(TOKENS, TOKENS)

    def forward(self, tokens):
        return self.table(nn.functional.one_hot(tokens, TOKENS).float())


def bigram():
    return Bigram()
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A module of a user's own: a data set, a model and an algorithm."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_cycles.py").write_text(OWN)
    sys.path.append(str(folder))
    yield "own_cycles"
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def run(play: Any, own: str) -> Callable[..., Any]:
    """Plays each run once."""

    @cache
    def once(algorithm: str, changes: str) -> Any:
        return play(loads(algorithm), **loads(changes))

    return lambda algorithm, **changes: once(dumps(algorithm), dumps(changes))


LINK = {"up_mbit_s": 8, "down_mbit_s": 8}
FLEET = [{"profile": "pi-4", "count": 4, "link": LINK}]
BABBLE = {"communities": 4, "cycles": 3, "windows": 20, "words": 32, "length": 5}
DRIFTING = {
    "data": {"set": "babble", "options": BABBLE, "split": {"kind": "natural"}, "validation": 0.0},
    "model": "lstm-tiny",
    "fleet": FLEET,
    "training": {"epochs": 2, "batch": 10, "lr": 0.5},
    "rounds": {"max": 8, "per_cycle": 2},  # two rounds more than there are slices
}
TURNING = {
    **DRIFTING,
    "data": {"set": "own_cycles:turning", "split": {"kind": "natural", "least": 1}, "validation": 0.0},
    "model": "own_cycles:bigram",
    "training": {"epochs": 4, "batch": 4, "lr": 2.0},
}
PROBE = {"algorithm": "own_cycles:Probe"}


def at(changes: dict[str, Any], **rounds: Any) -> dict[str, Any]:
    """The scenario with other rounds."""
    return {**changes, "rounds": {**changes["rounds"], **rounds}}


# ---- who trains on what


def test_devices_train_on_the_slice_of_the_cycle_alone_and_keep_the_last_one(run: Any) -> None:
    """All four communities are devices: the sum of all their tokens of a slice, and its 4 x 18 windows."""
    data = babble(**BABBLE)
    assert data.cycle is not None
    for row in run(PROBE, **DRIFTING).rounds:
        of = min(row["round"] // 2, 2)
        assert row["numbers"]["cycle"] == row["numbers"]["slice"] == row["round"] // 2
        assert row["numbers"]["examples"] == 18  # each tenth window is a test example
        assert row["numbers"]["tokens"] == data.x[data.cycle == of].sum() / 4


def test_a_round_computes_in_proportion_to_the_examples_of_its_slice(run: Any) -> None:
    """8, 12, 16 windows a device, then 16 again."""
    played = run(PROBE, **TURNING)
    assert [row["numbers"]["examples"] for row in played.rounds] == [8, 8, 12, 12, 16, 16, 16, 16]
    work = [{line["phases"]["train"] for line in played.of("compute.start", round=k)} for k in range(8)]
    assert [len(each) for each in work] == [1] * 8
    flops = [each.pop() for each in work]
    assert [each / flops[0] for each in flops] == pytest.approx([1, 1, 1.5, 1.5, 2, 2, 2, 2])


def test_all_slices_at_once_without_cycles(run: Any) -> None:
    rows = run(PROBE, **at(TURNING, per_cycle=0, max=2)).rounds
    assert [row["numbers"]["examples"] for row in rows] == [8 + 12 + 16] * 2
    assert all_of("cycle" not in row["numbers"] and "forgetting" not in row["numbers"] for row in rows)


# ---- when


def test_a_new_slice_comes_at_its_time_and_the_clock_jumps_there(run: Any) -> None:
    played = run(PROBE, **at(TURNING, cycle_s=3600.0))
    opened = [line["t"] for line in played.of("open")]
    assert [opened[2 * cycle] for cycle in range(4)] == [0.0, 3600.0, 7200.0, 10800.0]
    for before, line in zip(played.rounds[::2], played.of("open")[1::2], strict=True):
        assert line["t"] == before["time_s"]  # within a cycle nobody waits


def test_time_within_a_cycle_counts_from_its_first_round(run: Any) -> None:
    for changes in (at(TURNING, cycle_s=3600.0), TURNING):
        played = run(PROBE, **changes)
        opened = [line["t"] for line in played.of("open")]
        for row in played.rounds:
            began = opened[row["round"] // 2 * 2]
            assert row["numbers"]["cycle_time_s"] == row["time_s"] - began
            assert 0 < row["numbers"]["cycle_time_s"] < 3600


def test_waiting_for_data_changes_times_and_nothing_else(run: Any) -> None:
    soon, late = run(PROBE, **TURNING), run(PROBE, **at(TURNING, cycle_s=3600.0))
    assert soon.model == late.model
    assert [row["accuracy"] for row in soon.rounds] == [row["accuracy"] for row in late.rounds]
    assert [row["bytes"] for row in soon.rounds] == [row["bytes"] for row in late.rounds]
    assert soon.rounds[1]["time_s"] == late.rounds[1]["time_s"]
    assert soon.rounds[-1]["time_s"] < 3600 < late.rounds[-1]["time_s"]


def test_a_slice_that_has_been_there_for_long_is_begun_at_once(run: Any) -> None:
    hurried = run(PROBE, **at(TURNING, cycle_s=1e-3))
    assert [row["time_s"] for row in hurried.rounds] == [row["time_s"] for row in run(PROBE, **TURNING).rounds]


# ---- what is said of the models, by hand


def answers(model: Any, cycle: int, data: Any) -> tuple[float, float]:
    """Share of right next tokens on the test windows of a slice, and perplexity, computed with numpy alone."""
    weights = {name: value.astype(np.float64) for name, value in model.items()}
    chosen = data.cycle_test == cycle
    x, y = data.x_test[chosen], data.y_test[chosen]
    logits = weights["table.weight"].T[x] + weights["table.bias"]  # (n, positions, tokens)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(logp, y[..., None], -1)
    return float((logits.argmax(-1) == y).mean()), math.exp(losses.mean())


@pytest.fixture(scope="module")
def models(run: Any) -> list[Any]:
    """The model after each of 6 rounds: a run of k rounds ends with what the k-th round of a longer one leaves."""
    played = [run(PROBE, **at(TURNING, max=k)) for k in range(1, 7)]
    assert [one.rounds[k]["accuracy"] for k, one in enumerate(played)] == [row["accuracy"] for row in played[-1].rounds]
    return [load_file(one.folder / "final.safetensors") for one in played]


@pytest.fixture(scope="module")
def rows(run: Any) -> list[dict[str, Any]]:
    return list(run(PROBE, **at(TURNING, max=6)).rounds)


@pytest.fixture(scope="module")
def data(own: str) -> Any:
    return sys.modules[own].turning() if own in sys.modules else __import__(own).turning()


def test_accuracy_is_the_share_of_next_tokens_on_the_slice_of_the_round(rows: Any, models: Any, data: Any) -> None:
    for row, model in zip(rows, models, strict=True):
        accuracy, perplexity = answers(model, row["round"] // 2, data)
        assert row["accuracy"] == pytest.approx(accuracy, abs=1e-12)
        assert row["loss"] == pytest.approx(math.log(perplexity), rel=1e-5)


def test_perplexity_is_the_exponential_of_the_mean_loss(rows: Any, models: Any, data: Any) -> None:
    for row, model in zip(rows, models, strict=True):
        assert row["numbers"]["perplexity"] == pytest.approx(answers(model, row["round"] // 2, data)[1], rel=1e-5)
        assert row["numbers"]["perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-12)


def test_next_is_the_same_model_on_the_slice_to_come_and_absent_in_the_last(rows: Any, models: Any, data: Any) -> None:
    for row, model in zip(rows[:4], models, strict=False):
        accuracy, perplexity = answers(model, row["round"] // 2 + 1, data)
        assert row["numbers"]["next_accuracy"] == pytest.approx(accuracy, abs=1e-12)
        assert row["numbers"]["next_perplexity"] == pytest.approx(perplexity, rel=1e-5)
    following = ("next_accuracy", "next_perplexity", "personalised_next", "personalised_next_perplexity")
    assert all_of(name in row["numbers"] for row in rows[:4] for name in following)
    assert all_of(name not in row["numbers"] for row in rows[4:] for name in following)


def test_forgetting_is_what_the_best_model_of_an_earlier_slice_knew_more(rows: Any, models: Any, data: Any) -> None:
    """In the three slices a token has three different followers: to learn the new one is to forget the old one."""
    shares = [[answers(model, cycle, data)[0] for cycle in range(3)] for model in models]
    for row in rows:
        now, before = row["round"], range(row["round"] // 2)
        if not before:
            assert "forgetting" not in row["numbers"]
            continue
        lost = [max(shares[k][one] for k in range(2 * one, now + 1)) - shares[now][one] for one in before]
        assert row["numbers"]["forgetting"] == pytest.approx(sum(lost) / len(lost), abs=1e-12)
    assert rows[5]["numbers"]["forgetting"] > 0.3


def test_initial_is_the_model_of_the_round_before_on_the_slice_of_this_one(rows: Any, models: Any, data: Any) -> None:
    """Mean over devices; their test shards have equal sizes here."""
    for row, model in zip(rows[1:], models, strict=False):
        assert row["initial"] == pytest.approx(answers(model, row["round"] // 2, data)[0], abs=1e-12)


def test_personalised_is_each_device_s_own_model_on_its_own_test_windows(run: Any, data: Any) -> None:
    """With everyone asked, both ways to it agree; and the next slice is that device's own too."""
    row = run(PROBE, **at(TURNING, max=4)).rounds[-1]
    assert row["personalised"] == pytest.approx(row["personalised_participants"], abs=1e-12)
    assert 0 <= row["numbers"]["personalised_next"] <= 1
    assert row["numbers"]["personalised_next"] < row["personalised"]  # it has not seen what comes
    assert row["numbers"]["personalised_perplexity"] > 1


# ---- the audit of split.json


@pytest.mark.parametrize(
    ("drifting", "held", "spoilt"), [(DRIFTING, [18, 18, 18], 0), (TURNING, [8, 12, 16], 1)], ids=["even", "growing"]
)
def test_split_json_gives_each_device_the_examples_of_each_slice(
    fedlapse: Any, own: str, tmp_path: Path, drifting: dict[str, Any], held: list[int], spoilt: int
) -> None:
    """A folder of a text that drifts obeys its laws, and no longer does when a slice has one more example.

    work.jsonl has a line where something new is asked of a device: for slice 0, and for others if their sizes differ.
    """
    out, rounds = tmp_path / "out", {"max": 5, "per_cycle": 2}
    (tmp_path / "s.yaml").write_text(dumps(merged(SMALL, {**drifting, "rounds": rounds, "seeds": [1]})))
    done = fedlapse("compare", "s.yaml", "--workers", 0, "-q", "--out", out)
    assert done.returncode == 0, done.stderr
    done = fedlapse("audit", out)
    assert (done.returncode, done.stderr) == (0, "")

    said = loads((out / "split.json").read_text())
    assert said["seeds"]["1"]["devices"]["pi-4-0"] == held
    said["seeds"]["1"]["devices"]["pi-4-0"][spoilt] += 1
    (out / "split.json").write_text(dumps(said))
    seal_results(out)
    assert "split: pi-4-0 holds " in fedlapse("audit", out).stdout


# ---- An Bian's algorithms


@pytest.mark.parametrize("variant", ["alg0", "alg1", "alg2"])
def test_the_last_round_of_a_cycle_asks_the_whole_fleet(run: Any, variant: str) -> None:
    played = run({"continual": {"variant": variant}}, **at(DRIFTING, max=6, fraction=0.5))
    assert [row["asked"] for row in played.rounds] == [2, 4] * 3
    assert [row["counted"] for row in played.rounds] == [2, 4] * 3
    phases = [{name for line in played.of("compute.start", round=k) for name in line["phases"]} for k in range(6)]
    assert phases == [{"train"}, {"retrain"}] * 3
