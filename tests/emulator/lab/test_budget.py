"""The steps that fit into `seconds` on a device: as many as its price says, and those are what it trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algorithms.algorithm import MOST_STEPS
from emulator.lab.budget import load_of, steps_of
from emulator.lab.build import lab_of
from emulator.lab.faulty import Faulty
from emulator.lab.guarded import Guarded
from emulator.lab.jobs import start
from emulator.lab.lab import Lab
from emulator.lab.training import train
from emulator.messages.codec import decode
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING
from emulator.pricing.costs import Costs
from emulator.record.lines import read_lines
from emulator.record.run import Run
from scenarios.load import build
from tests.conftest import SMALL, audit_run, merged, results
from tests.runs import nets

NORMED = {"model": "tests.runs.nets:normed"}  # a BatchNorm counts the steps


def lab(seconds: float, **changes: Any) -> Lab:
    return lab_of(build(merged(SMALL, {"training": {"batch": 16, "seconds": seconds}, **changes})))


def trained(lab: Lab, name: str, steps: int) -> float:
    """The seconds of this many steps, as a scenario with `steps` would charge them."""
    algorithm: Any = lab.algorithms["fedavg"]
    fixed = replace(algorithm.algorithm, training=replace(algorithm.training, seconds=0.0, steps=steps))
    costs = Costs(replace(lab, algorithms={"fedavg": Guarded("fedavg", fixed)}), "fedavg", 1)
    return costs.price(name, 0, ("weights",), ()).seconds["train"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_one_step_more_would_not_fit(seconds: float) -> None:
    it = lab(seconds)
    costs, taken = Costs(it, "fedavg", 1), {}
    for name in it.names:
        bill = costs.price(name, 0, ("weights",), ())
        taken[name] = bill.steps["train"]
        assert bill.seconds["train"] == pytest.approx(trained(it, name, taken[name]), rel=1e-12)
        assert bill.seconds["train"] <= seconds < trained(it, name, taken[name] + 1)
    assert len(set(taken.values())) > 1  # devices of two profiles


@pytest.mark.slow
def test_the_slowest_takes_one_step_and_no_jitter_changes_the_steps() -> None:
    tiny = lab(1e-9)
    assert {Costs(tiny, "fedavg", 1).price(name, 0, ("weights",), ()).steps["train"] for name in tiny.names} == {1}
    it = lab(1.0)
    shaky = replace(it.fleet["pi-4-0"], profile=replace(it.fleet["pi-4-0"].profile, jitter=0.3))
    costs = Costs(replace(it, fleet={**it.fleet, "pi-4-0": shaky}), "fedavg", 1)
    charged, priced = (ask("pi-4-0", 3, ("weights",), ()) for ask in (costs.device, costs.price))
    assert charged.steps == priced.steps
    assert charged.seconds["train"] != priced.seconds["train"]


@pytest.mark.slow
def test_what_is_charged_is_what_is_trained() -> None:
    it, run = lab(0.02, **NORMED), Run("fedavg", 1)
    costs, store = Costs(it, "fedavg", 1), Memory()
    counts = {}
    for name in it.names:
        state = start(it, store, run)
        done = train(it, store, run, name, 0, state.weights, NOTHING, False)
        counts[name] = int(decode(store.get(done.upload.ref))["weights"]["2.num_batches_tracked"])
        assert counts[name] == costs.price(name, 0, ("weights",), ()).steps["train"]
    assert len(set(counts.values())) > 1


@pytest.mark.slow
def test_work_that_never_fills_the_seconds_is_refused() -> None:
    it = lab(1e9)
    with pytest.raises(Faulty, match=f"for {MOST_STEPS} steps; its device_work must depend on load.steps"):
        steps_of(it, "fedavg", "pi-4-0", load_of(it, "fedavg", 1, 0, 100))


@pytest.mark.slow
def test_a_run_obeys_the_laws_and_weighs_by_steps(tmp_path: Path) -> None:
    said = {"training": {"batch": 16, "seconds": 0.5, "weigh_by": "steps"}, "algorithms": ["fedavg", "scaffold"]}
    out = results(tmp_path / "steps", said)
    assert [audit_run(out / name) for name in ("fedavg-s1", "scaffold-s1")] == [[], []]
    by_examples = results(tmp_path / "examples", merged(said, {"training": {"weigh_by": "examples"}}))
    ends = [[line["model"] for line in read_lines(each / "fedavg-s1" / "events.jsonl") if "model" in line]
            for each in (out, by_examples)]  # fmt: skip
    assert ends[0][0] == ends[1][0]
    assert ends[0][-1] != ends[1][-1]


def test_work_that_has_no_price_is_the_algorithms_fault() -> None:
    """A model that looks at its values, which it has not while it is priced."""
    it = lab(1.0, model=f"{nets.__name__}:Looking")
    with pytest.raises(Faulty, match=r"^fedavg.*: declares work that has no price: .*item\(\)"):
        steps_of(it, "fedavg", it.names[0], load_of(it, "fedavg", 1, 0, 20))
