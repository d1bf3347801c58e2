"""benchmarks/gpu_session.sh: what it asks `fedlapse papers run` for; a trial on the CPU stands in its first lines."""

import subprocess
from pathlib import Path

import pytest

from emulator.sessions.full_runs import settings

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_session.sh"


@pytest.fixture
def session(tmp_path):
    """The session with a command in fedlapse's place that writes down its words and then does as it is told."""

    def play(then, *words, **environment):
        command = tmp_path / "command"
        command.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/words\n{then}\n')
        command.chmod(0o755)
        places = {"PATH": "/usr/bin:/bin", "FEDLAPSE": str(command), "OUT": str(tmp_path / "out")}
        done = subprocess.run([SCRIPT, *words], env={**places, **environment}, capture_output=True, text=True)
        said = tmp_path / "words"
        return done, said.read_text().splitlines() if said.exists() else []

    return play


def test_it_plays_the_settings_in_their_order_on_the_gpu_within_the_minutes(session, tmp_path):
    done, words = session("mkdir -p $OUT/.running/x", "9")
    assert done.returncode == 0, done.stderr
    assert words[:2] == ["papers", "run"]
    names = words[2 : words.index("--rows")]
    assert list(settings(names)) == [
        *("fedcl-fig1-cifar-alpha1", "fedcl-fig1-mnist-alpha1", "fedcurv-table1-e10"),
        *("fedmeta-table1-cifar-e2-b128", "fedmeta-table1-cifar-e2-b64", "fedmeta-table1-cifar-e5-b128"),
    ]
    said = dict(zip(words[words.index("--rows") :: 2], words[words.index("--rows") + 1 :: 2], strict=False))
    assert (said["--minutes"], said["--device"], said["--seeds"]) == ("8.5", "cuda", "3")
    assert words[-2:] == ["--out", str(tmp_path / "out")]
    assert not (tmp_path / "out" / ".running").exists()


def test_results_that_are_there_are_copied_so_that_they_are_not_played_again(session, tmp_path):
    session("true", "9")
    there = ROOT / "docs" / "papers" / "results"
    assert {path.relative_to(there) for path in there.rglob("*")} == {
        path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*")
    }


def test_trials_and_mistakes(session):
    done, words = session("exit 2", "5", DEVICE="cpu", SEEDS="1", ROWS="fedavg", CHANGES="rounds.max=1 model=mlp")
    assert done.returncode == 2
    assert {"rounds.max=1", "model=mlp", "cpu", "fedavg", "1"} <= set(words)
    assert "MINUTES are missing" in session("true")[0].stderr
