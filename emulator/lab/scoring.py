"""Scores models on examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from algorithms.algorithm import Tensors
from emulator.lab.lab import CPU, Lab
from emulator.record.run import Run

if TYPE_CHECKING:
    from torch import Tensor

MAPS = 3  # axes of targets with a class at each place of an image, whose outputs are too large to keep many


@dataclass(frozen=True)
class Score:
    """A model's score on some examples: the value of the task's first metric, None if it is not defined for them; the
    number of labels, and the sum of their losses."""

    value: float | None
    counted: int
    loss: float


@dataclass(frozen=True)
class Scores:
    """A model's scores on n examples, each with one label or with several."""

    rows: Mapping[str, ndarray]  # by metric: (n, k) float64, what each example adds to it
    counted: ndarray  # (n,) int64, labels
    loss: ndarray  # (n,) float64, sum of the losses of the labels

    @classmethod
    def joined(cls, parts: Sequence[Scores], lab: Lab) -> Scores:
        """Returns the scores of several blocks of examples together."""
        if not parts:
            nothing = np.zeros(0, np.int64), np.zeros(0)
            return cls({name: np.zeros((0, 1)) for name in lab.metrics}, *nothing)
        rows = {name: np.concatenate([part.rows[name] for part in parts]) for name in lab.metrics}
        return cls(rows, *(np.concatenate([getattr(part, each) for part in parts]) for each in ("counted", "loss")))

    def __getitem__(self, some: slice | ndarray) -> Scores:
        """Returns the scores of these examples."""
        return Scores({name: rows[some] for name, rows in self.rows.items()}, self.counted[some], self.loss[some])

    def value(self, lab: Lab, metric: str) -> float | None:
        """Returns the value of a metric of the lab's task over all these examples; None if it is not defined."""
        return lab.task.metrics[metric].value(self.rows[metric], self.counted)

    def summed(self, lab: Lab) -> Score:
        return Score(self.value(lab, lab.metrics[0]), int(self.counted.sum()), float(self.loss.sum()))


def on_shards(lab: Lab, run: Run, round: int, models: Sequence[tuple[str, Tensors]]) -> list[Sequence[Score]]:
    """Scores each device's model on the device's own test examples: those of this round's time slice, and of the next
    if there is one.  For a model {} the scores are ()."""
    shards = [test_shards(lab, run, device, round) for device, _ in models]
    weights = [model for _, model in models]
    if lab.on != CPU and len(weights) > 1 and all(weights):
        slices = [_at_once(lab, weights, of_slice) for of_slice in zip(*shards, strict=True)]
        return list(zip(*slices, strict=True))
    return [
        [score(lab, model, "test", shard).summed(lab) for shard in own] if model else ()
        for model, own in zip(weights, shards, strict=True)
    ]


def _at_once(lab: Lab, models: Sequence[Tensors], shards: Sequence[ndarray]) -> list[Score]:
    """Scores each model of a stack on its own shard of the test set, all together on the GPU."""
    from algorithms.training import stack_model

    x, y = zip(*lab.shards("test", shards, lab.on), strict=True)
    scores = _scores(lab, stack_model.outputs(lab.module_on(lab.on), models, x), y)
    ends = np.cumsum([0, *map(len, shards)])
    return [scores[start:end].summed(lab) for start, end in pairwise(ends)]


def test_shards(lab: Lab, run: Run, device: str, round: int) -> Sequence[ndarray]:
    """Returns the indices of the device's test examples in the round's time slice, and in the next slice if there is
    one."""
    slices, cycle = lab.splits[run.seed].tests[device], lab.cycle(run.label, round)
    return slices[min(cycle, len(slices) - 1) :][:2]


def score(lab: Lab, weights: Tensors, part: str, indices: ndarray) -> Scores:
    """Returns the scores of a model on the examples at these indices, of `part` as in Lab.examples."""
    from algorithms.training.local import PIECE, outputs

    if not len(indices):
        return Scores.joined([], lab)
    held = [indices] if lab.data.y.ndim < MAPS else np.split(indices, range(PIECE, len(indices), PIECE))
    found = []
    for some in held:
        x, labels = lab.examples(part, some, lab.on)
        found.append(_scores(lab, [outputs(lab.module_on(lab.on), weights, x)], [labels]))
    return Scores.joined(found, lab)


def _scores(lab: Lab, said: Sequence[Any], labels: Sequence[Tensor]) -> Scores:
    """Returns the scores of outputs for n examples, of one model or of several, one after the other."""
    from torch import cat

    from algorithms.training.tensors import joined

    outputs, y = joined(said), cat(list(labels))
    counted = lab.task.counts(y)
    loss = lab.task(outputs, y).double() * counted
    found = {name: lab.task.metrics[name].rows(outputs, y) for name in lab.metrics}
    rows = {name: each.double().unsqueeze(-1).flatten(1).cpu().numpy() for name, each in found.items()}
    return Scores(rows, counted.cpu().numpy(), loss.cpu().numpy())
