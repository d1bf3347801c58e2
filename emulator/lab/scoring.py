"""Scores models on examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from algorithms.algorithm import Tensors
from emulator.lab.lab import CPU, Lab
from emulator.record.run import Run

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hits:
    """A model's score on some examples: correct labels, all labels, and the sum of their losses."""

    correct: int
    counted: int
    loss: float


@dataclass(frozen=True)
class Scores:
    """A model's scores on one block of examples, each with one label or with one for each position."""

    correct: ndarray  # (n,) int64, correct labels
    counted: ndarray  # (n,) int64, labels
    loss: ndarray  # (n,) float64, sum of the losses of the labels

    def __getitem__(self, some: slice | ndarray) -> Scores:
        """Returns the scores of these examples."""
        return Scores(self.correct[some], self.counted[some], self.loss[some])


def on_shards(lab: Lab, run: Run, round: int, models: Sequence[tuple[str, Tensors]]) -> list[Sequence[Hits]]:
    """Scores each device's model on the device's own test examples: those of this round's time slice, and of the next
    if there is one.  For a model {} the scores are ()."""
    shards = [test_shards(lab, run, device, round) for device, _ in models]
    weights = [model for _, model in models]
    if lab.on != CPU and len(weights) > 1 and all(weights):
        slices = [_at_once(lab, weights, of_slice) for of_slice in zip(*shards, strict=True)]
        return list(zip(*slices, strict=True))
    return [
        [hits(score(lab, model, "test", shard)) for shard in own] if model else ()
        for model, own in zip(weights, shards, strict=True)
    ]


def _at_once(lab: Lab, models: Sequence[Tensors], shards: Sequence[ndarray]) -> list[Hits]:
    """Scores each model of a stack on its own shard of the test set, all together on the GPU."""
    from algorithms.training import stack_model

    x, y = zip(*lab.shards("test", shards, lab.on), strict=True)
    scores = _scores(stack_model.outputs(lab.module_on(lab.on), models, x), y)
    ends = np.cumsum([0, *map(len, shards)])
    return [hits(scores[start:end]) for start, end in pairwise(ends)]


def test_shards(lab: Lab, run: Run, device: str, round: int) -> Sequence[ndarray]:
    """Returns the indices of the device's test examples in the round's time slice, and in the next slice if there is
    one."""
    slices, cycle = lab.splits[run.seed].tests[device], lab.cycle(run.label, round)
    return slices[min(cycle, len(slices) - 1) :][:2]


def hits(scores: Scores) -> Hits:
    return Hits(int(scores.correct.sum()), int(scores.counted.sum()), float(scores.loss.sum()))


def score(lab: Lab, weights: Tensors, part: str, indices: ndarray) -> Scores:
    """Returns the scores of a model on the examples at these indices, of `part` as in Lab.examples."""
    from algorithms.training.local import outputs

    if not len(indices):
        return Scores(*(np.zeros(0, kind) for kind in (np.int64, np.int64, np.float64)))
    x, labels = lab.examples(part, indices, lab.on)
    return _scores([outputs(lab.module_on(lab.on), weights, x)], [labels])


def _scores(said: Sequence[Tensor], labels: Sequence[Tensor]) -> Scores:
    """Returns the scores of outputs (n, classes) or (n, positions, classes), of one model or of several, one after the
    other."""
    from torch import cat

    from algorithms import models

    outputs, y = cat(list(said)), cat(list(labels))
    correct, counted = models.hits(outputs, y)
    loss = models.cross_entropy(outputs, y).double() * counted
    return Scores(correct.cpu().numpy(), counted.cpu().numpy(), loss.cpu().numpy())
