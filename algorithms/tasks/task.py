"""The interface of a task: the loss of each example, and the metrics of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # a replay reads these types and computes nothing, so it need not import torch
    from numpy import ndarray
    from torch import Tensor

TASKS: Mapping[str, str] = {
    "classification": "algorithms.tasks.classification:Classification",
    "language": "algorithms.tasks.classification:Language",
    "multilabel": "algorithms.tasks.multilabel:Multilabel",
    "regression": "algorithms.tasks.regression:Regression",
    "segmentation": "algorithms.tasks.segmentation:Segmentation",
}
# What scenarios and records need to know of them without importing torch.
METRICS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "f1", "auc"),
    "language": ("perplexity", "accuracy"),
    "multilabel": ("f1", "auc", "accuracy"),
    "regression": ("mse", "mae", "r2"),
    "segmentation": ("iou", "accuracy"),
}
LOWER = ("loss", "mae", "mse", "perplexity")  # better the lower they are
SHARES = ("accuracy", "auc", "f1", "iou")  # from 0 to 1


def mean(rows: ndarray, counts: ndarray) -> float | None:
    """Returns the mean over all labels of (n, 1) sums, one for each example; None without labels."""
    labels = counts.sum()
    return float(rows.sum() / labels) if labels else None


@dataclass(frozen=True)
class Metric:
    """A number that says how good a model is.  It accumulates over batches and is finished once.

    `rows` returns from outputs and targets what each example adds, (n,) or (n, k).  `finish` returns the value from the
    rows of all examples, float64 (n, k), and their numbers of labels (n,); None if it is not defined for them.
    """

    rows: Callable[[Any, Tensor], Tensor]
    finish: Callable[[ndarray, ndarray], float | None] = mean
    lower: bool = False  # True: the lower, the better

    def value(self, rows: ndarray, counts: ndarray) -> float | None:
        """Returns the value for these examples; None also for one that is not finite."""
        found = self.finish(rows, counts) if len(rows) else None
        return found if found is not None and isfinite(found) else None


class Task:
    """A loss, with metrics.  Calling it returns the loss of each example, (n,), as `device.loss` of an algorithm."""

    metrics: ClassVar[Mapping[str, Metric]] = {}  # by name; the first one decides, where a single number is needed

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Returns the loss of each example, (n,), from the network's outputs for n examples."""
        raise NotImplementedError

    def counts(self, targets: Tensor) -> Tensor:
        """Returns the number of labels of each example, int64 (n,), over which its loss is the mean."""
        return targets.new_ones(len(targets)).long()

    def logits(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ARG002  a subclass needs them
        """Returns the logits of the classes that the targets name, (*the targets' shape, classes).

        Raises ValueError for a task whose outputs are not such logits.
        """
        raise ValueError(f"{type(self).__name__} has no probabilities of classes")

    @property
    def of_classes(self) -> bool:
        """True if outputs are logits of classes, so that each example has probabilities of them."""
        return type(self).logits is not Task.logits


def logits_of(loss: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Returns the function from outputs and targets to the logits of classes: a task's own, or models.answers for any
    other loss."""
    if isinstance(loss, Task):
        return loss.logits
    from algorithms.models import answers  # imports torch

    return answers


def named(name: str) -> Task:
    """Returns the task of this name, or a user's own: `package.module:Task`, a class or an object.

    Raises TypeError for something else.
    """
    found = resolve_name(TASKS.get(name, name))
    made = found() if isinstance(found, type) else found
    if not isinstance(made, Task) or not made.metrics:
        raise TypeError(f"{name} must be a Task with `loss` and `metrics`, not {type(made).__name__}")
    return made
