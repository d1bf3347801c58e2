"""A bare PyTorch loop that trains clients side by side in worker processes, as one would write it by hand."""

from __future__ import annotations

import time
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from algorithms import models
from algorithms.algorithm import Training
from emulator.compute.executors import keep_memory

_shards: list[tuple[torch.Tensor, torch.Tensor]] = []  # in a worker: each client's examples


def linear() -> nn.Sequential:
    """784-10: 7,850 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def workers(count: int, files: Path, clients: int) -> ProcessPoolExecutor:
    """So many processes, each with the examples of all clients: x.npy and y.npy of this folder, split evenly."""
    return ProcessPoolExecutor(count, get_context("spawn"), initializer=_arrive, initargs=(files, clients))


def _arrive(files: Path, clients: int) -> None:
    """Loads the data into memory, as a worker's first act."""
    torch.set_num_threads(1)
    keep_memory()
    x, y = np.load(files / "x.npy"), np.load(files / "y.npy")
    for own_x, own_y in zip(np.split(x, clients), np.split(y, clients), strict=True):
        _shards.append((torch.from_numpy(own_x), torch.from_numpy(own_y)))


def seconds(pool: Executor, model: str, training: Training, cohort: int, rounds: int) -> float:
    """Some rounds; in each the next `cohort` clients train the model of this name."""
    began = time.perf_counter()
    for round in range(rounds):
        for done in [pool.submit(_client, model, training, k) for k in range(cohort * round, cohort * (round + 1))]:
            done.result()
    return time.perf_counter() - began


def _client(model: str, training: Training, number: int) -> None:
    loop(models.build(model, seed=number), *_shards[number % len(_shards)], training, seed=number)


def loop(model: nn.Module, x: torch.Tensor, y: torch.Tensor, training: Training, seed: int) -> None:
    """The steps of algorithms.training.local.sgd; the model holds the result."""
    model.train()
    for parameter in model.parameters():
        if parameter.dim() == 4:  # channels_last; with one input channel only a clone sets the strides
            parameter.data = parameter.data.clone(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=training.lr, fused=True)
    for epoch in range(training.epochs):
        order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(len(y)))
        for start in range(0, len(y), training.batch):
            chosen = order[start : start + training.batch]
            optimiser.zero_grad()
            torch.autograd.backward(F.cross_entropy(model(x[chosen]), y[chosen]))
            optimiser.step()
