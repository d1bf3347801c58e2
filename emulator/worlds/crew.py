"""Who computes: this process, worker processes, or workers of Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.lab.lab import Lab
from emulator.worlds.executors import Cluster, Inline, Processes

if TYPE_CHECKING:
    from emulator.worlds.rays import Ray


def no_more(workers: int | Cluster, most: int) -> int | Cluster:
    """So many workers, and no more than can have something to do."""
    return replace(workers, most=most) if isinstance(workers, Cluster) else min(workers, most)


def executor(lab: Lab, workers: int | Cluster, folder: Path | None = None) -> Inline | Processes | Ray:
    """That many worker processes, or with 0 this process; or workers of Ray.  Messages lie in `folder`, if it is given.

    Raises BadScenario if Ray cannot be used.
    """
    if isinstance(workers, Cluster):
        from emulator.worlds.rays import Ray

        return Ray(lab, workers, folder)
    return Processes(lab, workers, folder) if workers else Inline(lab, folder)
