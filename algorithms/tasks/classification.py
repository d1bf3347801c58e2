"""Tasks whose targets are classes: one for each example, or one for each position of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algorithms import models
from algorithms.tasks import measures
from algorithms.tasks.task import Metric, Task


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the number of correct labels of each example, (n,)."""
    return models.hits(outputs, targets)[0]


def predicted(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the labels of each example and the predicted classes, (n, 2 positions)."""
    said = models.answers(outputs, targets).argmax(-1)
    return torch.cat([targets.unsqueeze(-1).flatten(1), said.unsqueeze(-1).flatten(1)], 1)


def probabilities(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the label of each example and the probabilities of all classes, (n, 1 + classes).  Raises ValueError for
    more than one label."""
    if targets.dim() > 1:
        raise ValueError("auc needs one label for each example, and the targets have one for each position")
    shares = models.answers(outputs, targets).double().softmax(-1)
    return torch.cat([targets.unsqueeze(1), shares], 1)


class Classification(Task):
    """The cross-entropy of logits (models.cross_entropy)."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "accuracy": Metric(correct),
        "f1": Metric(predicted, measures.f1_of_classes),
        "auc": Metric(probabilities, measures.auc_of_classes),
    }

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return models.cross_entropy(outputs, targets)

    def counts(self, targets: Tensor) -> Tensor:
        return models.labelled(targets)

    def logits(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return models.answers(outputs, targets)


class Language(Classification):
    """The cross-entropy of the next token, per token: one label at each position; UNLABELLED ones, as of padding, do
    not count."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "perplexity": Metric(models.cross_entropy, measures.perplexity, lower=True),
        "accuracy": Metric(correct),
    }

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.dim() != 2:
            raise ValueError(f"targets have shape {tuple(targets.shape)}; language needs a token at each position")
        return super().loss(outputs, targets)
