"""Runs made up of as little as results need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UPLOAD = {"setup_s": 0.0, "down_s": 0.2, "compute_s": 0.3, "up_s": 0.4, "server_s": 0.1, "wait_s": 0.0}

Rows = list[dict[str, Any]]


def row(round: int, time: float, accuracy: float, length: float, path: Mapping[str, float] = UPLOAD) -> dict[str, Any]:
    critical = {
        part: {"weights": share * length} if part in ("down_s", "up_s") else share * length
        for part, share in path.items()
    }
    nothing: dict[str, Any] = {"bytes": {"down": {}, "up": {}}, "leverage": {}, "initial": None, "personalised": None}
    fates = {"asked": 1, "counted": 1, "late": 0, "lost": 0, "refused": 0}
    return {"round": round, "time_s": time, "accuracy": accuracy, "critical": critical, **nothing, **fates}


def until(time: float, path: Mapping[str, float] = UPLOAD) -> Rows:
    """A run that reaches the target at `time`, in its second round."""
    return [row(0, time / 2, 0.1, time / 2, path), row(1, time, 0.9, time / 2, path)]


def never(end: float) -> Rows:
    return [row(0, end / 2, 0.1, end / 2), row(1, end, 0.2, end / 2)]


def runs_of(**labels: Sequence[Rows]) -> dict[str, dict[int, Rows]]:
    return {label: dict(enumerate(seeds, 1)) for label, seeds in labels.items()}
