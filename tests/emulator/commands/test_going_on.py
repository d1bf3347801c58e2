"""`compare` that is stopped or killed, or that is not alone on its ledger, and `resume`: the bytes of a whole run."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from scenarios.load import build, dump
from tests.conftest import SMALL, digests, merged, results
from tests.emulator.commands.processes import Command

CHANGES = {"algorithms": ["fedavg", "scaffold"], "rounds": {"max": 8}}
WORKERS_ON_THEIR_WAY = 4  # processes: the command, two of multiprocessing's own, and one worker


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return digests(results(tmp_path_factory.mktemp("plain") / "out", CHANGES))


@pytest.fixture(autouse=True)
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(dump(build(merged(SMALL, CHANGES))))
    return path


def compare(scenario: Path, name: str = "out", workers: int = 2) -> Command:
    ledger = scenario.parent / "ledger"
    return Command(scenario.parent / name, "compare", scenario, "-q", "--workers", workers, "--ledger", ledger)


def went_on(fedlapse, folder: Path) -> dict[str, str]:
    """The files once it was resumed, after which nothing is left in the ledger but what is kept."""
    ledger = folder / "ledger"
    done = fedlapse("resume", folder / "out", "-q", "--workers", 0, "--ledger", ledger)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path for name in ("live", "left", "quarantine") for path in (ledger / name).iterdir()] == []
    return digests(folder / "out")


def lines(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in out.glob("*/rounds.jsonl"))


@pytest.mark.slow
def test_what_two_signals_have_stopped_goes_on(fedlapse, tmp_path, scenario, expected):
    with compare(scenario) as command:
        command.until(lambda: lines(command.out) > 1)
        for _ in range(2):
            command.send(signal.SIGTERM)
            time.sleep(0.05)
        ended, text = command.ended(60)
    assert (ended, "Traceback" in text) == (143, False), text
    assert text.splitlines()[-1].endswith(f"fedlapse resume {command.out} --ledger {tmp_path / 'ledger'}")
    assert went_on(fedlapse, tmp_path) == expected


@pytest.mark.slow
def test_two_signals_while_workers_are_on_their_way_stop_it_at_once(fedlapse, tmp_path, scenario, expected):
    with compare(scenario) as command:
        command.until(lambda: len(command.living()) >= WORKERS_ON_THEIR_WAY)
        command.send(signal.SIGTERM)
        time.sleep(0.3)
        if command.process.poll() is None:
            command.send(signal.SIGTERM)
        code, text = command.ended(60)
    assert (code, text.splitlines()[0]) == (143, f"fedlapse: stopped; what was written is in {command.out}")
    assert "Traceback" not in text
    assert command.left() == []
    assert went_on(fedlapse, tmp_path) == expected


@pytest.mark.slow
def test_what_was_killed_with_two_runs_on_two_workers_goes_on(fedlapse, tmp_path, scenario, expected):
    with compare(scenario) as command:
        command.until(lambda: lines(command.out) > 3)
        command.killed()
    assert not (command.out / "seal.json").exists()
    assert went_on(fedlapse, tmp_path) == expected


@pytest.mark.slow
def test_two_at_once_on_one_ledger_leave_what_each_would_leave_alone(fedlapse, tmp_path, scenario, expected):
    with compare(scenario, "one", 0) as one, compare(scenario, "two", 0) as two:
        assert [command.ended(300)[0] for command in (one, two)] == [0, 0]
    for of_page in ("report.html", "seal.json"):  # these two have written a real one
        expected = {name: digest for name, digest in expected.items() if name != of_page}
    for command in (one, two):
        assert expected.items() <= digests(command.out).items()
    assert [path for name in ("live", "left", "quarantine") for path in (tmp_path / "ledger" / name).iterdir()] == []
    done = fedlapse("ledger", "verify", "--fraction", 0.2, "--workers", 0, "--ledger", tmp_path / "ledger")
    assert (done.returncode, done.stderr) == (0, "")
