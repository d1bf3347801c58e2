"""The benchmarks, at a tiny scale: that they measure what they say, never how fast this machine is."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from algorithms.algorithm import Party, Training
from algorithms.models import cross_entropy, mnist_cnn
from algorithms.training.local import sgd
from benchmarks import bare, bare_clock, engine, memory, on_ray, training
from benchmarks.engine import Cost
from benchmarks.training import SHAPES, Shape, Speed
from emulator.compute.executors import Inline
from emulator.lab.training import train
from emulator.sessions.computing import ExecutorName
from tests.all_of import all_of


def test_the_bare_simulation_plays_the_device_rounds_that_it_is_divided_by(tmp_path: Path) -> None:
    with (tmp_path / "events.jsonl").open("w") as file:
        bare_clock.play(file, cohort=4, rounds=3)
    events = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert events.count("open") == events.count("close") == 3
    assert all_of(events.count(f"{what}.{end}") == 4 * 3 for what in bare_clock.MEANS for end in ("start", "end"))
    assert len(events) == 2 * 3 + 6 * 4 * 3


def test_growth_compares_equal_cohorts_only() -> None:
    large = Cost(1_000, cohort=100, whole=1.0, own=300e-6)
    costs = [Cost(10, cohort=10, whole=1.0, own=900e-6), replace(large, fleet=100, own=200e-6), large]
    assert engine.growth(large, costs) == pytest.approx(1.5)


@pytest.mark.slow
def test_the_engine_really_plays_the_device_rounds_it_divides_by(tmp_path: Path) -> None:
    cost = engine.measure(engine.lab_of(12), cohort=4, rounds=3, folder=tmp_path)
    events = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert events.count("up.end") == events.count("compute.end") == 4 * 3
    assert [row["counted"] for row in rows] == [4, 4, 4]
    assert {row["accuracy"] for row in rows} == {None}
    assert 0 < cost.own < cost.whole


@pytest.mark.slow
def test_engine_covers_every_fleet_with_both_cohorts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FLEETS", (10, 200))
    costs = engine.measure_all(scale=0.001, repetitions=1)
    assert [(cost.cohort, cost.fleet) for cost in costs] == [(10, 10), (10, 200), (100, 200)]
    assert len(engine.table(costs).splitlines()) == 1 + len(costs)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "code"), [("1", 1), ("0.5", 0)])
def test_a_missed_bar_fails_at_full_scale_only(scale: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Speed("few", ours=90.0, bare=100.0, paired=1.0, memory=0.1)
    monkeypatch.setattr(training, "measure", lambda name, ledger, scale: [slow])
    app = typer.Typer()
    app.command()(training.main)
    result = CliRunner().invoke(app, ["--scale", scale])
    assert result.exit_code == code, result.output


TINY = Shape("mnist-cnn", 4, 20, 2, Training(epochs=2, batch=64, lr=0.05), 2, 2, 0.97, 0.95, 1.6)
FLAT = Shape(training.LINEAR, 6, 20, 2, Training(epochs=1, batch=20, lr=0.05), 2, 2, 0.35, None, 1.0)


def test_speed_is_that_of_each_sides_best_run() -> None:
    # fedlapse 40, 5, 6 s; bare 4, 6, 3 s; pair by pair 0.1, 1.2, 0.5
    speed = Speed.of("x", 60, [(40.0, 4.0), (5.0, 6.0), (6.0, 3.0)], memory=1_500_000_000)
    assert speed.ours == pytest.approx(60 / 5)
    assert speed.bare == pytest.approx(60 / 3)
    assert speed.ratio == pytest.approx(3 / 5)
    assert speed.paired == pytest.approx(0.5)
    assert speed.memory == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("name", "ledger", "least", "memory"),
    [
        ("few", False, 0.97, 1.6),
        ("few", True, 0.95, 1.6),
        ("many", False, 0.88, 1.6),
        ("many", True, 0.85, 1.6),
        ("linear", False, 1.0, 1.0),
    ],
)
def test_more_than_a_fiftieth_below_its_bar_it_misses_it(name: str, ledger: bool, least: float, memory: float) -> None:
    def faults(share: float, used: float) -> list[str]:
        slow = Speed("evaluated", 1.0, 100.0, paired=0.1, memory=0.0)  # with evaluation nothing is judged but memory
        return training.missed(name, ledger, [Speed(name, 100 * share, 100.0, paired=0.1, memory=used), slow])

    assert faults(least - 0.019, memory) == []
    assert len(faults(least - 0.021, memory)) == 1
    assert len(faults(least, memory + 0.01)) == 1


def test_a_linear_model_with_a_ledger_has_no_bar_of_speed() -> None:
    assert training.missed("linear", True, [Speed("linear", 1.0, 100.0, paired=0.01, memory=0.9)]) == []


def test_runs_have_the_samples_that_were_asked_for() -> None:
    # rounds x cohort x epochs x examples
    found = {name: shape.samples for name, shape in SHAPES.items()}
    assert found == {"few": 2 * 2 * 6_000, "many": 3 * 50 * 60, "linear": 10 * 100 * 20}


def test_memory_of_this_process_grows_with_what_it_holds() -> None:
    before = memory.memory_of([os.getpid()])
    with mmap.mmap(-1, 40_000_000) as held:  # new pages; an array may lie where another was
        held[:] = bytes([1]) * len(held)
        assert 35e6 < memory.memory_of([os.getpid()]) - before < 100e6


def test_training_data_have_mnists_shape_and_even_clients() -> None:
    lab = training.lab_of(TINY, tests=8)
    assert lab.dataset is not None
    assert lab.dataset.x.shape == (80, 1, 28, 28)
    held = [indices for (indices,) in lab.splits[1].train.values()]
    assert [len(indices) for indices in held] == [20] * 4
    assert len(np.unique(np.concatenate(list(held)))) == 80


def test_the_linear_model_has_784_inputs_and_10_outputs() -> None:
    assert sum(parameter.numel() for parameter in bare.linear().parameters()) == 784 * 10 + 10


@pytest.mark.slow
def test_the_bare_loop_takes_the_very_steps_of_fedlapse() -> None:
    """From the same weights, in the same order and without dropout, both end in the same model."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(100, 1, 28, 28, generator=generator), torch.arange(100) % 10
    model = mnist_cnn(dropout=0.0)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    party = Party("pi-4-0", 10, mnist_cnn(dropout=0.0), cross_entropy, x, y, round=0, cycle=0, seed=7)
    trained = sgd(party, weights, TINY.training)
    bare.loop(model, x, y, TINY.training, seed=7)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, trained[name])
        assert not torch.equal(value, weights[name])


