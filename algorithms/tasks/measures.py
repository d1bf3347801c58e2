"""Metrics of many examples from what each of them adds: F1, AUC, mean IoU, R2, perplexity.

All are macro: the mean over classes (or labels, or outputs) of one against the rest.  They equal scikit-learn's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import ndarray
from scipy.stats import rankdata

LARGEST = 700.0  # a mean loss beyond it has a perplexity that no float holds


def f1_of_classes(rows: ndarray, counts: ndarray) -> float | None:  # noqa: ARG001
    """Returns the mean F1 over the classes that occur as a label or a prediction.

    `rows` (n, 2 p): p labels, then p predicted classes; labels below 0 do not count.
    """
    labels, said = _halves(rows.astype(np.int64))
    known = labels >= 0
    classes = int(rows.max()) + 1
    right = np.bincount(labels[known & (labels == said)], minlength=classes)
    both = np.bincount(labels[known], minlength=classes) + np.bincount(said[known], minlength=classes)
    seen = both > 0
    return float(np.mean(2 * right[seen] / both[seen])) if seen.any() else None


def f1_of_labels(rows: ndarray, counts: ndarray) -> float | None:  # noqa: ARG001
    """Returns the mean F1 over labels that each example has or has not; 0 for a label that is neither there nor
    predicted.  `rows` (n, 2 k): k labels, then k predictions, 0 or 1."""
    labels, said = np.split(rows, 2, axis=1)
    both = (labels + said).sum(0)
    return float(np.mean(2 * (labels * said).sum(0) / np.maximum(both, 1)))


def auc_of_classes(rows: ndarray, counts: ndarray) -> float | None:
    """Returns the mean area under the ROC curve over classes, each against the rest, without those that no example or
    each one has.  `rows` (n, 1 + k): a label, then the probabilities of k classes."""
    labels = rows[:, :1] == np.arange(rows.shape[1] - 1)
    return auc_of_labels(np.concatenate([labels, rows[:, 1:]], axis=1), counts)


def auc_of_labels(rows: ndarray, counts: ndarray) -> float | None:  # noqa: ARG001
    """Returns the mean area under the ROC curve over labels, without those that no example or each one has; None
    without any.  `rows` (n, 2 k): k labels, 0 or 1, then k scores.

    The area is the share of pairs of examples, one with the label and one without, that the scores order rightly; ties
    count half (Mann and Whitney's U).
    """
    labels, scores = np.split(rows, 2, axis=1)
    having = labels.sum(0)
    others = len(labels) - having
    told = having * others > 0
    if not told.any() or not np.isfinite(scores).all():
        return None
    ranks = (rankdata(scores[:, told], axis=0) * labels[:, told]).sum(0)
    return float(np.mean((ranks - having[told] * (having[told] + 1) / 2) / (having * others)[told]))


def mean_iou(rows: ndarray, counts: ndarray) -> float | None:  # noqa: ARG001
    """Returns the mean over classes, of those that occur, of intersection over union.

    `rows` (n, 2 k): for each of k classes the positions where it is both label and prediction, then the sum of those
    where it is the label and those where it is predicted.
    """
    both, either = np.split(rows.sum(0), 2)
    seen = either > 0
    return float(np.mean(both[seen] / (either - both)[seen])) if seen.any() else None


def r2(rows: ndarray, counts: ndarray) -> float | None:  # noqa: ARG001
    """Returns the mean over outputs of the coefficient of determination: 1 - squared errors over those of the targets'
    mean; of constant targets 1 if they are met, else 0.  None for fewer than 2 examples.

    `rows` (n, 2 k): k targets, then k outputs.
    """
    if len(rows) < 2:
        return None
    targets, outputs = np.split(rows, 2, axis=1)
    errors, around = ((targets - outputs) ** 2).sum(0), ((targets - targets.mean(0)) ** 2).sum(0)
    constant = np.where(errors == 0, 1.0, 0.0)
    return float(np.mean(np.where(around > 0, 1 - errors / np.where(around > 0, around, 1.0), constant)))


def perplexity(rows: ndarray, counts: ndarray) -> float | None:
    """Returns exp of the mean loss of a label; None if no float holds it, or without labels.

    `rows` (n, 1): the mean loss of each example.
    """
    labels = counts.sum()
    mean = math.fsum(rows[:, 0] * counts) / labels if labels else math.inf
    return math.exp(mean) if mean < LARGEST else None


def _halves(rows: ndarray) -> tuple[ndarray, ndarray]:
    """Returns the first and the second half of each row, all rows one after another."""
    first, second = np.split(rows, 2, axis=1)
    return first.ravel(), second.ravel()
