"""The probe tells machines apart that compute with other bits."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.ledger.probe import probe

PROBE = """
from emulator.ledger.probe import probe
from emulator.compute.executors import quiet_torch
quiet_torch()
from types import SimpleNamespace
print(probe(SimpleNamespace(on="cpu"), None))
"""


def probed(**environment: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", PROBE], env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


def test_a_probe_is_the_same_each_time_whatever_was_drawn_before() -> None:
    import torch

    lab: Any = SimpleNamespace(on="cpu")
    nothing: Any = None
    first = probe(lab, nothing)
    torch.rand(7)
    assert probe(lab, nothing) == first


@pytest.mark.slow
def test_another_process_has_the_same_probe_and_one_with_other_instructions_another() -> None:
    import torch

    here = probed(PYTHONHASHSEED="1")
    assert probed(PYTHONHASHSEED="2") == here
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert probed(ATEN_CPU_CAPABILITY="default") != here
