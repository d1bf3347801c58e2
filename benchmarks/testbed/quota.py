"""A share of a core, by the kernel's control groups (version 1 or 2).  Needs root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD = 10_000  # us: with the usual 100,000 a short computation would meet a whole pause, or none


def _version() -> int | None:
    if (ROOT / "cpu" / "cgroup.procs").exists():
        return 1
    controllers = ROOT / "cgroup.controllers"
    return 2 if controllers.exists() and "cpu" in controllers.read_text().split() else None


def missing() -> str | None:
    """Why this machine cannot do it; None if it can."""
    return None if _version() else f"needs the cpu controller of control groups in {ROOT}"


@contextmanager
def limited(process: int, share: float) -> Iterator[None]:
    """The process gets at most this share of a core; back to where it was afterwards."""
    version = _version()
    top = ROOT / "cpu" if version == 1 else ROOT
    if version == 2:
        (top / "cgroup.subtree_control").write_text("+cpu")
    group, quota = top / f"fedlapse-{os.getpid()}-{process}", round(share * PERIOD)
    group.mkdir()
    try:
        if version == 1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD}")
        (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (top / "cgroup.procs").write_text(left)
        group.rmdir()
