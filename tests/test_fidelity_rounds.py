"""The parts of benchmarks/fidelity_rounds.py: what it calibrates, and what it judges.  Rounds need root and minutes."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import fidelity_rounds
from benchmarks.fidelity_rounds import Finding, as_trained, calibrated, mean_seconds, missed, predict, training
from benchmarks.testbed import namespaces, page, quota
from benchmarks.testbed.diary import Diary, read
from benchmarks.testbed.ends import PORTS, transfer
from benchmarks.testbed.players import Moments, Played
from benchmarks.testbed.tree import Tree, branch, ends, rtt, tree
from devices.device import Profile, profiles
from emulator.lab.build import lab_of
from emulator.pricing.costs import Costs
from scenarios.load import load

WHY_NOT = namespaces.missing() or quota.missing()
NO_PIECES = dict.fromkeys(fidelity_rounds.PIECES, 0.0)


def _finding(label: str, predicted: float, *measured: float) -> Finding:
    return Finding(label, [predicted] * len(measured), measured, measured, NO_PIECES, NO_PIECES)


@pytest.mark.slow
def test_training_is_calibrated_on_fedavgs_rounds_and_links_on_nothing() -> None:
    lab = lab_of(load(str(fidelity_rounds.SCENARIO)))
    moments = dict.fromkeys(lab.fleet, Moments(came=11.0, trained=16.0, arrived=20.0))
    known = calibrated(lab, profiles()["laptop"], [Played(10.0, 10.0, 20.0, 20.0, moments)])
    costs = Costs(known, "fedavg", 1)
    for name in lab.fleet:
        assert costs.device(name, 0, ["weights"], []).total_seconds == pytest.approx(5.0)
    assert (known.links, known.topology, known.server_link) == (lab.links, lab.topology, lab.server_link)


@pytest.mark.slow
def test_with_training_as_it_was_only_links_are_left_to_be_wrong() -> None:
    lab = lab_of(load(str(fidelity_rounds.SCENARIO)))
    moments = dict.fromkeys(lab.fleet, Moments(came=11.0, trained=16.0, arrived=20.0))
    rounds = [Played(10.0, 10.0, 20.0, 20.0, moments)] * 2
    known = as_trained(calibrated(lab, Profile("host", 1e10, 1e10, 1e-4, 10**9, "assumed"), rounds), "fedprox", rounds)
    said = predict(known, "fedprox", 2)
    assert said.pieces["compute"] == pytest.approx(5.0)
    assert said.seconds > 5.0 + said.pieces["down"] + said.pieces["up"]  # the last device is later than the mean


def test_how_far_training_is_off_is_said_of_all_but_fedavg() -> None:
    pieces = ({**NO_PIECES, "compute": 0.9}, {**NO_PIECES, "compute": 1.0})
    found = [Finding(label, [1.0], [1.0], [1.0], *pieces) for label in ("fedavg", "fedcl", "fedcurv")]
    assert training(found) == "-10% (fedcl), -10% (fedcurv)"


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    rounds = [Played(100.0, 100.5, 103.0, 104.0, {"a": Moments(101.0, 102.0, 102.5)})]
    Diary("Linux", profiles()["laptop"], {"fedavg": [rounds, rounds]}).write(tmp_path / "kept.json")
    again = read(tmp_path / "kept.json")
    since = [Played(0.0, 0.5, 3.0, 4.0, {"a": Moments(1.0, 2.0, 2.5)})]
    assert again.runs == {"fedavg": [since, since]}
    assert (again.host, again.here.flops_per_s) == ("Linux", profiles()["laptop"].flops_per_s)


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
    found = Finding("fedprox", [1.0, 2.0, 1.0], [1.1, 2.2, 1.25], [1.0, 2.0, 1.25], NO_PIECES, NO_PIECES)
    assert found.errors == pytest.approx([0.0, 0.0, -0.2])
    assert found.error == 0.0
    assert found.link_errors == pytest.approx([0.1, 0.1, 0.0])


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


def test_every_wire_has_addresses_of_its_own_in_its_branch() -> None:
    every = [ends(branch(number), wire) for number in range(2) for wire in range(4)]
    assert len({address for wire in every for address in wire}) == 16
    assert ends(branch(1), 2) == ("10.101.2.1", "10.101.2.2")


@pytest.mark.slow
def test_all_devices_have_the_one_round_trip_that_the_relay_makes() -> None:
    lab = lab_of(load(str(fidelity_rounds.SCENARIO)))
    assert rtt(lab) == pytest.approx(0.06)
    far = {**lab.links, "fast-0": lab.links["fast-0"].at(0.01)}
    with pytest.raises(ValueError, match=r"round trips are \[0.06, 0.08\] s"):
        rtt(replace(lab, links=far))


@pytest.mark.skipif(namespaces.missing() is not None, reason=f"NO SHARED LINK IS BUILT HERE: it {namespaces.missing()}")
@pytest.mark.slow
def test_links_carry_what_the_scenario_says_and_a_round_trip_lasts_as_long() -> None:
    """With Ethernet's headers 300 kB are 314 kB on the wire; slow start leaves the link idle for a while."""
    lab = lab_of(load(str(fidelity_rounds.SCENARIO)))
    with tree(lab) as places:
        server = namespaces.start(places.server, "benchmarks.testbed.ends", "serve", "cubic")
        try:
            namespaces.heard(server)
            first = _seconds(places, PORTS, 1, up=False)
            down = _seconds(places, PORTS + 1, 300_000, up=False)
            up = _seconds(places, PORTS + 2, 300_000, up=True)
        finally:
            namespaces.stop(server)
    assert 0.12 <= first < 0.16  # TCP's round trip, and the request's
    assert 0.314 < down - 0.12 < 0.314 + 0.15
    assert 0.628 < up - 0.09 < 0.628 + 0.15


def _seconds(places: Tree, port: int, nbytes: int, up: bool) -> float:
    """The seconds of a transfer of a device behind the slow access point, alone."""
    with namespaces.in_namespace(places.devices["slow-0"]):
        return -time.monotonic() + transfer(places.address, port, nbytes, up, "cubic")


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
