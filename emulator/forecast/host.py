"""Measures this computer's speed and memory.  Records do not contain the measurements, and results do not depend on
them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import TypeVar

from algorithms.fedavg import FedAvg
from emulator.compute.executors import paths, quiet_torch, scratches
from emulator.compute.gpu import gpus
from emulator.compute.gpu.residents import Residents
from emulator.lab.faulty import Faulty
from emulator.lab.jobs import start
from emulator.lab.lab import CPU, Division, Lab
from emulator.lab.stacking import MOST
from emulator.lab.training import train_stack
from emulator.messages.files import Memory
from emulator.messages.store import NOTHING, Store
from emulator.pricing.costs import Costs
from emulator.record.run import Run

Result = TypeVar("Result")

TIMERS = 0.01  # s: shorter work ends in time; sockets accept a delay of 0.02 (sockets.GRACE)
SAMPLES = 7  # measurements of this computer's speed
SECONDS = 0.1  # s, length of a sample, unless one job is longer
PATIENCE = 3.0  # s, after which 3 samples are enough
STEPS = 8  # training steps of a measured job


@dataclass(frozen=True)
class Host:
    """A computer that plays runs."""

    workers: int  # that train at the same time
    flops_per_s: float  # speed of one worker in whole jobs (training and messages): median of the samples
    process_bytes: int  # memory of a process that holds torch and the data set
    samples: tuple[float, ...] = ()  # measured FLOP/s, rising; they vary with the computer's other work


def measured(lab: Lab, seed: int, workers: int) -> Host:
    """Measures a short training on one device's examples, and returns this computer's speed and memory.

    Trains a stack of devices at once if the devices of the first algorithm train in stacks.
    """
    quiet_torch()
    gpus.use(lab.on)
    samples = _samples(lab, seed)
    largest = getrusage(RUSAGE_SELF).ru_maxrss
    process = largest if sys.platform == "darwin" else 1024 * largest
    return Host(max(1, workers), median(samples), process, samples)


def _samples(lab: Lab, seed: int) -> tuple[float, ...]:
    """Returns measured FLOP/s, sorted: SAMPLES of them, or fewer if jobs are long, but at least 3.

    Raises Faulty, under the first algorithm's label, if its training has no price.
    """
    label, algorithm = next(iter(lab.algorithms.items()))
    training = algorithm.training
    devices = min(lab.stack.get(label, 1), MOST, len(lab.fleet))  # that train at once, whatever a scenario allows
    name, split = next(iter(lab.fleet)), lab.splits[seed]
    held = lab.held(seed, name)
    whole = len(held) // training.batch * training.batch  # the run may never take the rest, which may be one example
    some = held[: min(whole or len(held), training.batch * STEPS)]
    plain = replace(
        lab,
        algorithms={"plain": FedAvg(replace(training, epochs=1, steps=0, seconds=0.0))},
        splits={seed: Division({name: (some,)}, {}, {}, split.proxy)},
    )
    try:
        with _store(lab) as store:
            return _rates(plain, store, seed, name, devices)
    except Faulty as fault:
        _, where, said = fault.args
        raise Faulty(label, where, said) from None


@contextmanager
def _store(lab: Lab) -> Iterator[Store]:
    """Provides a store of messages like that of a run's executor (compute/crew.py); on a GPU, uploads stay there."""
    if lab.on == CPU:
        yield Memory()
        return
    scratch = scratches()
    try:
        yield Residents(paths(scratch))
    finally:
        for each in scratch:
            each.close()


def _rates(plain: Lab, store: Store, seed: int, name: str, devices: int) -> tuple[float, ...]:
    run = Run("plain", seed)
    weights = start(plain, store, run).weights
    flops = devices * Costs(plain, "plain", seed).device(name, 0, ("weights",), ()).total_flops
    names, downloads, memories = [name] * devices, [weights] * devices, [NOTHING] * devices

    def job() -> None:
        train_stack(plain, store, run, 0, names, downloads, memories, False)

    job()  # the first one is slower and does not count
    rates: list[float] = []
    began = time.perf_counter()
    while len(rates) < 3 or (len(rates) < SAMPLES and time.perf_counter() - began < PATIENCE):
        rates.append(flops / seconds_each(job, SECONDS))
    return tuple(sorted(rates))


def seconds_each(job: Callable[[], object], least: float) -> float:
    """Returns the real seconds of the job: the mean over as many repetitions as fill `least` seconds."""
    began, jobs = time.perf_counter(), 0
    while not jobs or time.perf_counter() - began < least:
        job()
        jobs += 1
    return (time.perf_counter() - began) / jobs


def timed(job: Callable[[], Result]) -> tuple[Result, float]:
    """Runs the job, and returns its result and its real seconds."""
    began = time.perf_counter()
    return job(), time.perf_counter() - began
