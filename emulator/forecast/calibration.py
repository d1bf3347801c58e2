"""Measures a computer: finds the rates (FLOP/s, bytes/s, overheads) that explain the seconds of training steps of a few
small networks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from algorithms.counting.step_counts import StepCounts
from devices.device import Profile
from emulator.forecast.fitting import Cell, Judged, fitted, left_out, with_rates

if TYPE_CHECKING:
    from torch import nn


STREAM = 4_000_000  # floats, 16 MB: more than most caches of one core hold
# What the rates are drawn to, a little: all kinds of layers equally fast, and 10 FLOPs for each byte.
EVEN = with_rates(Profile("host", 1e11, 1e10, 0.0, 1, ""), [1e11, 1e11, 1e11, 1e11, 1e11, 1e10, 1e10])
WEIGHT = 0.1  # of that, against the seconds of one network
FAR = 10.0  # every error weighs as its square: where the networks contradict each other, their mean is right


@dataclass(frozen=True)
class Kernel:
    """A job of training steps of one network, and the declared cost of a step."""

    name: str
    steps: int
    step: StepCounts
    run: Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """The rates of this computer, as a profile without a name, and its networks as `fitting.Judged`."""

    rates: Profile
    judged: Sequence[Judged]

    def profile(self, name: str, source: str, memory: int) -> Profile:
        return replace(self.rates, name=name, source=source, memory_bytes=memory)


def measure(seconds: float, threads: int = 1) -> Measured:
    """Measures the jobs of `workload` in turns for about `seconds` in total, and returns the rates that explain the
    best time of each.

    With one thread it measures CPU time, which excludes other programs.
    """
    import torch

    from emulator.compute.executors import quiet_torch

    before, strict = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    quiet_torch()
    torch.set_num_threads(threads)
    try:
        clock = time.thread_time if threads == 1 else time.perf_counter
        kernels, jobs = workload()
        return evaluated(kernels, _best(jobs, seconds, clock))
    finally:
        torch.set_num_threads(before)
        torch.set_deterministic_debug_mode(strict)


def workload() -> tuple[list[Kernel], list[Callable[[], object]]]:
    """Returns the kernels, and the jobs to time: one for each kernel in the same order, and then one that streams
    memory.

    The last three kernels tell the overheads; all others are networks.
    """
    kernels = [
        _conv(5, 1, 28, batch=16),
        _conv(3, 16, 16, batch=64),
        _separable(3, (32, 64, 64), 32),
        _separable(5, (128, 128, 256), 14),
        _norms(32, 32, batch=16),
        _dense(784, 512, batch=32),
        _dense(256, 1024, batch=512),
        _recurrent("LSTM", 128, batch=16),
        _recurrent("LSTM", 256, batch=64),
        _recurrent("GRU", 64, batch=16),
        _recurrent("GRU", 256, batch=32),
        _kernel("operators", _many_operators(), (8,), 4, steps=20),
        _kernel("convolutions", _small_convolutions(), (4, 4, 4), 4, steps=20),
        _kernel("empty", _empty(), (1,), 1, steps=50),
    ]
    return kernels, [*(kernel.run for kernel in kernels), _stream()]


def evaluated(kernels: Sequence[Kernel], seconds: Sequence[float]) -> Measured:
    """Returns the rates that explain the measured seconds of the jobs of `workload`."""
    steps = [took / kernel.steps for took, kernel in zip(seconds[:-1], kernels, strict=True)]
    *networks, operators, convolutions, (_, empty) = zip(kernels, steps, strict=True)
    base = starting(empty, operators, convolutions)
    cells: dict[str, list[Cell]] = {kernel.name: [(kernel.step, took)] for kernel, took in networks}
    cells["memory"] = [(StepCounts(floats=4 * STREAM), empty + seconds[-1])]
    others = left_out(cells, base, WEIGHT, FAR)
    judged = [(kernel.name, took, others[kernel.name][0]) for kernel, took in networks]
    return Measured(fitted([cell for (cell,) in cells.values()], base, WEIGHT, FAR), judged)


def starting(empty: float, operators: tuple[Kernel, float], convolutions: tuple[Kernel, float]) -> Profile:
    """Returns EVEN with the overheads that explain the seconds of an empty step, of one with many operators, and of one
    with many convolutions."""
    kernel, took = operators
    operator = max(0.0, took - empty) / kernel.step.operators
    kernel, took = convolutions
    left = took - empty - kernel.step.operators * operator
    convolution = max(0.0, left) / kernel.step.convolutions
    return replace(EVEN, overhead_s=empty, operator_s=operator, convolution_s=convolution)


def _best(jobs: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], float]) -> list[float]:
    best, until = [float("inf")] * len(jobs), time.perf_counter() + seconds
    while True:
        for number, job in enumerate(jobs):
            began = clock()
            job()
            best[number] = min(best[number], clock() - began)
        if time.perf_counter() >= until:
            return best


def _conv(size: int, channels: int, side: int, batch: int) -> Kernel:
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(channels, 32, size, padding=size // 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, size, padding=size // 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (side // 4) ** 2, 10),
    )
    return _kernel(f"CNN, {size} x {size}", model, (channels, side, side), batch, steps=4)


def _separable(size: int, channels: Sequence[int], side: int) -> Kernel:
    """Returns a kernel of blocks as MobileNet has them: a depthwise and a 1 x 1 convolution, each normalised."""
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        depthwise = nn.Conv2d(inputs, inputs, size, padding=size // 2, groups=inputs)
        layers += [depthwise, nn.BatchNorm2d(inputs), nn.ReLU()]
        layers += [nn.Conv2d(inputs, outputs, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10))
    return _kernel(f"depthwise, {size} x {size}", model, (channels[0], side, side), batch=8, steps=2)


def _norms(channels: int, side: int, batch: int) -> Kernel:
    """Returns a kernel of normalisations, activations and pooling, which only move memory."""
    from torch import nn

    layers = [layer for _ in range(3) for layer in (nn.BatchNorm2d(channels), nn.ReLU())]
    dense = nn.Linear(channels * (side // 2) ** 2, 10)
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), dense)
    return _kernel("normalisation", model, (channels, side, side), batch, steps=2)


def _dense(inputs: int, units: int, batch: int) -> Kernel:
    from torch import nn

    model = nn.Sequential(nn.Linear(inputs, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 10))
    return _kernel(f"MLP, {units} units", model, (inputs,), batch, steps=4)


def _recurrent(kind: str, units: int, batch: int) -> Kernel:
    from algorithms.models import char_gru, word_lstm

    model = word_lstm(units, 16) if kind == "LSTM" else char_gru(units // 2, units, 16)
    return _kernel(f"{kind}, {units} units", model, (20,), batch, steps=4, tokens=16)


def _kernel(name: str, model: nn.Module, shape: tuple[int, ...], batch: int, steps: int, tokens: int = 0) -> Kernel:
    """Returns a kernel whose job is plain SGD on random examples, in the loop that devices use."""
    import torch

    from algorithms.algorithm import Party, Phase, Training
    from algorithms.counting.cost import Meter, sgd_traffic
    from algorithms.models import cross_entropy
    from algorithms.training.local import sgd

    draw, n = torch.Generator().manual_seed(0), steps * batch
    x = torch.randint(tokens, (n, *shape), generator=draw) if tokens else torch.randn(n, *shape, generator=draw)
    y = torch.randint(tokens or 10, (n, *shape) if tokens else (n,), generator=draw)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    party = Party("device", 1, model, cross_entropy, x, y, round=0, cycle=0, seed=0)
    traffic = sgd_traffic(sum(parameter.numel() for parameter in model.parameters()), 0.0)
    phase = Phase("train", "batch", n, batch, traffic=traffic)
    meter = Meter(model, shape, cross_entropy, x.dtype, tuple(y.shape[1:]))
    return Kernel(name, steps, meter.step(phase), lambda: sgd(party, weights, Training(epochs=1, lr=0.1, batch=batch)))


def _many_operators() -> nn.Module:
    """Returns a network of many operators, so small that only starting them takes time."""
    from torch import nn

    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(8, 8), nn.ReLU())), nn.Linear(8, 10))


def _small_convolutions() -> nn.Module:
    """Returns a network of two convolutions, as small networks have; the first of a step takes longer than the
    second."""
    from torch import nn

    first, second = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))


def _empty() -> nn.Module:
    """Returns a network with almost no work, whose steps take only overhead."""
    from torch import nn

    return nn.Linear(1, 10)


def _stream() -> Callable[[], object]:
    """Returns a job that streams memory: STREAM times it reads three floats and writes one."""
    import torch

    a, b, c = (torch.ones(STREAM) for _ in range(3))
    return lambda: a.addcmul_(b, c, value=1e-9)
