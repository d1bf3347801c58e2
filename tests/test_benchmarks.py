"""The benchmarks, at a tiny scale: that they measure what they say, never how fast this machine is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from algorithms.algorithm import Party
from algorithms.local import sgd
from algorithms.models import cross_entropy, mnist_cnn
from benchmarks import engine, training
from benchmarks.engine import Cost
from benchmarks.training import Speed
from emulator.conversation.rounds import RoundRules
from emulator.play.conduct import Conduct
from emulator.play.metrics import Schedule
from emulator.play.run import run_virtual
from emulator.worlds.executors import Inline


def _engine_cost(fleet: int, own: float) -> Cost:
    return Cost(fleet, cohort=10, whole=2 * own, own=own)


def test_engine_within_both_bars_misses_nothing() -> None:
    assert engine.missed([_engine_cost(10, 250e-6), _engine_cost(10_000, 500e-6)]) == []


def test_engine_above_500_us_is_missed_by_name() -> None:
    [fault] = engine.missed([_engine_cost(10, 400e-6), _engine_cost(10_000, 501e-6)])
    assert "10,000" in fault
    assert "501 us" in fault


def test_engine_that_doubles_with_the_fleet_is_missed() -> None:
    [fault] = engine.missed([_engine_cost(10, 100e-6), _engine_cost(10_000, 210e-6)])
    assert "2.10 times" in fault


def test_growth_compares_equal_cohorts_only() -> None:
    large = Cost(1_000, cohort=100, whole=1.0, own=300e-6)
    costs = [_engine_cost(10, 900e-6), Cost(100, cohort=100, whole=1.0, own=200e-6), large]
    assert engine.growth(large, costs) == pytest.approx(1.5)


@pytest.mark.slow
def test_the_engine_really_plays_the_device_rounds_it_divides_by(tmp_path: Path) -> None:
    cost = engine.measure(engine.study_of(12), cohort=4, rounds=3, folder=tmp_path)
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
    slow = Speed("evaluation off", ours=90.0, bare=100.0, paired=1.0)
    costly = _engine_cost(10, 600e-6)
    monkeypatch.setattr(training, "measure", lambda scale: [slow])
    monkeypatch.setattr(engine, "measure_all", lambda scale: [costly])
    for benchmark in (training, engine):
        app = typer.Typer()
        app.command()(benchmark.main)
        result = CliRunner().invoke(app, ["--scale", scale])
        assert result.exit_code == code, result.output


def test_speed_is_that_of_each_sides_best_round() -> None:
    # fedlapse 40, 5, 6 s; bare 4, 6, 3 s; pair by pair 0.1, 1.2, 0.5
    speed = Speed.of("x", 60, [(40.0, 4.0), (5.0, 6.0), (6.0, 3.0)])
    assert speed.ours == pytest.approx(60 / 5)
    assert speed.bare == pytest.approx(60 / 3)
    assert speed.ratio == pytest.approx(3 / 5)
    assert speed.paired == pytest.approx(0.5)


def test_only_training_without_evaluation_is_judged() -> None:
    good, bad = Speed("off", 95.0, 100.0, paired=0.5), Speed("each round", 50.0, 100.0, paired=0.5)
    assert training.missed([good, bad]) == []
    assert training.missed([Speed("off", 94.0, 100.0, paired=1.0), bad]) != []


def test_training_data_have_mnists_shape_and_even_clients() -> None:
    study = training.study_of(examples=20)
    assert study.dataset is not None
    assert study.dataset.x.shape == (200, 1, 28, 28)
    held = [indices for (indices,) in study.splits[1].train.values()]
    assert [len(indices) for indices in held] == [20] * 10
    assert len(np.unique(np.concatenate(list(held)))) == 200


@pytest.mark.slow
def test_the_bare_loop_takes_the_very_steps_of_fedlapse() -> None:
    """From the same weights, in the same order and without dropout, both end in the same model."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(100, 1, 28, 28, generator=generator), torch.arange(100) % 10
    model = mnist_cnn(dropout=0.0)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    party = Party("pi-4-0", 10, mnist_cnn(dropout=0.0), cross_entropy, x, y, round=0, cycle=0, seed=7)
    trained = sgd(party, weights, training.TRAINING)
    training.loop(model, x, y, seed=7)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, trained[name])
        assert not torch.equal(value, weights[name])


@pytest.mark.slow
def test_both_sides_train_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "WORKERS", 1)
    study = training.study_of(examples=10)
    assert study.dataset is not None
    np.save(tmp_path / "x.npy", study.dataset.x)
    np.save(tmp_path / "y.npy", study.dataset.y)
    [(ours, bare)] = training.race(study, tmp_path, rounds=1, every=1)
    assert min(ours, bare) > 0


def test_each_speed_counts_two_epochs_of_two_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "race", lambda study, files, rounds, every: [(2.0, 1.0)])
    alone, evaluated = training.measure(scale=0.01)
    assert (alone.what, evaluated.what) == ("evaluation off", "evaluation each round")
    assert alone.bare == pytest.approx(2 * 2 * 60)  # clients x epochs x a hundredth of 6,000, in a second
    assert alone.ours == pytest.approx(2 * 2 * 60 / 2)
    assert len(training.table([alone, evaluated]).splitlines()) == 3


@pytest.mark.slow
def test_a_race_counts_every_round_but_the_first(tmp_path: Path) -> None:
    study = training.study_of(examples=10)
    played: list[int] = []

    def theirs(round: int) -> float:
        played.append(round)
        return 0.25 * round

    race = training.Race(theirs, rounds=2)
    conduct = Conduct(RoundRules(max=4, needed=2, ask=2), Schedule(every=0))
    outcome = asyncio.run(run_virtual(study, training.RUN, conduct, Inline(study), tmp_path, race.going_on))
    assert [row["counted"] for row in outcome.rows] == [2, 2, 2]
    assert played == [0, 1, 2]
    assert [bare for _, bare in race.seconds] == [0.25, 0.5]