@pytest.mark.slow
def test_both_sides_train_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ledger, in front of the same workers that train without one."""
    monkeypatch.setattr(training, "WORKERS", 1)
    lab = training.lab_of(FLAT, tests=12)
    assert lab.dataset is not None
    np.save(tmp_path / "x.npy", lab.dataset.x)
    np.save(tmp_path / "y.npy", lab.dataset.y)
    [(ours, theirs)], most = training.race(FLAT, lab, tmp_path, True, runs=1, every=1)
    assert min(ours, theirs) > 0
    assert most > 100e6  # two processes with torch


def test_each_speed_counts_two_rounds_of_two_epochs_of_two_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "race", lambda *_, every: ([(2.0, 1.0)], 10**9))
    monkeypatch.setitem(SHAPES, "few", TINY)
    alone, evaluated = training.measure("few", with_ledger=False, scale=1.0)
    assert (alone.what, evaluated.what) == ("few", "few, evaluated")
    assert alone.bare == pytest.approx(2 * 2 * 2 * 20)  # rounds x clients x epochs x examples, in a second
    assert alone.ours == pytest.approx(2 * 2 * 2 * 20 / 2)
    assert len(training.table([alone, evaluated]).splitlines()) == 3


def test_the_first_run_of_each_side_warms_up_and_the_others_alternate() -> None:
    played: list[tuple[str, int]] = []

    def side(name: str, seconds: float) -> Callable[[int], float]:
        return lambda rounds: played.append((name, rounds)) or seconds * rounds

    assert training.in_turn(side("ours", 0.5), side("theirs", 0.25), 2, 4) == [(2.0, 1.0)] * 2
    assert played == [("ours", 1), ("theirs", 1), *[("ours", 4), ("theirs", 4)] * 2]


@pytest.mark.slow
def test_a_run_is_timed_from_its_first_model_to_its_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its rounds are all in it, whenever their trainings begin, and nothing of another round."""
    lab, clock = training.lab_of(TINY, tests=8), iter(range(10))
    monkeypatch.setattr(training, "time", Mock(perf_counter=lambda: next(clock)))
    trained: list[int] = []

    class Noting(Inline):
        def submit(self, job: Any, *args: Any) -> Any:
            trained.append(next(clock)) if job is train else None
            return super().submit(job, *args)

    assert training.seconds(Noting(lab), lab, TINY, rounds=2) == 6  # rounds of two trainings and a row: 0 to 6
    assert trained == [1, 2, 4, 5]


@pytest.mark.slow
def test_rounds_with_more_workers_are_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []
    seconds = on_ray.seconds
    monkeypatch.setattr(on_ray, "seconds", lambda *args: played.append(args[-1]) or seconds(*args))
    shape = SHAPES["linear"].scaled(0.2)
    found = on_ray.grown(shape, ExecutorName.processes, workers=1)
    assert played == [1, 10, 10]
    assert 0 < found.work < found.round <= found.median_round
