"""The price of declared work, on machines that are fast at some kinds of layers and slow at others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Load, Work
from algorithms.fedavg import FedAvg
from devices.device import profiles
from emulator.lab.build import lab_of
from emulator.pricing.costs import MANY, Costs
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.runs.own_pass import own_pass

BATCH, FAST = 10, 1e24


def priced_on(model: str, slow: str) -> tuple[float, Any]:
    """Seconds of each example in training, on a device that takes time for one kind of layers only: 1 s for a GFLOP."""
    one = {"name": "d", "profile": "pixel-4", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}
    changes = {"model": model, "fleet": [one], "training": {"batch": BATCH, "epochs": 1}}
    lab = lab_of(build(merged(SMALL, changes)))
    speeds = dict.fromkeys(("conv_flops_per_s", "dense_flops_per_s", "recurrent_flops_per_s"), FAST)
    machine = replace(profiles()["pixel-4"], **{**speeds, f"{slow}_flops_per_s": 1e9}, memory_bytes_per_s=FAST)
    device = replace(lab.fleet["d-0"], profile=replace(machine, overhead_s=0.0, jitter=0.0))
    bill = Costs(replace(lab, fleet={"d-0": device}), "fedavg", 1).device("d-0", 0, ("weights",), ())
    return bill.seconds["train"] / len(lab.splits[1].train["d-0"][0]), lab


def counted(lab: Any, kind: str) -> float:
    """FLOPs of an example, as torch's own counter sees it, in operators whose names have this in them."""
    module = lab.network(0)
    x, y = torch.from_numpy(lab.data.x[:BATCH]), torch.from_numpy(lab.data.y[:BATCH])
    with FlopCounterMode(display=False) as counter:
        functional.cross_entropy(module(x), y).backward()
    found = counter.get_flop_counts()["Global"]
    return sum(n for op, n in found.items() if ("convolution" in str(op)) == (kind == "conv")) / BATCH


@pytest.mark.slow
def test_what_each_step_starts_is_in_the_bill() -> None:
    """Two convolutions, each forward and back, in every step: 4 x 0.25 s; and the other operators, 1 s each."""
    one = {"name": "d", "profile": "pixel-4", "count": 1, "link": {"up_mbit_s": 8, "down_mbit_s": 8}}
    lab = lab_of(build(merged(SMALL, {"fleet": [one], "training": {"batch": BATCH, "epochs": 2}})))
    steps = 2 * -(-len(lab.splits[1].train["d-0"][0]) // BATCH)

    def seconds(**starts: float) -> float:
        machine = replace(profiles()["pixel-4"], jitter=0.0, **starts)  # type: ignore[arg-type]
        device = replace(lab.fleet["d-0"], profile=machine)
        costs = Costs(replace(lab, fleet={"d-0": device}), "fedavg", 1)
        return costs.device("d-0", 0, ("weights",), ()).total_seconds

    assert lab.model.name == "digits-cnn"
    assert seconds(convolution_s=0.25) - seconds() == pytest.approx(steps * 4 * 0.25)
    operators = (seconds(operator_s=1.0) - seconds()) / steps
    assert operators == pytest.approx(round(operators))  # a count
    assert operators >= 2 * 7  # forward and back: three ReLUs, two pools, a flattening, another dense layer


@pytest.mark.slow
def test_a_pass_over_single_examples_has_the_price_of_fedcurvs_whatever_its_name() -> None:
    """More than that of its batches: the gradient of each example is written, squared and added up."""
    algorithms = [own_pass(called="ewc"), own_pass(called="ewc", kind="batch") | {"name": "batches"}, "fedcurv"]
    lab = lab_of(build(merged(SMALL, {"algorithms": algorithms, "seeds": [1]})))
    own, batches, curved = (
        Costs(lab, label, 1).device("pi-4-0", 0, ("weights",), ()) for label in ("own", "batches", "fedcurv")
    )
    assert own.seconds["ewc"] == curved.seconds["fisher"]
    assert own.flops["ewc"] == curved.flops["fisher"]
    assert own.seconds["ewc"] > batches.seconds["ewc"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv", "dense"])
def test_each_kind_of_layer_is_priced_at_its_own_speed(kind: str) -> None:
    seconds, lab = priced_on("digits-cnn", kind)
    assert counted(lab, kind) > 0
    assert seconds == pytest.approx(counted(lab, kind) / 1e9, rel=1e-9)


@pytest.mark.slow
def test_a_model_without_recurrent_layers_takes_no_recurrent_time() -> None:
    assert priced_on("digits-cnn", "recurrent")[0] < 1e-12


@pytest.mark.slow
def test_the_same_work_takes_twice_as_long_on_a_machine_of_half_the_speed() -> None:
    """One price list serves a whole fleet: the machines must not share a price."""
    link = {"up_mbit_s": 8, "down_mbit_s": 8}
    one = {"profile": "pi-4", "count": 1, "link": link}
    lab = lab_of(build(merged(SMALL, {"fleet": [{**one, "name": "fast"}, {**one, "name": "slow"}]})))
    plain = replace(profiles()["laptop"], memory_bytes_per_s=FAST, overhead_s=0.0, jitter=0.0)
    half = replace(plain, name="half", flops_per_s=plain.flops_per_s / 2)
    machines = {"fast-0": plain, "slow-0": half}
    fleet = {name: replace(lab.fleet[name], profile=machine) for name, machine in machines.items()}
    costs = Costs(replace(lab, fleet=fleet), "fedavg", 1)
    prices = {name: costs.device(name, 0, ("weights",), ()) for name in fleet}
    each = {name: bill.total_seconds / bill.total_flops for name, bill in prices.items()}
    assert each["slow-0"] == pytest.approx(2 * each["fast-0"], rel=1e-9)


class Growing(FedAvg):
    """Each round takes as many passes as there were rounds before, and one."""

    def device_work(self, load: Load) -> Work:
        return tuple(replace(phase, examples=(load.round + 1) * phase.examples) for phase in super().device_work(load))


@pytest.mark.parametrize("most", [0, MANY])
def test_what_a_round_costs_does_not_depend_on_the_rounds_before(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`most`: so many kinds of work are remembered."""
    monkeypatch.setattr("emulator.pricing.costs.MANY", most)
    lab = lab_of(build(SMALL))
    costs = Costs(replace(lab, algorithms={"fedavg": Growing(lab.algorithms["fedavg"].training)}), "fedavg", 1)
    flops = [
        [costs.price(name, round, ("weights",), ()).total_flops for name in sorted(lab.fleet)]
        for round in (0, 1, 4, 0, 1)
    ]
    assert min(flops[0]) > 0
    for times, found in zip((1, 2, 5, 1, 2), flops, strict=True):
        assert found == pytest.approx([times * each for each in flops[0]])
