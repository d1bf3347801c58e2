"""Commands that are stopped: by Ctrl-C, SIGTERM or SIGHUP, or killed.  Real processes, real signals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from emulator.record.record import read_lines
from tests.conftest import audit_run

ROOT = Path(__file__).parents[3]
LABELS = ("fedavg", "fedcurv")
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def wait_for(what: Callable[[], bool], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


class Command:
    """`fedlapse compare quickstart`, with far more rounds than anyone would wait for, each a short one."""

    def __init__(self, out: Path, *prefix: str) -> None:
        self.out, self.temporary = out, out.parent / "temporary"
        self.temporary.mkdir(exist_ok=True)
        arguments = ["compare", "quickstart", "--rounds", "5000", "--workers", "2", "--seed", "1", "--out", str(out)]
        arguments += [f"algorithms=[{', '.join(LABELS)}]", "training.epochs=1", "training.batch=64"]
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "emulator", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=self.environment,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def plays(self, rounds: int) -> None:
        """Returns when every run has written so many rounds."""
        wait_for(lambda: self.process.poll() is not None or self._played(rounds))
        assert self.process.poll() is None, self.process.communicate()[0]

    def _played(self, rounds: int) -> bool:
        runs = [folder for folder in self.out.glob("*-s1") if (folder / "rounds.jsonl").exists()]
        return len(runs) == len(LABELS) and all(self.rows(folder) >= rounds for folder in runs)

    def begins(self) -> None:
        """Returns when the runs are about to begin, and the workers are on their way."""
        wait_for(lambda: self.process.poll() is not None or (self.out / "scenario.yaml").exists())
        assert self.process.poll() is None, self.process.communicate()[0]
        time.sleep(0.3)

    @staticmethod
    def rows(folder: Path) -> int:
        return len(list(read_lines(folder / "rounds.jsonl")))

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)  # a terminal sends it to the workers too, and so does a service

    def ended(self, seconds: float) -> tuple[int, str]:
        text, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, text

    def living(self) -> list[int]:
        """Its processes, the workers among them: all of its session."""
        return [number for number, session in sessions() if session == self.process.pid]

    def left(self) -> list[str]:
        """In the temporary folder."""
        return sorted(path.name for path in self.temporary.glob("fedlapse-*"))

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def sessions() -> Iterator[tuple[int, int]]:
    """Each process that lives, and its session."""
    for line in subprocess.run(
        ["ps", "-e", "-o", "pid=,sess=,stat="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        number, session, state = line.split()[:3]
        if not state.startswith("Z"):
            yield int(number), int(session)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "expected"), SIGNALS.items())
def test_one_signal_and_every_run_ends_its_round_and_all_files_are_written(
    tmp_path: Path, number: int, expected: int
) -> None:
    with Command(tmp_path / "out") as command:
        command.plays(1)
        command.send(number)
        code, text = command.ended(300)
    assert code == expected, text
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
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_before_the_workers_are_there_does_not_break_the_pool(  # trap 6
    tmp_path: Path, number: int, expected: int
) -> None:
    with Command(tmp_path / "out") as command:
        command.begins()
        command.send(number)
        code, text = command.ended(300)
    assert code == expected, text
    assert "Traceback" not in text
    assert (command.out / "summary.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_two_signals_stop_now_and_the_records_are_valid_to_their_last_whole_line(
    tmp_path: Path, number: int, expected: int
) -> None:
    with Command(tmp_path / "out") as command:
        command.plays(1)
        command.send(number)
        time.sleep(0.05)
        command.send(number)
        code, text = command.ended(60)  # a busy machine takes its time; the rounds would take hours
    assert code == expected, text
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
    with Command(tmp_path / "out") as command:
        command.plays(1)
        assert len(command.living()) >= 3  # itself and two workers
        command.process.kill()
        command.process.wait()
        wait_for(lambda: command.living() == [], 20)
        command.process.communicate(timeout=20)  # nobody holds its stdout any more
    dead = command.left()
    assert len(dead) == 1
    with Command(tmp_path / "next") as following:
        following.begins()
        assert len(following.left()) == 1
        assert following.left() != dead
        following.send(signal.SIGINT)
        following.ended(300)
    assert following.left() == []


@pytest.mark.slow
def test_under_nohup_sighup_changes_nothing(tmp_path: Path) -> None:
    with Command(tmp_path / "out", "nohup") as command:
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
        os.chdir(ROOT)
        words = ["compare", "quickstart", "--rounds", "5000", "--workers", "0", "--seed", "1", "--out", str(out)]
        os.execv(sys.executable, [sys.executable, "-m", "emulator", *words, "algorithms=[fedavg]"])
    try:
        os.set_blocking(terminal, False)

        def plays() -> bool:
            try:
                os.read(terminal, 1 << 16)
            except BlockingIOError:
                pass
            rounds = out / "fedavg-s1" / "rounds.jsonl"
            return rounds.exists() and Command.rows(rounds.parent) > 0

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
