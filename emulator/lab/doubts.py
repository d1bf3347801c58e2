"""One-line warnings about a scenario's model, data and split that are usable but odd.

`check` prints all of them; `compare` prints those on the model before training, and those on the data with the results.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from devices.data.dataset import Dataset
from emulator.lab.lab import Lab
from scenarios.schema.scenario import Split

NAMED = 5  # classes
FITS = 0.05  # alpha, below which devices of equal size seldom get what they draw
EVENER = 1.25  # times the classes of Dir(alpha), from which a warning is given


def about_data(lab: Lab, split: Split) -> Iterator[str]:
    """Yields sentences on labels: a single class, classes that are not tested, a Dirichlet split that is more even than
    its law."""
    data = lab.data
    if data.text or data.y.ndim > 1 or not len(data.y) or data.y.dtype != np.int64:
        return
    trained, tested = (np.bincount(y, minlength=data.classes) > 0 for y in (data.y, data.y_test))
    if trained.sum() == 1:
        yield f"all training examples of {data.name} have the label {trained.argmax()}: there is nothing to tell apart"
    missing = np.flatnonzero(trained & ~tested).tolist()
    if missing and len(data.y_test):
        named = ", ".join([*map(str, missing[:NAMED]), *(["..."] if len(missing) > NAMED else [])])
        yield (
            f"{len(missing)} of {trained.sum()} classes of {data.name} have no test example ({named}): accuracies do "
            "not tell whether they are learned"
        )
    if split.kind == "dirichlet" and split.alpha and split.alpha < FITS:
        yield from _evener(lab, data, split.alpha, int(trained.sum()))


def _evener(lab: Lab, data: Dataset, alpha: float, classes: int) -> Iterator[str]:
    """Yields a warning if devices hold more classes than Dir(alpha) has: 1 / E[sum of q^2] = (classes alpha + 1)/(alpha
    + 1), with q a device's shares of the classes.

    Devices of equal size share the examples of each class.  With few devices that draw one class each, some classes are
    drawn by too many and others by none; the devices that get too little then share the classes that nobody drew.
    """
    squares = []
    for each in lab.splits.values():
        for slices in each.train.values():
            counts = np.bincount(data.y[np.concatenate(slices)], minlength=data.classes)
            squares.append(float((counts**2).sum() / counts.sum() ** 2))
    law, found = (classes * alpha + 1) / (alpha + 1), 1 / float(np.mean(squares))
    if found > EVENER * law:
        fewest = -(-classes // len(lab.fleet))
        yield (
            f"the split is evener than Dir({alpha:g}): a device holds {found:.1f} effective classes, while the "
            f"distribution has {law:.1f}, because {len(lab.fleet)} devices share all examples of all classes; "
            f"split: {{kind: classes, each: {fewest}}} gives each as few as can be"
        )


def about_model(lab: Lab) -> Iterator[str]:
    """Yields sentences on outputs that are not logits, on weights that nobody has trained, and on data that cannot test
    the model."""
    if ":" in lab.model.name and lab.task.of_classes and _ends_in_softmax(lab):
        yield (
            f"the outputs of {lab.model.name} are >= 0 and sum to 1, as after a softmax; training takes the "
            "cross-entropy of logits, which has a softmax of its own, so the model should end before it"
        )
    if lab.model.train and not lab.model.weights and ":" not in lab.model.name:
        yield f"the frozen weights of {lab.model.name} are random, and stay so; model.weights names a file of others"
    if lab.model.keep and len(lab.data.y_test):
        yield (
            f"{lab.metrics[0]} is of the server's model, in which {lab.model.keep!r}, kept by devices, has its first "
            "values; `personalised` is of each device's own model (evaluate.personalise_every)"
        )
    if not len(lab.data.y_test):
        yield f"{lab.data.name} has no test examples: the only accuracy is on validation data (data.validation)"


def _ends_in_softmax(lab: Lab) -> bool:
    """Returns true if the outputs for two examples look like probabilities of classes, in train mode or in eval
    mode."""
    import torch

    from algorithms import own
    from algorithms.training.tensors import as_input

    network, x, y = lab.network(0), as_input(torch.tensor(lab.data.x[:2])), torch.tensor(lab.data.y[:2])
    with torch.no_grad():
        return any(own.probabilities(lab.task.logits(network.train(how)(x), y)) for how in (False, True))
