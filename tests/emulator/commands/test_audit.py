"""`fedlapse audit --strict`: exit code 4 where a law could not be applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.record.seal import SEAL
from tests.conftest import results
from tests.emulator.audit.straggling import declare, events, rows, write

Command = Callable[..., Any]
UNDER = "not judged by all laws of the scenario"


def test_what_could_not_be_judged_is_code_4_if_one_is_strict(fedlapse: Command, tmp_path: Path) -> None:
    write(tmp_path, events(), rows())
    for strict, code in ((), 0), (("--strict",), 4):
        done = fedlapse("audit", tmp_path, *strict)
        assert (done.returncode, UNDER in done.stderr) == (code, True)
    declare(tmp_path)
    done = fedlapse("audit", tmp_path, "--strict")
    assert (done.returncode, UNDER in done.stderr, "no seal" in done.stderr) == (4, False, True)


def test_a_fault_is_code_1_even_so(fedlapse: Command, tmp_path: Path) -> None:
    told = rows()
    told[0]["critical"]["wait_s"] = 1.0
    write(tmp_path, events(), told)
    done = fedlapse("audit", tmp_path, "--strict")
    assert (done.returncode, UNDER in done.stderr) == (1, True)
    assert "critical.wait_s is 1.0, but the other parts leave 0.0 s of the round" in done.stdout


def test_the_help_names_the_code(fedlapse: Command) -> None:
    assert "Exit code 4" in " ".join(fedlapse("audit", "--help").stdout.replace("│", " ").split())


@pytest.mark.slow
def test_what_was_judged_by_all_laws_is_code_0(fedlapse: Command, tmp_path: Path) -> None:
    out = results(tmp_path / "out", {"model": "tests.runs.network:small", "algorithms": ["fedavg", "fedprox"]})
    done = fedlapse("audit", out, "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    (out / SEAL).rename(tmp_path / SEAL)
    assert fedlapse("audit", out, "--strict").returncode == 1  # all runs are sealed, so somebody has taken it away
    for run in ("fedavg-s1", "fedprox-s1"):
        (out / run / SEAL).unlink()
    assert fedlapse("audit", out, "--strict").returncode == 4
