"""The command and the computer, as host.json describes them."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from emulator.compute.gpu.gpus import model

PACKAGES = ("fedlapse", "torch", "numpy", "simpy", "aiohttp", "msgpack", "scikit-learn", "altair")
CPUINFO = Path("/proc/cpuinfo")  # exists on Linux
MODEL = re.compile(r"^(?:model name|Model|Hardware)[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)  # of a PC, of a Raspberry Pi


def machine(places: Sequence[str]) -> dict[str, Any]:
    """Returns the part of host.json on the command, versions of packages, system, processor, number of cores, and the
    devices that train.  `places`: these devices as torch names them, such as cuda:0."""
    known = {"system": platform.platform(), "architecture": platform.machine()}
    return {
        "command": ["fedlapse", *sys.argv[1:]],
        "versions": {"python": platform.python_version()} | {package: version(package) for package in PACKAGES},
        "machine": {**known, "processor": processor(), "cores": os.cpu_count()},
        "device": {"torch": list(places)} if places[0] == "cpu" else {"torch": list(places), "model": model(places[0])},
    }


def processor(cpuinfo: Path = CPUINFO) -> str:
    """Returns the processor's model as the system names it, such as `AMD EPYC 7763`; if it is not known, the
    architecture, such as x86_64."""
    try:
        named = MODEL.search(cpuinfo.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        named = None
    return named[1].strip() if named else platform.processor() or platform.machine()
