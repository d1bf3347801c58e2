"""The eight projects of docs/examples: played cut short, and held against torch's counter and a loop in float64."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import fedlapse
from algorithms import stack
from algorithms.algorithm import Party, Phase
from algorithms.training.tensors import as_input, tensors_of
from emulator.lab.build import built
from emulator.lab.guarded import unguarded
from emulator.lab.stacking import why_alone
from emulator.pricing.costs import Costs
from scenarios.load import given
from tests.all_of import all_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))
ALGORITHMS = ["fedavg", "fedprox", "fedcl", "fedcurv"]
STACKED = ["labels", "segmentation", "tabular", "two_inputs"]
ALONE = {  # why the others train one by one
    "characters": "scaled_dot_product",
    "mobilenet": "speed up dense networks only",
    "series": "not implemented for aten::gru",
    "vit_lora": "scaled_dot_product",
}
# Some devices take two steps in each of two rounds; every model reaches the target, so that each run has a time.
SHORT = ["rounds.max=2", "training.steps=2", "rounds.fraction=0.3", "evaluate.personalise_every=never", "seeds=[1]"]
SHORT += ["rounds.targets=[{metric: loss, value: 1000}]"]
BATCH = 4


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """The examples are modules, as in their folder.  report.html is a word, and this computer's speed is measured in
    single jobs, because both take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(FOLDER)])
        patch.setattr("emulator.report.page.page", lambda results: "a page")
        patch.setattr("emulator.forecast.host.SECONDS", 0.0)
        yield


@cache
def lab_of(name: str) -> tuple[Any, Any]:
    """Returns an example's scenario as it was written, and its lab."""
    scenario = given(import_module(name).SCENARIO)
    return scenario, built(scenario)[1]


def some(lab: Any, begin: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
    return as_input(torch.tensor(lab.data.x[begin:end])), torch.tensor(lab.data.y[begin:end])


def test_there_are_eight_files_of_at_most_60_lines() -> None:
    assert len(NAMES) == 8
    assert {*STACKED, *ALONE} == {*NAMES}
    assert all_of(len((FOLDER / f"{name}.py").read_text().splitlines()) <= 60 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_checked_compared_replayed_and_audited(name: str, tmp_path: Path) -> None:
    scenario = import_module(name).SCENARIO
    assert fedlapse.check(scenario, *SHORT, workers=0)["prices"].keys() == {*ALGORITHMS}
    out = tmp_path / "out"
    found = fedlapse.compare(scenario, *SHORT, workers=0, no_ledger=True, quiet=True, out=out)
    assert found.labels == ALGORITHMS
    assert [row.counted for row in found.rounds] == [found.rounds[0].asked] * 8
    assert found["fedavg"][0].rounds[0].loss != found["fedavg"][0].rounds[1].loss
    trained = sum(each.numel() for each in lab_of(name)[1].network(1).parameters() if each.requires_grad)
    first = json.loads((out / "fedavg-s1" / "rounds.jsonl").read_text().splitlines()[0])
    assert first["bytes"]["down"]["weights"] == first["bytes"]["up"]["weights"]
    assert first["bytes"]["up"]["weights"] == found.rounds[0].counted * 4 * trained
    assert [each["faults"] for each in fedlapse.audit(out).values()] == [[]] * 5
    links = fedlapse.replay(out, down="0.5Mbit/s", symmetric=True, out=tmp_path / "replay")["settings"]
    recorded, slow = (setting["times_s"] for setting in links)
    assert recorded != slow


@pytest.mark.parametrize("name", NAMES)
def test_the_flops_of_a_step_are_those_of_a_real_one(name: str) -> None:
    """torch does not count attention on a CPU: two products of positions x positions x width, two FLOPs for each
    multiply-add, forward and twice backward.  In vit_lora nothing is trained before the first block's attention."""
    lab = lab_of(name)[1]
    network = lab.network(1).train()
    x, y = some(lab, 0, BATCH)
    with FlopCounterMode(display=False) as counted:
        lab.task(network(x), y).mean().backward()
    attention = {"characters": 3 * 4 * 32 * 32 * 32, "vit_lora": (1 + 3) * 4 * 17 * 17 * 32}
    wanted = counted.get_total_flops() + BATCH * attention.get(name, 0)
    declared = Costs(lab, "fedavg", 1).meter.flops(Phase("train", "batch", BATCH, BATCH))
    assert declared == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("label", ALGORITHMS)
@pytest.mark.parametrize("name", STACKED)
def test_a_stack_trains_as_devices_one_by_one(name: str, label: str) -> None:
    lab = lab_of(name)[1]
    network, algorithm = lab.network(1).double(), unguarded(lab.algorithms[label])

    def party(which: str, begin: int, end: int) -> Party:
        x, y = some(lab, begin, end)
        x, y = (each.double() if each.is_floating_point() else each for each in (x, y))
        return Party(which, 2, network, lab.task, x, y, round=0, cycle=0, seed=5 + begin)

    devices, server = [party("a", 0, 12), party("b", 12, 21)], party("server", 30, 60)
    weights = {key: value.clone() for key, value in tensors_of(network).items()}
    sent = algorithm.request(algorithm.start(weights, server), ["a", "b"], server).download
    for together, device in zip(stack.train(algorithm, [sent] * 2, devices), devices, strict=True):
        alone = algorithm.train(sent, device)
        assert together.upload.keys() == alone.upload.keys()
        for kind, tensors in alone.upload.items():
            for key, value in tensors.items():
                assert torch.allclose(together.upload[kind][key], value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ALONE)
def test_the_others_train_one_by_one(name: str) -> None:
    scenario, lab = lab_of(name)
    assert {*lab.stack.values()} == {1}
    assert all_of(ALONE[name] in why for why in why_alone(scenario, lab).values())
