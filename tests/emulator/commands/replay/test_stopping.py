"""`replay` and `map` that are stopped: by Ctrl-C, SIGTERM or SIGHUP, or killed.  Real processes, real signals."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.__main__ import app
from emulator.audit.results_laws import audit_results
from emulator.record.record import FILES
from scenarios.load import build
from tests.conftest import SMALL, merged
from tests.emulator.commands.processes import Command, wait_for
from tests.emulator.commands.replay.test_replay import CHANGES, rehearsed

pytestmark = pytest.mark.slow

RATES = [f"{number}Mbit/s" for number in range(1, 600)]  # more than anyone would wait for
CELLS = ("--uplink", "0.5..2000Mbit/s", "--latency", "5..500ms", "--points", 60)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("record") / "runs"
    folder.mkdir()
    rehearsed(folder, build(merged(SMALL, CHANGES)))
    return folder


def replay(record: Path, out: Path, workers: int) -> Command:
    return Command(out, "replay", record, "--down", *RATES, "--symmetric", "--events", "--workers", workers)


def replays(command: Command, settings: int = 3) -> None:
    """Returns when so many runs have been replayed."""
    command.until(lambda: len(list(command.out.glob("*/*-s1/seal.json"))) >= settings)


def maps(record: Path, out: Path, workers: int, seconds: float = 1) -> Command:
    """Draws a map; returns when it has begun to replay, as far as that shows from outside."""
    command = Command(out, "map", record, *CELLS, "--workers", workers)
    command.until(lambda: _heeds_signals(command.process.pid) and len(command.living()) > workers)
    time.sleep(seconds)
    return command


def _heeds_signals(process: int) -> bool:
    caught = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigCgt" in line)
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_replays_that_are_stopped_are_those_that_were_done(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with replay(record, out, 0) as command:
        replays(command)
        command.send(signal.SIGTERM)
        code, text = command.ended(60)
    assert code == 143, text
    assert f"fedlapse: stopped; what was replayed until then is in {out}\n" in text
    assert "Traceback" not in text
    assert "Warning" not in text
    assert json.loads((out / "replay.json").read_text())["finished"] is False
    runs = [*out.glob("*/*-s1")]
    assert runs
    for run in runs:
        assert {path.name for path in run.iterdir()} == {*FILES, "run.json", "seal.json"}
    assert list(out.rglob("*.partial")) == []
    assert command.left() == []
    wait_for(lambda: command.living() == [], 20)


def test_training_that_is_stopped_leaves_the_settings_that_were_done_and_the_ledger_has_the_rest(
    record: Path, tmp_path: Path
) -> None:
    out, ledger = tmp_path / "out", tmp_path / "ledger"
    words = ("replay", record, "--symmetric", "--events", "--train", "--ledger", ledger, "--workers", 2)
    with Command(out, *words, "--down", *RATES) as command:
        replays(command, 2)
        command.send(signal.SIGINT)
        code, text = command.ended(60)
    assert code == 130, text
    assert f"fedlapse: stopped; what was replayed until then is in {out}\n" in text
    assert "fedlapse: what was trained is in the ledger; the same command does not train it again\n" in text
    assert "Traceback" not in text
    assert "Warning" not in text
    said = json.loads((out / "replay.json").read_text())
    assert (said["finished"], said["trained"]) == (False, True)
    runs = [*out.glob("*/*-s1")]
    assert runs
    for run in runs:
        assert {path.name for path in run.iterdir()} == {*FILES, "run.json", "seal.json", "final.safetensors"}
    assert list(out.rglob("*.partial")) == []
    assert command.left() == []
    assert list((ledger / "live").iterdir()) == []
    wait_for(lambda: command.living() == [], 20)
    with Command(tmp_path / "again", *words, "--down", *RATES[:2]) as again:
        code, text = again.ended(120)
    assert code == 0, text
    assert re.search(r"training: (\d+) of \1 device-rounds from the ledger, 0 computed\n", text)


def test_replays_that_are_killed_leave_no_process_and_can_be_made_again(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with replay(record, out, 2) as command:
        replays(command)
        command.killed()
    audited = CliRunner().invoke(app, ["audit", str(out)])
    assert audited.exit_code == 0, audited.stdout
    assert f"{out}: no seal: interrupted" in audited.stderr
    done = min(run.parent.parent for run in out.glob("*/fedavg-s1/seal.json"))
    told = CliRunner().invoke(app, ["report", str(done), "--format", "markdown"])
    assert "This record has no seal: it was interrupted." in told.stderr
    assert "the replay was interrupted, and not all of it was made" in told.stdout
    assert f"on “{done.name.replace('-', '/')}”" in told.stdout.replace("\\", "")
    with Command(out, "replay", record, "--down", "1Mbit/s", "--symmetric", "--workers", 0, "--force") as again:
        code, text = again.ended(120)
    assert code == 0, text
    assert not list(out.glob("*Mbit-s"))
    assert audit_results(out, {}).sealed


@pytest.mark.parametrize(("number", "expected", "workers"), [(signal.SIGHUP, 129, 2), (signal.SIGINT, 130, 0)])
def test_a_map_that_is_stopped_is_drawn_of_the_cells_that_were_done(
    record: Path, tmp_path: Path, number: int, expected: int, workers: int
) -> None:
    with maps(record, tmp_path / "out", workers) as command:
        command.send(number)
        code, text = command.ended(120)
    assert code == expected, text
    assert "fedlapse: stopped" in text
    assert "Traceback" not in text
    assert "Warning" not in text
    written = {path.name for path in command.out.iterdir()} if command.out.exists() else set()
    assert written == ({"map.html", "map.json", "map.png"} if "cells are drawn" in text else set())
    assert command.left() == []
    wait_for(lambda: command.living() == [], 20)


def test_a_map_that_is_stopped_twice_is_not_drawn(record: Path, tmp_path: Path) -> None:
    for seconds in (1, 2, 4, 8, 16):  # until cells are done: without any there is nothing to draw, and nothing to stop
        with maps(record, tmp_path / "out", 0, seconds) as command:
            command.send(signal.SIGINT)
            time.sleep(0.5)
            command.send(signal.SIGTERM)
            code, text = command.ended(60)
        if (code, text) != (130, "fedlapse: stopped\n"):
            break
    assert code == 143, text
    assert "Traceback" not in text
    assert not command.out.exists()


def test_a_map_that_is_killed_leaves_nothing(record: Path, tmp_path: Path) -> None:
    with maps(record, tmp_path / "out", 2) as command:
        command.killed()
    assert not command.out.exists()
    assert command.left() == []
