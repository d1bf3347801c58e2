"""Checks that the model accepts a batch of one example, if the last batch of a device or of an evaluation has only one.

A BatchNorm trains on one example as in eval mode (algorithms/training/local.py, single_values); without running
statistics it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import torch

from algorithms import models
from algorithms.algorithm import Work
from algorithms.training.local import PIECE, single_values
from emulator.lab.budget import load_of, steps_of
from emulator.lab.faulty import Faulty
from emulator.lab.lab import Held, Lab, in_cycle
from scenarios.builders.roster import sample
from scenarios.schema.scenario import Scenario
from scenarios.text.faults import BadScenario

ROUNDS = 100  # rounds within which each kind of round occurs


def check(scenario: Scenario, lab: Lab) -> None:
    """Raises BadScenario if some device, the server or an evaluation will have a batch of one example, and the model
    does not accept one."""
    for training, found in ((True, _in_training(scenario, lab)), (False, _in_evaluation(scenario, lab))):
        whose = next(found, None)
        refusal = whose and _refusal(lab, training)
        if refusal:
            raise BadScenario(
                f"{lab.model.name} must take a batch of one example, as the last one of {whose} is: {refusal}; "
                "BatchNorm takes one if it tracks running statistics",
                ("model",),
            )


def _in_training(scenario: Scenario, lab: Lab) -> Iterator[str]:
    """Yields descriptions of the parties (devices, the server) whose declared work has a batch of one example.  Skips
    an algorithm that cannot declare its work, because it fails in its runs."""
    for (label, algorithm), (seed, split) in product(lab.algorithms.items(), lab.splits.items()):
        with suppress(Faulty):
            rounds = {algorithm.round_kind(each): each for each in range(min(scenario.rounds.max, ROUNDS))}
            timed = lab.tells_steps(label)  # then a device's steps depend on its speed, too
            alike = {(size, lab.fleet[name].profile.name if timed else ""): name for name, size in _sizes(split.train)}
            for round in rounds.values():
                load = partial(load_of, lab, label, seed, round, kinds=algorithm.downloads)
                for (examples, _), name in alike.items():
                    given = load(examples)
                    given = replace(given, steps=steps_of(lab, label, name, given))
                    yield from _of_one(name, algorithm.device_work(given))
                server = load(len(split.proxy), replies=lab.asked[label])
                yield from _of_one("the server", (*algorithm.request_work(server), *algorithm.combine_work(server)))


def _of_one(name: str, work: Work) -> Iterator[str]:
    """Yields the party's description for each training phase whose last batch has one example."""
    for phase in work:
        if phase.kind == "batch" and phase.examples and phase.examples % phase.batch == 1 % phase.batch:
            yield f"{name} ({phase.examples:g} examples, batch {phase.batch})"


def _in_evaluation(scenario: Scenario, lab: Lab) -> Iterator[str]:
    data = lab.data
    for split in lab.splits.values():
        sizes = [("the test set", len(data.y_test))]
        sizes += [("the validation examples", _held(split.validation, cycle)) for cycle in range(data.cycles)]
        if scenario.evaluate.personalise_every != "never":
            sizes += [(f"the test examples of {name}", examples) for name, examples in _sizes(split.tests)]
        for what, examples in sizes:
            if examples % PIECE == 1:
                yield f"{what} ({examples}, evaluated {PIECE} at a time)"


def _held(held: Held, cycle: int) -> int:
    """Returns the number of examples of all devices in this time slice."""
    return sum(len(in_cycle(held, name, cycle)) for name in sample(held))


def _sizes(held: Held) -> Iterator[tuple[str, int]]:
    """Yields each device with its number of examples in each time slice."""
    return ((name, len(part)) for name in sample(held) for part in held[name])


@torch.no_grad()
def _refusal(lab: Lab, training: bool) -> str | None:
    """Returns the reason why the model does not accept one example; None if it does."""
    x, y = lab.examples("train", np.arange(1))
    module = models.build(lab.model, 0, *lab.data.form).train(training)
    try:
        with single_values(module):
            lab.task(module(x), y)
    except (Exception, SystemExit) as error:  # a user's code may raise anything; its message helps the user
        return " ".join(f"{type(error).__name__}: {error}".split())
    return None
