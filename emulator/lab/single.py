"""Batches of one example: the model must take one, if a device's last batch has one, or the last that are evaluated.

A BatchNorm trains on one as in eval mode (algorithms/local.py, single_values); without running statistics it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from algorithms import models
from algorithms.local import PIECE, single_values
from devices.data.dataset import Dataset
from emulator.lab.lab import Held, Split, in_cycle
from scenarios.builders import plugins
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario


def check(scenario: Scenario, data: Dataset, splits: Mapping[int, Split]) -> None:
    """Raises BadScenario if there will be such a batch, and the model takes none."""
    for training, found in ((True, _in_training(scenario, splits)), (False, _in_evaluation(scenario, data, splits))):
        whose = next(found, None)
        refusal = whose and _refusal(scenario.model, data, training)
        if refusal:
            raise BadScenario(
                f"{scenario.model} must take a batch of one example, as the last one of {whose} is: {refusal}; "
                "BatchNorm takes one if it tracks running statistics",
                ("model",),
            )


def _in_training(scenario: Scenario, splits: Mapping[int, Split]) -> Iterator[str]:
    batches = sorted({plugins.training_of(entry, scenario.training).batch for entry in scenario.algorithms})
    for split in splits.values():
        for name, examples in _sizes(split.train):
            for batch in batches:
                if examples % batch == 1 % batch:
                    yield f"{name} ({examples} examples, batch {batch})"


def _in_evaluation(scenario: Scenario, data: Dataset, splits: Mapping[int, Split]) -> Iterator[str]:
    for split in splits.values():
        sizes = [("the test set", len(data.y_test))]
        sizes += [("the validation examples", _held(split.validation, cycle)) for cycle in range(data.cycles)]
        if scenario.evaluate.personalise_every != "never":
            sizes += [(f"the test examples of {name}", examples) for name, examples in _sizes(split.tests)]
        for what, examples in sizes:
            if examples % PIECE == 1:
                yield f"{what} ({examples}, evaluated {PIECE} at a time)"


def _held(held: Held, cycle: int) -> int:
    """Examples of all devices in this time slice."""
    return sum(len(in_cycle(held, name, cycle)) for name in sample(held))


def _sizes(held: Held) -> Iterator[tuple[str, int]]:
    """Devices, and how many examples each has in each time slice."""
    return ((name, len(part)) for name in sample(held) for part in held[name])


@torch.no_grad()
def _refusal(model: str, data: Dataset, training: bool) -> str | None:
    """Why the model does not take one example."""
    x, y = torch.tensor(data.x[:1]), torch.tensor(data.y[:1])
    module = models.build(model, 0, data.classes, data.x.shape[1:], data.text).train(training)
    try:
        with single_values(module):
            models.cross_entropy(module(x), y)
    except (Exception, SystemExit) as error:  # a user's own code may raise anything; its message is what helps
        return " ".join(f"{type(error).__name__}: {error}".split())
    return None
