"""A small part of `make torture`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_run_that_was_killed_again_and_again_ends_with_the_same_bytes() -> None:
    words = [sys.executable, "-m", "tests.torture", "--kills", "6"]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("6 kills, ")
