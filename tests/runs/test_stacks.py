"""Runs whose devices train in stacks: nearly the loop's results, and the same ones however they are played."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as tensors

from algorithms.algorithm import Message, Party, Reply
from algorithms.fedavg import FedAvg
from emulator.compute.executors import Inline
from emulator.compute.verifying import verify
from emulator.lab import stacking
from emulator.lab.build import lab_of
from emulator.ledger.ledger import Ledger
from emulator.play.conduct import Conduct
from emulator.play.over_sockets import run_sockets
from emulator.play.run import run_virtual
from emulator.record.run import Run
from scenarios.load import build, recorded
from tests.conftest import SMALL, Play, digests, merged, results
from tests.runs.nets import DENSE, NORMED

LINK = {"up_mbit_s": 8, "down_mbit_s": 8, "latency_ms": 20}
STACKED: dict[str, Any] = {
    "model": DENSE,
    "training": {"stack": 3, "batch": 16, "momentum": 0.5},
    "rounds": {"max": 3, "fraction": 0.5, "ask": 5, "deadline_s": 0.3, "stragglers": "finish"},
    "fleet": [
        {"profile": "phone-mid", "count": 4, "link": LINK, "presence": {"off": [[0.12, 0.2]]}},
        {"profile": "pi-4", "count": 4, "link": {**LINK, "up_mbit_s": 0.1}},
    ],
    "data": {"split": {"kind": "dirichlet", "alpha": 1.0}},
    "algorithms": [{"fedcurv": {"strength": 0.05}}, "scaffold", {"fedcl": {"interval": 2}}],
}
CALM = {"rounds": {"fraction": 1.0, "ask": None, "deadline_s": None}, "fleet": SMALL["fleet"]}  # all 4 always count


@dataclass(frozen=True)
class OneByOne(FedAvg):
    """A user's algorithm with a `train` of its own."""

    def train(self, download: Message, device: Party) -> Reply:
        return super().train(download, device)


def scenario(*more: Mapping[str, Any]) -> Any:
    found: Any = SMALL
    for changes in more:
        found = merged(found, changes)
    return build(found)


# ---- what `stack` comes to


@pytest.mark.parametrize(
    ("model", "said", "batch", "is_"),
    [
        (DENSE, "auto", 10, stacking.MOST),
        (DENSE, "auto", 65, 1),
        (DENSE, 7, 65, 7),
        (DENSE, 1, 10, 1),
        ("digits-cnn", "auto", 10, 1),
        ("digits-cnn", 5, 10, 5),
        (NORMED, "auto", 10, 1),
        (NORMED, 5, 10, 1),
    ],
)
def test_the_model_and_its_batches_decide(model: str, said: int | str, batch: int, is_: int) -> None:
    made = scenario({"model": model, "training": {"stack": said, "batch": batch}})
    lab = lab_of(made)
    assert stacking.resolved(made, lab.data).training.stack == is_
    assert lab.stack == {"fedavg": is_}


def test_who_has_no_stacked_form_trains_one_by_one() -> None:
    algorithms = ["fedavg", "uga", "fedmeta", f"{__name__}:OneByOne", {"fedprox": {"training": {"stack": 2}}}]
    lab = lab_of(scenario({"model": DENSE, "training": {"stack": 4}, "algorithms": algorithms}))
    assert lab.stack == {"fedavg": 4, "uga": 1, "fedmeta": 4, "onebyone": 1, "fedprox": 2}


def test_a_cohort_makes_stacks_of_about_one_size() -> None:
    lab = lab_of(scenario({"model": DENSE, "training": {"stack": 3}}))
    sizes = {n: [len(stack) for stack in lab.stacks("fedavg", "abcdefghij"[:n])] for n in (1, 3, 4, 7, 10)}
    assert sizes == {1: [1], 3: [3], 4: [2, 2], 7: [2, 2, 3], 10: [2, 3, 2, 3]}
    assert "".join(name for stack in lab.stacks("fedavg", "abcdefg") for name in stack) == "abcdefg"


# ---- runs


