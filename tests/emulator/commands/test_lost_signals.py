"""A signal that comes while Python clears something away, where no exception gets out, is not lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import signal, time
from emulator.commands.stopping import ending, listen

class Cleared:
    left = 1

    def __del__(self):
        if Cleared.left:
            Cleared.left -= 1
            signal.raise_signal(signal.{name})

listen()
with ending():
    for _ in range(6000):
        Cleared()
        time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_comes_in_a_finaliser_is_not_lost(name: str, code: int) -> None:
    script = SCRIPT.format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == code
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_what_else_cannot_be_raised_is_still_told() -> None:
    script = SCRIPT.format(name="SIGTERM").replace("signal.raise_signal(signal.SIGTERM)", "1 / 0")
    done = subprocess.run(
        [sys.executable, "-c", script.replace("6000", "1")], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert "ZeroDivisionError" in done.stderr
