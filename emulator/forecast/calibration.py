"""Measures a computer: finds the rates (FLOP/s, bytes/s, overheads) that explain the seconds of a few small training
steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from algorithms.counting.step_counts import StepCounts
    from devices.device import Profile


STREAM = 4_000_000  # floats, 16 MB: more than most caches of one core hold
LEAST = 0.1  # smallest share of a kernel's seconds that its own class of operators takes


@dataclass(frozen=True)
class Kernel:
    """A job of training steps that mostly use one class of operators, and the declared cost of a step."""

    kind: str  # conv | dense | recurrent | operators | convolutions | empty
    steps: int
    step: StepCounts
    run: Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """The rates of this computer.

    FLOP/s by class of operator, bytes/s of memory, and seconds of overhead: for each step, each started operator, and
    each convolution.
    """

    conv: float
    dense: float
    recurrent: float
    bytes_per_s: float
    overhead: float
    operator: float = 0.0
    convolution: float = 0.0

    @property
    def speed(self) -> float:
        """FLOP/s of an image network as a whole, with half of the FLOPs in convolutions and half in dense layers."""
        return 2 / (1 / self.conv + 1 / self.dense)

    def profile(self, name: str, source: str, memory: int) -> Profile:
        from devices.device import Profile

        speeds = (self.conv, self.dense, self.recurrent)
        starts = (self.operator, self.convolution)
        return Profile(name, self.speed, self.bytes_per_s, self.overhead, memory, source, *speeds, *starts)


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
    memory."""
    kernels = [
        _conv(5, 1, 28, batch=16),
        _conv(3, 16, 16, batch=64),
        _dense(784, 512, batch=32),
        _dense(256, 1024, batch=512),
        _recurrent(128, batch=16),
        _recurrent(256, batch=64),
        _kernel("operators", _many_operators(), (8,), 4, steps=20),
        _kernel("convolutions", _small_convolutions(), (4, 4, 4), 4, steps=20),
        _kernel("empty", _empty(), (1,), 1, steps=50),
    ]
    return kernels, [*(kernel.run for kernel in kernels), _stream()]


def evaluated(kernels: Sequence[Kernel], seconds: Sequence[float]) -> Measured:
    """Returns the rates that explain the measured seconds of the jobs of `workload`."""
    steps = [took / kernel.steps for took, kernel in zip(seconds[:-1], kernels, strict=True)]
    timed = {kernel.kind: (kernel, took) for kernel, took in zip(kernels, steps, strict=True)}
    starting = Starting.found(timed["empty"][1], timed["operators"], timed["convolutions"])
    return rates(kernels, steps, 4 * 4 * STREAM / seconds[-1], starting)


@dataclass(frozen=True)
class Starting:
    """Seconds of overhead of a training step, which do not depend on the size of its operators.

    `overhead`: for each step; `operator`: for each operator that it starts; `convolution`: for each convolution, in
    addition.
    """

    overhead: float
    operator: float = 0.0
    convolution: float = 0.0

    @classmethod
    def found(cls, overhead: float, operators: tuple[Kernel, float], convolutions: tuple[Kernel, float]) -> Starting:
        """Returns the overheads that explain the seconds of an empty step, of one with many operators, and of one
        with many convolutions."""
        kernel, took = operators
        operator = max(0.0, took - overhead) / kernel.step.operators
        kernel, took = convolutions
        left = took - overhead - kernel.step.operators * operator
        return cls(overhead, operator, max(0.0, left) / kernel.step.convolutions)

    def of(self, step: StepCounts) -> float:
        """Returns the seconds of overhead in one training step with these counts of operators and convolutions."""
        return self.overhead + step.operators * self.operator + step.convolutions * self.convolution


def rates(kernels: Sequence[Kernel], seconds: Sequence[float], bytes_per_s: float, starting: Starting) -> Measured:
    """Returns the speeds that explain the kernels' seconds per step.  Dense layers come first, because the other
    kernels have some too."""
    found: dict[str, float] = {}
    for kind in ("dense", "conv", "recurrent"):
        own = [pair for pair in zip(kernels, seconds, strict=True) if pair[0].kind == kind]
        found[kind] = geometric_mean(_speed(kernel, took, found, bytes_per_s, starting) for kernel, took in own)
    return Measured(found["conv"], found["dense"], found["recurrent"], bytes_per_s, *astuple(starting))


def _speed(kernel: Kernel, took: float, known: Mapping[str, float], bytes_per_s: float, starting: Starting) -> float:
    """Returns the FLOP/s of the kernel's own class of operators: its FLOPs over the seconds that nothing else in the
    step explains."""
    others = sum(getattr(kernel.step, kind) / speed for kind, speed in known.items())
    left = took - others - 4 * kernel.step.floats / bytes_per_s - starting.of(kernel.step)
    return float(getattr(kernel.step, kernel.kind) / max(left, LEAST * took))


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
    return _kernel("conv", model, (channels, side, side), batch, steps=4)


def _dense(inputs: int, units: int, batch: int) -> Kernel:
    from torch import nn

    model = nn.Sequential(nn.Linear(inputs, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 10))
    return _kernel("dense", model, (inputs,), batch, steps=4)


def _recurrent(units: int, batch: int) -> Kernel:
    from algorithms.models import word_lstm

    return _kernel("recurrent", word_lstm(units, 16), (20,), batch, steps=4, tokens=16)


def _kernel(kind: str, model: nn.Module, shape: tuple[int, ...], batch: int, steps: int, tokens: int = 0) -> Kernel:
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
    return Kernel(kind, steps, meter.step(phase), lambda: sgd(party, weights, Training(epochs=1, lr=0.1, batch=batch)))


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
