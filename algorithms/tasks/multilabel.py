"""Several labels for each example, each of which it has or has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from algorithms.tasks import measures
from algorithms.tasks.task import Metric, Task


def _alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the targets in the outputs' dtype.  Raises ValueError unless both are (n, labels)."""
    if outputs.shape != targets.shape or targets.dim() != 2:
        raise ValueError(
            f"outputs have shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}; both must be (n, labels)"
        )
    return targets.to(outputs.dtype)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the share of each example's labels that are predicted rightly, (n,)."""
    return ((outputs > 0) == (_alike(outputs, targets) > 0)).double().mean(1)


def predicted(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the labels and the predictions of each example, 0 or 1: (n, 2 labels)."""
    return torch.cat([_alike(outputs, targets) > 0, outputs > 0], 1)


def scored(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the labels and the outputs of each example, (n, 2 labels)."""
    return torch.cat([_alike(outputs, targets), outputs], 1)


class Multilabel(Task):
    """The mean over labels of the binary cross-entropy; outputs (n, labels) are logits, targets 0 or 1."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "f1": Metric(predicted, measures.f1_of_labels),
        "auc": Metric(scored, measures.auc_of_labels),
        "accuracy": Metric(correct),
    }

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted = _alike(outputs, targets)
        return F.binary_cross_entropy_with_logits(outputs, wanted, reduction="none").mean(1)
