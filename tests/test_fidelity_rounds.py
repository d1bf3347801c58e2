"""The parts of benchmarks/fidelity_rounds.py: what it calibrates, and what it judges.  Rounds need root and minutes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from algorithms.step import Step
from benchmarks import fidelity_rounds
from benchmarks.fidelity_rounds import Finding, calibrated, mean_seconds, missed, slowed
from benchmarks.testbed import namespaces, page, quota
from benchmarks.testbed.star import Moments, Played
from devices.device import Device, profiles
from emulator.pricing.costs import Costs
from emulator.record.run import Run
from emulator.study.build import study_of
from emulator.study.jobs import message_sizes
from scenarios.load import load

WHY_NOT = namespaces.missing() or quota.missing()
NO_PIECES = dict.fromkeys(fidelity_rounds.PIECES, 0.0)


def _finding(label: str, predicted: float, *measured: float) -> Finding:
    return Finding(label, [predicted] * len(measured), measured, NO_PIECES, NO_PIECES)


def test_half_as_fast_takes_twice_as_long() -> None:
    fast = profiles()["pi-4"]
    slow = slowed(fast, "slow", 2.0)
    assert slow.overhead_s == 2 * fast.overhead_s
    started = replace(fast, operator_s=1e-5, convolution_s=1e-4)
    step = Step(1e9, 1e6, 1e8, 0.0, 5.0, 30.0, 4.0)
    as_it_is, halved = (Device("a", profile).seconds(step, 3) for profile in (started, slowed(started, "slow", 2.0)))
    assert halved == pytest.approx(2 * as_it_is)
    assert slow.flops_per_s * 2 == fast.flops_per_s
    assert slow.memory_bytes_per_s * 2 == fast.memory_bytes_per_s
    assert replace(fast, dense_flops_per_s=8.0).computing(8.0) * 2 == slowed(
        replace(fast, dense_flops_per_s=8.0), "slow", 2.0
    ).computing(8.0)


@pytest.mark.slow
def test_fedavgs_rounds_give_back_its_own_seconds() -> None:
    """What is calibrated on rounds of 1 s down, 5 s of training and 4 s up costs just that."""
    study = study_of(load(str(fidelity_rounds.SCENARIO)))
    moments = dict.fromkeys(study.fleet, Moments(sent=10.0, came=11.0, trained=16.0, arrived=20.0))
    known = calibrated(study, profiles()["laptop"], [Played(10.0, 10.0, 20.0, 20.0, moments)])
    down, up = message_sizes(study, Run("fedavg", 1))
    costs = Costs(known, "fedavg", 1)
    for name, link in known.links.items():
        assert link.down == pytest.approx(down)
        assert link.up == pytest.approx(up / 4)
        assert costs.device(name, 0, ["weights"], []).total_seconds == pytest.approx(5.0)


def test_a_round_lasts_from_its_opening_to_the_new_model() -> None:
    rounds = [Played(1.0, 1.5, 3.0, 4.0, {}), Played(4.0, 4.1, 8.0, 9.0, {})]
    assert mean_seconds(rounds) == 4.0


def test_within_both_bars_and_in_order_nothing_is_missed() -> None:
    found = [_finding("fedavg", 2.0, 2.0), _finding("fedprox", 2.1, 2.0), _finding("fedcurv", 4.0, 4.1)]
    assert missed(found) == []


def test_fedavg_itself_is_not_judged() -> None:
    assert missed([_finding("fedavg", 3.0, 2.0), _finding("fedprox", 4.0, 4.0)]) == []


def test_each_bar_that_is_missed_is_named() -> None:
    found = [_finding("fedavg", 1.0, 1.0), _finding("fedprox", 1.2, 1.0), _finding("fedcl", 1.0, 1.08)]
    faults = missed(found)
    assert faults[0].startswith("fedprox is off by 20.0%")
    assert "median error is 13.7%" in faults[1]


def test_each_repetition_is_held_against_its_own_prediction() -> None:
    """A host that is half as fast in one of three is so in both."""
    found = Finding("fedprox", [1.0, 2.0, 1.0], [1.0, 2.0, 1.25], NO_PIECES, NO_PIECES)
    assert found.errors == pytest.approx([0.0, 0.0, -0.2])
    assert found.error == 0.0


def test_a_pair_in_the_wrong_order_is_missed_unless_it_comes_now_so_now_so() -> None:
    one = _finding("fedprox", 2.05, 1.99, 2.0)
    assert any("fedprox was faster" in fault for fault in missed([one, _finding("fedcl", 2.0, 2.01, 2.02)]))
    drifts = _finding("fedcl", 2.0, 1.995, 2.02)  # the second repetition was slower for both
    assert any("fedprox was faster" in fault for fault in missed([one, drifts]))
    assert missed([one, _finding("fedcl", 2.0, 1.985, 2.02)]) == []


def test_either_benchmark_leaves_the_others_part_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "fidelity.md")
    page.write(rounds="first rounds")
    page.write(transfers="# Transfers")
    page.write(rounds="second rounds")
    assert page.PAGE.read_text() == f"# Transfers\n\n{page.ROUNDS}\nsecond rounds\n"


def test_without_root_it_says_so_in_one_line_and_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert namespaces.missing() is not None
    app = typer.Typer()
    app.command()(fidelity_rounds.main)
    result = CliRunner().invoke(app, ["--quick"])
    assert (result.exit_code, result.output.strip().count("\n")) == (2, 0)


@pytest.mark.skipif(WHY_NOT is not None, reason=f"NO CPU QUOTA IS TRIED HERE: it {WHY_NOT}")
@pytest.mark.slow
def test_a_process_gets_its_share_of_a_core_and_no_more() -> None:
    burn = "import time; input(); t = time.monotonic() + 0.5\nwhile time.monotonic() < t: pass\n"
    burn += "print(time.process_time())"
    command, pipe = (sys.executable, "-S", "-c", burn), subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process,
        quota.limited(process.pid, 0.2),
    ):
        used, _ = process.communicate("go\n")
    assert 0 < float(used) < 0.5 * 0.2 + 0.1  # the rest is Python's start
