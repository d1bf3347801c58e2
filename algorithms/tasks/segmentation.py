"""A class at each position of an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from algorithms import models
from algorithms.tasks import measures
from algorithms.tasks.task import Metric, Task


def logits(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the logits (n, *positions, classes) of outputs (n, classes, *positions).  Raises ValueError unless
    targets are (n, *positions)."""
    said = outputs.movedim(1, -1)
    if targets.dim() < 2 or said.shape[:-1] != targets.shape:
        raise ValueError(
            f"outputs have shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}; they must be "
            "(n, classes, height, width) and (n, height, width)"
        )
    return said


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the number of correct labels of each example, (n,)."""
    return (logits(outputs, targets).argmax(-1) == targets).flatten(1).sum(1)


def overlaps(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns for each example and class at how many positions it is both label and prediction, and then the sum of
    those where it is either: (n, 2 classes)."""
    said = logits(outputs, targets)
    n, classes = len(said), said.shape[-1]
    known, of = targets != models.UNLABELLED, torch.arange(n, device=targets.device) * classes
    places = of.view(-1, *[1] * (targets.dim() - 1)).expand_as(targets)
    said = said.argmax(-1)

    def counted(labels: Tensor, where: Tensor) -> Tensor:
        return torch.bincount((labels + places)[where], minlength=n * classes).view(n, classes)

    return torch.cat([counted(said, known & (said == targets)), counted(said, known) + counted(targets, known)], 1)


class Segmentation(Task):
    """The cross-entropy at each labelled position: outputs are logits (n, classes, *positions), targets classes
    (n, *positions), or UNLABELLED.  An example's loss is the mean over its labelled positions."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "iou": Metric(overlaps, measures.mean_iou),
        "accuracy": Metric(correct),
    }

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Flat, as in models.cross_entropy: the other form is not deterministic on every device.
        said = self.logits(outputs, targets).flatten(0, -2)
        losses = F.cross_entropy(said, targets.flatten(), reduction="none", ignore_index=models.UNLABELLED)
        return losses.view(len(targets), -1).sum(1) / self.counts(targets).clamp(min=1)

    def counts(self, targets: Tensor) -> Tensor:
        return models.labelled(targets)

    def logits(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return logits(outputs, targets)
