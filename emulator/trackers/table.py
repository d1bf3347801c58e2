"""Logs to plain files: metrics.csv, hyperparams.json, and status.txt with the run's status as a word."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import Any

from emulator.play.watcher import Status
from emulator.trackers.tracker import METRICS, Tracked


class CsvTracker:
    """The tracker of one run, which writes to the run's folder and overwrites files of an earlier sitting."""

    def __init__(self, tracked: Tracked) -> None:
        self.home = tracked.home
        self.home.mkdir(parents=True, exist_ok=True)
        self._says("running")
        self.file = (self.home / "metrics.csv").open("w", encoding="utf-8", newline="")
        self.lines = csv.DictWriter(self.file, ("step", *METRICS, *tracked.others), restval="", lineterminator="\n")
        self.lines.writeheader()
        self.file.flush()

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        (self.home / "hyperparams.json").write_text(json.dumps(params, indent=1) + "\n", encoding="utf-8")

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        self.lines.writerow({"step": step, **metrics})
        self.file.flush()

    def finalize(self, status: Status) -> None:
        self.file.close()
        self._says(status)

    def _says(self, status: str) -> None:
        (self.home / "status.txt").write_text(status + "\n", encoding="utf-8")
