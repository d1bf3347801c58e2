"""What this computer does, measured here and now: it stands in no record, and changes no result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from resource import RUSAGE_SELF, getrusage
from typing import TypeVar

from algorithms.fedavg import FedAvg
from emulator.pricing.costs import Costs
from emulator.study.jobs import Run, start, train
from emulator.study.study import Split, Study
from emulator.worlds.executors import quiet_torch
from network.wire.payload import NOTHING

Result = TypeVar("Result")

TIMERS = 0.01  # s: what is over so soon ends in time; over sockets 0.02 are forgiven (sockets.GRACE)
SECONDS = 0.2  # of measuring
STEPS = 8  # training steps in a job that is measured


@dataclass(frozen=True)
class Host:
    """A computer that plays runs."""

    workers: int  # that train at once
    flops_per_s: float  # of one of them, in whole jobs: training and messages
    process_bytes: int  # of a process that holds torch and the data set


def measured(study: Study, seed: int, workers: int) -> Host:
    """Trains on a few examples of one device, again and again."""
    quiet_torch()
    rate = _rate(study, seed)
    largest = getrusage(RUSAGE_SELF).ru_maxrss
    return Host(max(1, workers), rate, largest if sys.platform == "darwin" else 1024 * largest)


def _rate(study: Study, seed: int) -> float:
    training = next(iter(study.algorithms.values())).training
    name, split = next(iter(study.fleet)), study.splits[seed]
    some = study.held(seed, name)[: training.batch * STEPS]
    plain = replace(
        study,
        algorithms={"plain": FedAvg(replace(training, epochs=1))},
        splits={seed: Split({name: (some,)}, {}, {}, split.proxy)},
    )
    run = Run("plain", seed)
    weights = start(plain, run).weights
    flops = Costs(plain, "plain", seed).device(name, 0, ("weights",), ()).total_flops
    jobs, began = -1, 0.0
    while jobs < 1 or time.perf_counter() - began < SECONDS:
        if jobs == 0:  # the very first is slower, and is not counted
            began = time.perf_counter()
        train(plain, run, name, 0, weights, NOTHING, False)
        jobs += 1
    return jobs * flops / (time.perf_counter() - began)


def timed(job: Callable[[], Result]) -> tuple[Result, float]:
    """What the job returns, and the seconds that it took here."""
    began = time.perf_counter()
    return job(), time.perf_counter() - began
