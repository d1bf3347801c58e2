"""TensorBoard: an event file for each run, with its settings on the page of hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.summary import session_end_pb
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from emulator.play.watcher import Status
from emulator.trackers.tracker import METRICS, Tracked

ENDS = {"finished": api_pb2.STATUS_SUCCESS, "failed": api_pb2.STATUS_FAILURE}  # interrupted: it is still running


class TensorBoard:
    """A run's folder.  What lies there of an earlier sitting is hidden: it is told again from the first round on."""

    def __init__(self, tracked: Tracked) -> None:
        self.writer = SummaryWriter(str(tracked.home), purge_step=0)

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        for part in hparams(dict(params), dict.fromkeys(METRICS, 0))[:2]:  # the third would say that it has ended
            self.writer.file_writer.add_summary(part)
        self.writer.flush()

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def finalize(self, status: Status) -> None:
        self.writer.add_text("status", status)
        if status in ENDS:
            self.writer.file_writer.add_summary(session_end_pb(ENDS[status]))
        self.writer.close()
