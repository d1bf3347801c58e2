"""The computer that a command runs on, as host.json names it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")  # of Linux
MODEL = re.compile(r"^(?:model name|Model|Hardware)[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)  # of a PC, of a Raspberry Pi


def machine() -> dict[str, Any]:
    """System, processor and number of cores."""
    known = {"system": platform.platform(), "architecture": platform.machine()}
    return {**known, "processor": processor(), "cores": os.cpu_count()}


def processor(cpuinfo: Path = CPUINFO) -> str:
    """The processor's model as the system names it, such as `AMD EPYC 7763`; its architecture if it does not."""
    try:
        named = MODEL.search(cpuinfo.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        named = None
    return named[1].strip() if named else platform.processor() or platform.machine()
