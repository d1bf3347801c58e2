"""Logs to MLflow's file store: an experiment for each scenario, and in it an MLflow run for each of its runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from emulator.play.watcher import Status
from emulator.trackers.tracker import Tracked

# Must be set before the import: newer versions need it for files, and would report their use over the network.
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

ENDS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
LONGEST = 6000  # characters of a value
MOST = 100  # settings per call
SAME = "fedlapse.run"  # the tag with a run's identity


class MLflow:
    """The tracker of one run.  It continues the MLflow run of an earlier sitting that had the same settings and
    folder of results."""

    def __init__(self, tracked: Tracked) -> None:
        self.tracked = tracked
        self.client = MlflowClient(tracking_uri=tracked.folder.resolve().as_uri())
        found = self.client.get_experiment_by_name(tracked.scenario)
        self.experiment = found.experiment_id if found else self.client.create_experiment(tracked.scenario)
        self.run = ""
        self.told = -1  # the last round that MLflow already has

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        same = self.tracked.identity(params)
        for known in self.client.search_runs([self.experiment], f"tags.`{SAME}` = '{same}'", max_results=1):
            self.run = known.info.run_id
            self.client.update_run(self.run, status="RUNNING")
            # The last metric written for a round.
            steps = [each.step for each in self.client.get_metric_history(self.run, "virtual_seconds")]
            self.told = max(steps, default=-1)
            return
        tags = {SAME: same, "fedlapse.out": str(self.tracked.out.resolve())}
        self.run = self.client.create_run(self.experiment, run_name=self.tracked.run, tags=tags).info.run_id
        said = [Param(name, str(value)[:LONGEST]) for name, value in params.items()]
        for first in range(0, len(said), MOST):
            self.client.log_batch(self.run, params=said[first : first + MOST])

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        if step > self.told:
            now = int(1000 * time.time())
            self.client.log_batch(self.run, metrics=[Metric(name, value, now, step) for name, value in metrics.items()])

    def finalize(self, status: Status) -> None:
        self.client.set_terminated(self.run, ENDS[status])
