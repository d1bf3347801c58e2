"""Weights & Biases, offline: a folder for each run, which `wandb sync` uploads if somebody wants that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wandb

from emulator.play.watcher import Status
from emulator.trackers.tracker import Tracked

PROJECT = "fedlapse"


class WeightsAndBiases:
    """One run, in the scenario's group.  Nothing of this machine is noted, and nothing goes over the network."""

    def __init__(self, tracked: Tracked) -> None:
        self.run = wandb.init(
            mode="offline",
            dir=str(tracked.folder),
            project=PROJECT,
            group=tracked.scenario,
            name=tracked.run,
            reinit="create_new",  # others of this process are under way
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
        self.run.config.update({"out": str(tracked.out)})

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        self.run.config.update(dict(params))

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        self.run.log(dict(metrics), step=step, commit=True)

    def finalize(self, status: Status) -> None:
        self.run.summary["status"] = status
        self.run.finish(exit_code=0 if status == "finished" else 1)
