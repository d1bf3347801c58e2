"""Data, networks and a task of one's own, for tests of tasks: small, and easy to learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.tasks.task import Metric, Task
from devices.data.dataset import Dataset

TRAIN, ALL = 160, 200


def _split(name: str, x: Any, y: np.ndarray, classes: int, **more: Any) -> Dataset:
    def parts(values: Any) -> tuple[Any, Any]:
        if isinstance(values, dict):
            return {k: v[:TRAIN] for k, v in values.items()}, {k: v[TRAIN:] for k, v in values.items()}
        return values[:TRAIN], values[TRAIN:]

    (x, x_test), (y, y_test) = parts(x), parts(y)
    return Dataset(name, x, y, x_test, y_test, classes, **more)


def plane(outputs: int = 1) -> Dataset:
    """Numbers that are a linear function of the inputs."""
    random = np.random.default_rng(1)
    x = random.normal(size=(ALL, 5)).astype(np.float32)
    return _split("plane", x, (x @ random.normal(size=(5, outputs))).astype(np.float32), outputs)


def tags() -> Dataset:
    """Three labels, each on one side of a plane; strata are their combinations."""
    random = np.random.default_rng(2)
    x = random.normal(size=(ALL, 5)).astype(np.float32)
    y = (x @ random.normal(size=(5, 3)) > 0).astype(np.int8)
    return _split("tags", x, y, 3, strata=y[:TRAIN] @ np.array([1, 2, 4]))


def spots() -> Dataset:
    """Images of bytes whose bright positions are class 1; the first row has no labels."""
    x = np.random.default_rng(3).integers(0, 256, (ALL, 1, 6, 6)).astype(np.uint8)
    y = (x[:, 0] > 127).astype(np.int64)
    y[:, 0] = -1
    return _split("spots", x, y, 2)


def counting() -> Dataset:
    """Texts that count modulo 7; the last positions of every second one are padding."""
    start = np.random.default_rng(4).integers(0, 7, (ALL, 1))
    tokens = (start + np.arange(6)) % 7
    y = tokens[:, 1:].copy()
    y[::2, 3:] = -1
    return _split("counting", tokens[:, :-1], y, 7)


def pairs() -> Dataset:
    """Two inputs, numbers and tokens; both count for the target."""
    random = np.random.default_rng(5)
    inputs = {"dense": random.normal(size=(ALL, 4)).astype(np.float32), "words": random.integers(0, 9, (ALL, 2))}
    y = inputs["dense"].sum(1) + inputs["words"].sum(1) / 9
    return _split("pairs", inputs, y.astype(np.float64), 1)


def dense(classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, classes))


def pointwise(classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, classes, 1))


class NextOne(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(classes, 8), nn.Linear(8, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        said: Tensor = self.out(self.words(tokens))
        return said


class Two(nn.Module):
    """Mean and logarithm of the spread of a number, from two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden = nn.Embedding(9, 3), nn.Linear(10, 8)
        self.mean, self.spread = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, dense: Tensor, words: Tensor) -> dict[str, Tensor]:
        hidden = self.hidden(torch.cat([dense, self.words(words).flatten(1)], 1)).relu()
        return {"mean": self.mean(hidden).squeeze(1), "spread": self.spread(hidden).squeeze(1)}


def off(outputs: Mapping[str, Tensor], targets: Tensor) -> Tensor:
    return (outputs["mean"] - targets).abs()


class Gaussian(Task):
    """The negative log-likelihood of a normal distribution, without its constant."""

    metrics: ClassVar[Mapping[str, Metric]] = {"off": Metric(off, lower=True)}

    def loss(self, outputs: Mapping[str, Tensor], targets: Tensor) -> Tensor:
        spread = outputs["spread"].clamp(-3, 3)
        return spread + ((targets.to(spread.dtype) - outputs["mean"]) / spread.exp()).square() / 2
