"""Losses and metrics of all tasks, against scikit-learn, torch's own losses, and numbers by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle
from torch import Tensor
from torch.nn import functional as F

from algorithms.tasks.task import LOWER, METRICS, TASKS, Metric, Task, named
from tests.all_of import all_of

EXACT = 1e-12
N = 60


def drawing(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def logits(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(drawing(seed).normal(size=shape).round(1).astype(np.float32))  # rounded: so some are equal


def labels(seed: int, high: int, *shape: int) -> Tensor:
    return torch.from_numpy(drawing(seed + 100).integers(0, high, shape))


def value(task: str, metric: str, outputs: Any, targets: Tensor, pieces: int = 3) -> float | None:
    """The metric from several batches, which are joined as the emulator joins them."""
    it, size = named(task), math.ceil(len(targets) / pieces)
    each = [(outputs[k : k + size], targets[k : k + size]) for k in range(0, len(targets), size)]
    rows = [it.metrics[metric].rows(*some).double().unsqueeze(-1).flatten(1).numpy() for some in each]
    return it.metrics[metric].value(np.concatenate(rows), it.counts(targets).numpy())


@pytest.mark.parametrize("name", TASKS)
def test_what_scenarios_know_of_a_task_is_what_it_says(name: str) -> None:
    found = named(name).metrics
    assert tuple(found) == METRICS[name]
    assert all_of(metric.lower == (each in LOWER) for each, metric in found.items())


# ---- against scikit-learn


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 5])
def test_classification_measures_what_scikit_learn_does(classes: int, seed: int) -> None:
    outputs, y = logits(seed, N, classes), labels(seed, classes, N)
    said, shares = outputs.argmax(1).numpy(), outputs.double().softmax(1).numpy()
    assert value("classification", "accuracy", outputs, y) == pytest.approx(oracle.accuracy_score(y, said), abs=EXACT)
    assert value("classification", "f1", outputs, y) == pytest.approx(
        oracle.f1_score(y, said, average="macro"), abs=EXACT
    )
    wanted = [oracle.roc_auc_score(y.numpy() == c, shares[:, c]) for c in range(classes)]
    assert value("classification", "auc", outputs, y) == pytest.approx(np.mean(wanted), abs=EXACT)


def test_a_class_that_nobody_has_and_nobody_is_said_to_have_does_not_count() -> None:
    outputs, y = logits(1, N, 6)[:, :4], labels(1, 3, N)
    padded = torch.cat([outputs, torch.full((N, 2), -50.0)], 1)
    assert value("classification", "f1", padded, y) == value("classification", "f1", outputs, y)
    assert value("classification", "auc", padded, y) == pytest.approx(
        np.mean([oracle.roc_auc_score(y.numpy() == c, outputs.double().softmax(1)[:, c]) for c in range(3)]), abs=EXACT
    )


def test_the_area_under_the_curve_of_a_single_class_is_not_defined() -> None:
    assert value("classification", "auc", logits(1, 4, 3), torch.zeros(4, dtype=torch.long)) is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64])
def test_multilabel_measures_what_scikit_learn_does(dtype: torch.dtype) -> None:
    outputs, y = logits(2, N, 4), labels(2, 2, N, 4).to(dtype)
    said, truth = (outputs > 0).numpy(), y.numpy().astype(int)
    wanted = {
        "f1": oracle.f1_score(truth, said, average="macro", zero_division=0),
        "auc": oracle.roc_auc_score(truth, outputs.numpy(), average="macro"),
        "accuracy": (truth == said).mean(),
    }
    for metric, right in wanted.items():
        assert value("multilabel", metric, outputs, y) == pytest.approx(right, abs=EXACT)
    loss = F.binary_cross_entropy_with_logits(outputs, y.float(), reduction="none").mean(1)
    assert torch.equal(named("multilabel")(outputs, y), loss)


def test_a_label_that_is_neither_there_nor_predicted_has_an_f1_of_0() -> None:
    outputs, y = torch.tensor([[1.0, -1.0], [1.0, -1.0]]), torch.tensor([[1, 0], [1, 0]])
    assert value("multilabel", "f1", outputs, y) == 0.5


@pytest.mark.parametrize("shape", [(N,), (N, 1), (N, 3)])
def test_regression_measures_what_scikit_learn_does(shape: tuple[int, ...]) -> None:
    outputs, y = logits(3, *shape).double(), logits(4, *shape).double()
    for metric, right in {
        "mse": oracle.mean_squared_error(y, outputs),
        "mae": oracle.mean_absolute_error(y, outputs),
        "r2": oracle.r2_score(y, outputs),
    }.items():
        assert value("regression", metric, outputs, y) == pytest.approx(right, abs=EXACT)


def test_constant_targets_have_an_r2_as_in_scikit_learn() -> None:
    y, others = torch.ones(4), torch.tensor([1.0, 1.0, 1.0, 2.0])
    for said in (y, others):
        assert value("regression", "r2", said, y) == oracle.r2_score(y, said)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_iou_is_scikit_learn_s_jaccard_score(seed: int) -> None:
    outputs, y = logits(seed, 6, 4, 5, 3), labels(seed, 4, 6, 5, 3)
    y[0, :2] = -1
    known = y.flatten() >= 0
    said = outputs.argmax(1).flatten()[known]
    wanted = oracle.jaccard_score(y.flatten()[known], said, average="macro")
    assert value("segmentation", "iou", outputs, y) == pytest.approx(wanted, abs=EXACT)
    accuracy = oracle.accuracy_score(y.flatten()[known], said)
    assert value("segmentation", "accuracy", outputs, y) == pytest.approx(accuracy, abs=EXACT)


# ---- losses


def test_an_image_s_loss_is_the_mean_over_its_labelled_positions() -> None:
    outputs, y = logits(5, 3, 4, 5, 2), labels(5, 4, 3, 5, 2)
    y[1, 0], y[2] = -1, -1
    losses = named("segmentation")(outputs, y)
    wanted = [F.cross_entropy(outputs[k : k + 1], y[k : k + 1], ignore_index=-1) for k in (0, 1)]
    assert losses[:2].tolist() == pytest.approx([float(each) for each in wanted], rel=1e-6)
    assert losses[2] == 0  # it has no label at all


def test_perplexity_is_exp_of_the_mean_loss_of_a_token() -> None:
    outputs, y = logits(6, 4, 5, 7), labels(6, 7, 4, 5)
    y[0, 3:] = -1
    mean = F.cross_entropy(outputs.flatten(0, 1).double(), y.flatten(), ignore_index=-1)
    assert value("language", "perplexity", outputs, y) == pytest.approx(math.exp(mean), rel=1e-6)
    assert value("language", "perplexity", torch.zeros(4, 5, 7), y) == pytest.approx(7, rel=1e-6)  # a guess


def test_a_loss_that_no_float_s_exponential_holds_has_no_perplexity() -> None:
    outputs = torch.tensor([[[0.0, 1e4]]])
    assert value("language", "perplexity", outputs, torch.tensor([[0]])) is None


@pytest.mark.parametrize(
    ("task", "outputs", "targets", "said"),
    [
        ("regression", torch.zeros(2, 1), torch.zeros(2, dtype=torch.long), "targets are torch.int64"),
        ("regression", torch.zeros(2, 3), torch.zeros(2), r"outputs have shape \(2, 3\) and targets \(2,\)"),
        ("multilabel", torch.zeros(2, 3), torch.zeros(2), r"both must be \(n, labels\)"),
        ("segmentation", torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), r"\(n, classes, height, width\)"),
        ("language", torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), "a token at each position"),
    ],
)
def test_outputs_and_targets_that_do_not_fit_are_refused(
    task: str, outputs: Tensor, targets: Tensor, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        named(task)(outputs, targets)


# ---- a user's own


class Pinball(Task):
    metrics = {"pinball": Metric(lambda outputs, targets: (outputs - targets).abs(), lower=True)}  # noqa: RUF012

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        found: Tensor = (outputs - targets).abs()
        return found


def test_an_own_task_may_be_a_class_or_an_object() -> None:
    path = f"{__name__}:Pinball"
    assert type(named(path)).__name__ == "Pinball"
    assert named(path)(torch.ones(3), torch.zeros(3)).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="must be a Task with `loss` and `metrics`"):
        named(f"{__name__}:value")


def test_a_value_that_is_not_finite_is_not_defined() -> None:
    rows: Callable[[float], np.ndarray] = lambda each: np.array([[each]])  # noqa: E731
    metric = named("regression").metrics["mse"]
    assert metric.value(rows(math.inf), np.ones(1)) is None
    assert metric.value(rows(0.5), np.ones(1)) == 0.5
    assert metric.value(np.zeros((0, 1)), np.ones(0)) is None
