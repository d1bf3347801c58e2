"""A lab of three devices with a few examples each, and arguments for each of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from algorithms.algorithm import Training
from algorithms.fedavg import FedAvg
from algorithms.networks import Network
from devices.data.dataset import Dataset
from emulator.lab.guarded import Guarded
from emulator.lab.jobs import Opening, combine, evaluate, request, start
from emulator.lab.lab import Division, Lab
from emulator.lab.training import personalise_stack, train, train_stack
from emulator.ledger.key import Keys
from emulator.messages.store import Ref, Stored
from emulator.record.run import Run

RUN = Run("mine", 1)
ROUND = 3
TRAINING = Training(epochs=1, batch=4, lr=0.1, momentum=0.5)
NAMES = ("a", "b", "c")
NOBODY: Any = None


def ref(name: str) -> Ref:
    return Ref.of(name.encode())


STATE, DOWN, MEMORY, WEIGHTS, UP_A, UP_B = map(ref, ("state", "down", "memory", "weights", "up a", "up b"))
REPLIES = {"a": (UP_A, 5), "b": (UP_B, 7)}

# The arguments of `submit` after the job. A job occurs twice if its arguments change what it reads.
JOBS: Mapping[str, tuple[Any, ...]] = {
    "start": (start, RUN),
    "request": (request, RUN, ROUND, STATE, ("a", "b")),
    "train": (train, RUN, "a", ROUND, DOWN, MEMORY, False),
    "measured": (train, RUN, "a", ROUND, DOWN, MEMORY, True),
    "stack": (train_stack, RUN, ROUND, ("a",), (DOWN,), (MEMORY,), False),
    "personalise": (personalise_stack, RUN, ROUND, ("a",), (DOWN,), (MEMORY,)),
    "combine": (combine, RUN, ROUND, STATE, REPLIES, DOWN),
    "test": (evaluate, RUN, WEIGHTS, "test", 0, 0),
    "validation": (evaluate, RUN, WEIGHTS, "validation", 0, 0),
}


def dataset() -> Dataset:
    rng = np.random.default_rng(5)
    x, y = rng.random((40, 1, 8, 8), dtype=np.float32), rng.integers(0, 10, 40)
    return Dataset("some", x[:30], y[:30], x[30:], y[30:], 10)


def split() -> Division:
    held = {name: (np.arange(8) + 8 * at, np.arange(8) + 8 * at + 1) for at, name in enumerate(NAMES)}
    tests = {name: (np.arange(3) + 3 * at, np.arange(2) + 3 * at) for at, name in enumerate(NAMES)}
    validation = {name: (np.array([24 + at]),) for at, name in enumerate(NAMES)}
    return Division(held, validation, tests, proxy=np.arange(27, 30))


def lab(algorithm: Any = None, label: str = RUN.label, **changes: Any) -> Lab:
    """A lab in which all devices and links are None: no job may read them."""
    fleet = dict.fromkeys(NAMES, NOBODY)
    algorithms = {label: Guarded(label, FedAvg(TRAINING) if algorithm is None else algorithm)}
    found = Lab(Network("digits-cnn"), dataset(), {1: split(), 2: split()}, algorithms, fleet, {}, NOBODY, NOBODY)
    return replace(found, **changes)


def touched(array: ndarray, at: int = 0) -> ndarray:
    """The array with one number another."""
    found = array.copy()
    found.reshape(-1)[at] += 1
    return found


def opening(message: Ref, *kinds: str) -> Opening:
    """A job's result from which keys learn of which kinds a message is."""
    return Opening(Stored(message, {**dict.fromkeys(kinds, 1), "frame": 1}), {})


SERVER = {"start", "request", "combine"}
SHARD = {"measured", "personalise"}  # on the device's own test shard
DEVICE = {"train", "stack", *SHARD}
RUNS = SERVER | DEVICE
EVALUATIONS = {"test", "validation"}
ALL = RUNS | EVALUATIONS

Jobs = Mapping[str, tuple[Any, ...]]


def keys(of: Lab, jobs: Jobs = JOBS, numerics: str = "here", *noted: Any) -> dict[str, str]:
    made = Keys(of, numerics)
    for result in noted:
        made.note(result)
    return {name: made.key(job, args) for name, (job, *args) in jobs.items()}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}
