"""The benchmarks of large fleets and of replays, at a tiny scale: that they measure what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import fleet, replays
from benchmarks.fleet import Cost
from benchmarks.replays import Pace

SMALL = Cost(100, False, start=4.0, first=4.5, memory=400_000_000, own=400e-6)
LARGE = Cost(100_000, False, start=4.5, first=5.0, memory=1_000_000_000, own=800e-6)
PACE = Pace(replays=100, device_rounds=100_000, seconds=15.0, wall=90.0, partings=0, bare=25e-6)


def test_a_fleet_within_its_bars_misses_nothing() -> None:
    assert fleet.missed([SMALL, LARGE]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"comes": True, "first": 5.1}, " that comes and goes ends its first round after 5.1 s; at most 5 are allowed"),
        ({"memory": 1_001_000_000}, " takes 1001 MB; at most 1000 are allowed"),
        ({"own": 840e-6}, " costs 2.10 times the smallest in a round; at most 2.0 are allowed"),
    ],
)
def test_each_bar_of_a_fleet_is_missed_by_name(change: dict[str, float], said: str) -> None:
    assert fleet.missed([SMALL, replace(LARGE, **change)]) == [f"a fleet of 100,000{said}"]  # type: ignore[arg-type]
    assert len(fleet.table([SMALL, LARGE]).splitlines()) == 3


def test_asynchronous_rounds_are_held_against_synchronous_ones() -> None:
    sync, both = replace(LARGE, mode="sync"), replace(LARGE, mode="async", own=1.29 * LARGE.own)
    assert fleet.missed([SMALL, LARGE, sync, both]) == []
    [fault] = fleet.missed([SMALL, LARGE, sync, replace(both, own=1.32 * LARGE.own)])
    said = "in async rounds costs 1.32 times as much as in sync ones; at most 1.3 are allowed"
    assert fault == f"a fleet of 100,000 {said}"


def test_both_modes_ask_equally_many_devices() -> None:
    made = [fleet.scenario_of(100_000, False, 5, mode) for mode in ("sync", "async")]
    assert [each.asked for each in made] == [fleet.MANY] * 2
    assert [each.under("nothing").rounds.mode for each in made] == ["sync", "async"]


def test_replays_are_judged_by_the_processors_seconds() -> None:
    assert replays.missed(PACE) == []
    assert PACE.each == pytest.approx(150e-6)
    assert PACE.ratio == pytest.approx(6)  # and of those of the bare simulation, which take 25 us
    [fault] = replays.missed(replace(PACE, seconds=17.8))
    assert fault == "a device-round costs 7.1 times the bare simulation; at most 7 are allowed"


@pytest.mark.parametrize(("scale", "code"), [("1", 1), ("0.5", 0)])
def test_a_missed_bar_fails_at_full_scale_only(scale: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "measure_all", lambda scale: [replace(LARGE, first=9.0)])
    monkeypatch.setattr(replays, "record", lambda scenario, folder: None)
    monkeypatch.setattr(replays, "recorded", lambda count: [])
    monkeypatch.setattr(replays, "measure", lambda folder, conditions: replace(PACE, seconds=90.0))
    for benchmark in (fleet, replays):
        app = typer.Typer()
        app.command()(benchmark.main)
        assert CliRunner().invoke(app, ["--scale", scale]).exit_code == code


@pytest.mark.slow
def test_a_fleet_plays_the_device_rounds_that_it_is_divided_by(tmp_path: Path) -> None:
    cost = fleet.measure(12_000, True, 2, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [row["counted"] for row in rows] == [fleet.COHORT] * 2
    assert 0 < cost.own < 1
    assert 0 < cost.start < cost.first


@pytest.mark.slow
def test_every_trace_is_replayed_with_every_algorithm(tmp_path: Path) -> None:
    replays.record(replays.scenario_of(3), tmp_path)
    pace = replays.measure(tmp_path, replays.generated(2), workers=0)
    assert (pace.replays, pace.device_rounds, pace.partings) == (2 * 4, 2 * 4 * 3 * 10, 0)
    assert pace.seconds > 0
