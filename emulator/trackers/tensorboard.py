"""Logs to TensorBoard: an event file for each run, with its settings as hyperparameters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from emulator.play.watcher import Status
from emulator.trackers.tracker import METRICS, Tracked

ENDS = {"finished": api_pb2.STATUS_SUCCESS, "failed": api_pb2.STATUS_FAILURE}  # an interrupted run counts as running


class TensorBoard:
    """The tracker of one run.  It hides the metrics of an earlier sitting, because all rounds are logged again."""

    def __init__(self, tracked: Tracked) -> None:
        self.writer = SummaryWriter(str(tracked.home), purge_step=0)

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        make: Any = hparams
        for part in make(dict(params), dict.fromkeys(METRICS, 0))[:2]:  # the third part would end the session
            self._add(part)
        self.writer.flush()

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def finalize(self, status: Status) -> None:
        self.writer.add_text("status", status)
        if status in ENDS:
            self._add(_session_end(ENDS[status]))
        self.writer.close()

    def _add(self, summary: Any) -> None:
        file: Any = self.writer.file_writer
        file.add_summary(summary)


def _session_end(status: int) -> Any:
    """Returns the summary that ends a session.  TensorBoard's own function for it would import TensorFlow."""
    ended = SessionEndInfo(status=status, end_time_secs=time.time())
    content = HParamsPluginData(session_end_info=ended, version=metadata.PLUGIN_DATA_VERSION).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=content)
    about = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about)])