@pytest.mark.slow
def test_devices_that_have_received_an_importance_share_a_stack_with_those_that_have_not(play: Play) -> None:
    """Half of them are asked in a round, so in round 1 some have no Ω; the one with most examples has one."""
    fedcl = {"fedcl": {"interval": 10, "first": "identity"}}
    some = {"model": DENSE, "rounds": {"max": 2, "fraction": 0.5}, "fleet": [{**SMALL["fleet"][0], "count": 8}]}
    some["data"] = {"split": {"kind": "dirichlet", "alpha": 1.0}}
    one, other = (play(fedcl, seed=5, **some, training={"batch": 64, "stack": stack}) for stack in (1, "auto"))
    assert one.model != other.model
    assert 0 < one.rounds[1]["numbers"]["identity"] < 1
    assert one.rounds[1]["numbers"]["identity"] == other.rounds[1]["numbers"]["identity"]
    for name, value in tensors(one.model).items():
        assert torch.allclose(tensors(other.model)[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_stacked_run_is_nearly_the_looped_one(play: Play) -> None:
    changes = {**STACKED, "evaluate": {"every": 1}}
    one, other = (play("fedavg", **merged(changes, {"training": {"stack": stack}})) for stack in (1, 3))
    assert one.events != other.events  # as the digests are of other bits
    assert [(line["t"], line["event"]) for line in one.events] == [(line["t"], line["event"]) for line in other.events]
    for name, value in tensors(one.model).items():
        assert torch.allclose(tensors(other.model)[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_the_files_do_not_depend_on_workers_and_say_how_many_are_stacked(tmp_path: Path) -> None:
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario

    placebo = {"fedcl": {"interval": 2, "fallback": "local_estimate", "placebo": "shuffled"}, "name": "placebo"}
    changes = {**STACKED, "algorithms": [*STACKED["algorithms"], placebo]}
    here = results(tmp_path / "here", changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.page.page", lambda results: "a page")
        two = Playing(workers=2, quiet=True, no_ledger=True)
        assert play_scenario(scenario(changes), two, out=tmp_path / "there").code == 0
    assert digests(tmp_path / "there") == digests(here)
    assert recorded(here).training.stack == 3


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fedcurv", "fedcl"])
def test_over_sockets_the_model_is_the_same(tmp_path: Path, label: str) -> None:
    made = scenario(STACKED, CALM, {"rounds": {"max": 2}})
    lab, run, conduct = lab_of(made), Run(label, 1), Conduct.of(made)
    pool = Inline(lab)
    asyncio.run(run_virtual(lab, run, conduct, pool, tmp_path / "virtual"))
    asyncio.run(run_sockets(lab, run, conduct, pool, tmp_path / "sockets", speedup=4.0))
    models = [(tmp_path / world / "final.safetensors").read_bytes() for world in ("virtual", "sockets")]
    assert models[0] == models[1]


@pytest.mark.slow
def test_what_a_ledger_knows_of_stacks_is_found_and_can_be_verified(tmp_path: Path) -> None:
    """On other links the same devices are asked, and their stacks are the same jobs: in rounds without a deadline."""
    from emulator.sessions.computing import Playing
    from emulator.sessions.one_scenario import play_scenario

    slow = {
        "fleet": [{**group, "link": {"up_mbit_s": 1, "down_mbit_s": 2, "latency_ms": 9}} for group in SMALL["fleet"]]
    }
    playing, tallies = Playing(workers=0, quiet=True, ledger=tmp_path / "ledger"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emulator.report.page.page", lambda results: "a page")
        for out, links in zip("ab", ({}, slow), strict=True):
            ended = play_scenario(scenario(STACKED, CALM, links), playing, out=tmp_path / out)
            assert ended.code == 0
            assert ended.tally
            tallies.append(ended.tally.sentence())
    first, second = tallies
    assert first == "training: 0 of 48 device-rounds from the ledger, 48 computed"  # 3 runs, 3 rounds, and at the end
    assert second == "training: 48 of 48 device-rounds from the ledger, 0 computed"
    ledger = Ledger(tmp_path / "ledger", print)
    assert ledger.facts.counts()["train_stack"] == 3 * 3 * 2
    verified = verify(ledger, 1.0, workers=0)
    ledger.close(False)
    assert (verified.wrong, verified.others) == ((), 0)
    assert verified.same >= 3 * 3 * 2
