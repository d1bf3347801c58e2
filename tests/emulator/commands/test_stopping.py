"""`compare` that is stopped: by Ctrl-C, SIGTERM or SIGHUP, or killed.  Real processes, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
import time
from pathlib import Path

import pytest

from emulator.compute.executors import Inline
from emulator.record.lines import read_lines
from emulator.terminal.stopping import Stopped, code_of
from emulator.worlds.virtual import VirtualWorld
from tests.conftest import audit_run
from tests.emulator.commands.processes import ROOT, Command, wait_for

LABELS = ("fedavg", "fedcurv")
BRIEF = ("training.epochs=1", "evaluate.personalise_every=never")


class Compare(Command):
    """The quickstart, with far more rounds than anyone would wait for, each a short one."""

    def __init__(self, out: Path, *prefix: str, workers: int = 2) -> None:
        words = ["compare", "quickstart", "--rounds", 5000, "--workers", workers, "--seed", 1]
        changes = [f"algorithms=[{', '.join(LABELS)}]", "training.batch=64", *BRIEF]
        super().__init__(out, *words, *changes, prefix=prefix)

    def plays(self, rounds: int) -> None:
        """Returns when every run has written so many rounds."""
        self.until(lambda: self._played(rounds))

    def _played(self, rounds: int) -> bool:
        runs = [folder for folder in self.out.glob("*-s1") if (folder / "rounds.jsonl").exists()]
        return len(runs) == len(LABELS) and min(map(self.rows, runs)) >= rounds

    def begins(self) -> None:
        """Returns when the runs are about to begin, and the workers are on their way."""
        self.until((self.out / "split.json").exists)
        time.sleep(0.1)

    @staticmethod
    def rows(folder: Path) -> int:
        return len(list(read_lines(folder / "rounds.jsonl")))


def test_a_signal_in_the_midst_of_the_virtual_clock_keeps_its_number() -> None:
    world = VirtualWorld(Inline.__new__(Inline))  # nobody computes anything

    async def stopped() -> None:
        raise Stopped(signal.SIGTERM)

    async def play() -> None:
        world.start(stopped())
        await world.sleep(1.0)

    with pytest.raises(Stopped) as stop:
        asyncio.run(world.run(play()))
    assert code_of(stop.value) == 143


@pytest.mark.slow
def test_one_signal_and_every_run_ends_its_round_and_all_files_are_written(tmp_path: Path) -> None:
    with Compare(tmp_path / "out") as command:
        command.plays(1)
        command.send(signal.SIGINT)
        code, text = command.ended(300)
    assert code == 130, text
    assert "every run ends its round" in text
    summary = json.loads((command.out / "summary.json").read_text())
    assert summary["interrupted"]
    assert set(summary["labels"]) == set(LABELS)
    for name in ("scenario.yaml", "host.json", "report.html"):
        assert (command.out / name).stat().st_size > 0
    for label, entry in summary["labels"].items():
        folder = command.out / f"{label}-s1"
        assert audit_run(folder) == []
        events = list(read_lines(folder / "events.jsonl"))
        for file in ("events.jsonl", "rounds.jsonl"):
            assert (folder / file).read_bytes().endswith(b"\n")
        rows = command.rows(folder)
        assert 1 <= rows < 5000
        assert rows == sum(line["event"] == "open" for line in events)
        assert rows == sum(line["event"] == "close" for line in events)
        assert entry["rounds"] == {"1": rows}
        assert (folder / "final.safetensors").exists()
    assert command.left() == []
    wait_for(lambda: command.living() == [], 20)


@pytest.mark.slow
def test_a_signal_before_the_workers_are_there_does_not_break_the_pool(tmp_path: Path) -> None:  # trap 6
    """SIGHUP, of which nothing but fedlapse shields multiprocessing's own process."""
    with Compare(tmp_path / "out") as command:
        command.begins()
        command.send(signal.SIGHUP)
        code, text = command.ended(300)
    assert code == 129, text
    assert "Traceback" not in text
    assert (command.out / "summary.json").exists()


@pytest.mark.slow
def test_two_signals_stop_now_and_the_records_are_valid_to_their_last_whole_line(tmp_path: Path) -> None:
    with Compare(tmp_path / "out") as command:
        command.plays(1)
        command.send(signal.SIGINT)
        time.sleep(0.05)
        command.send(signal.SIGINT)
        code, text = command.ended(60)  # a busy machine takes its time; the rounds would take hours
    assert code == 130, text
    assert "Traceback" not in text
    for folder in command.out.glob("*-s1"):
        events = list(read_lines(folder / "events.jsonl"))
        closes = sum(line["event"] == "close" for line in events)
        opens = sum(line["event"] == "open" for line in events)
        assert closes <= opens <= closes + 1
        assert 1 <= command.rows(folder) <= closes
    assert command.left() == []
    wait_for(lambda: command.living() == [], 20)


@pytest.mark.slow
def test_a_killed_command_leaves_no_process_and_the_next_one_removes_its_folder(tmp_path: Path) -> None:
    with Compare(tmp_path / "out") as command:
        command.plays(1)
        assert len(command.living()) >= 3  # itself and two workers
        command.killed()
    dead = command.left()
    assert len(dead) == 1
    with Compare(tmp_path / "next") as following:
        following.begins()
        assert len(following.left()) == 1
        assert following.left() != dead
        following.send(signal.SIGINT)
        following.ended(300)
    assert following.left() == []


@pytest.mark.slow
def test_under_nohup_sighup_changes_nothing(tmp_path: Path) -> None:
    with Compare(tmp_path / "out", "nohup") as command:
        command.plays(1)
        command.send(signal.SIGHUP)
        played = max(command.rows(folder) for folder in command.out.glob("*-s1"))
        command.plays(played + 2)
        command.send(signal.SIGTERM)
        assert command.ended(300)[0] == 143


@pytest.mark.slow
def test_a_terminal_that_is_closed_lets_the_runs_end_and_the_report_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    number, terminal = pty.fork()
    if number == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and what is started then does so, too
        os.chdir(ROOT)
        words = ["compare", "quickstart", "--rounds", "5000", "--workers", "0", "--seed", "1", "--out", str(out)]
        os.execv(sys.executable, [sys.executable, "-m", "emulator", *words, "algorithms=[fedavg]", *BRIEF])
    try:
        os.set_blocking(terminal, False)

        def plays() -> bool:
            try:
                os.read(terminal, 1 << 16)
            except BlockingIOError:
                pass
            rounds = out / "fedavg-s1" / "rounds.jsonl"
            return rounds.exists() and Compare.rows(rounds.parent) > 0

        wait_for(plays)
        os.close(terminal)
        ended: list[int] = []

        def has_ended() -> bool:
            found, status = os.waitpid(number, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if found else [])
            return bool(found)

        wait_for(has_ended)
    except BaseException:
        os.kill(number, signal.SIGKILL)
        raise
    assert ended == [129]
    assert (out / "report.html").stat().st_size > 0
    assert json.loads((out / "summary.json").read_text())["interrupted"]
