"""Logs to Weights & Biases, offline: a folder for each run, which `wandb sync` can upload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wandb

from emulator.play.watcher import Status
from emulator.trackers.tracker import Tracked

PROJECT = "fedlapse"
DIGITS = 16  # digits in an id


class WeightsAndBiases:
    """The tracker of one run, in the scenario's group.  It uses no network and logs nothing about this machine.

    Offline, Weights & Biases cannot resume a run: the file of an earlier sitting stays, and all rounds are logged
    again.  Both files have the same id, so that the one synced last replaces the other.
    """

    def __init__(self, tracked: Tracked) -> None:
        self.tracked = tracked

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        self.run = wandb.init(
            mode="offline",
            dir=str(self.tracked.folder),
            project=PROJECT,
            group=self.tracked.scenario,
            name=self.tracked.run,
            id=self.tracked.identity(params)[:DIGITS],
            reinit="create_new",  # this process has other runs in progress
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
            ),
        )
        self.run.config.update({"out": str(self.tracked.out), **params})

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        self.run.log(dict(metrics), step=step, commit=True)

    def finalize(self, status: Status) -> None:
        self.run.summary["status"] = status
        self.run.finish(exit_code=0 if status == "finished" else 1)
