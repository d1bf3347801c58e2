"""UGA's gradient in three ways: the graph of all steps, all weights along the way, and one in every √T of them.

A CNN of 28,874 parameters with dropout, batches of 10, one thread.  Each measurement has a process of its own; its
memory is how far the peak of that process lies above what it held before, its seconds are CPU time.  `unrolled` is
also what the tests compare algorithms.keeptrace with: it shares the batches and the seeds with it and no more.

Bar, at full scale: √T checkpoints take less than a tenth of the unrolled graph's extra memory at 400 steps.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import ceil, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from algorithms.algorithm import Party, Tensors, Training
from algorithms.keeptrace import keep_trace
from algorithms.training.local import Quadratic, draws, sgd
from algorithms.training.local import steps as steps_of
from benchmarks.verdict import judge

WAYS = ("sgd", "unrolled", "trajectory", "checkpoints")
STEPS = (20, 100, 400)
EXAMPLES, BATCH = 100, 10
MOST = 0.1  # of the unrolled graph's memory, for checkpoints


def unrolled(device: Party, weights: Tensors, training: Training, penalty: Quadratic | None = None) -> Tensors:
    """The gradient that algorithms.keeptrace.keep_trace must return, by autograd through the graph of all steps."""
    model = device.model
    model.load_state_dict(weights)
    model.train()
    first = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters() if p.requires_grad}
    theta, momentum = dict(first), {name: torch.zeros_like(value) for name, value in first.items()}
    kept = steps_of(len(device.y), training) - ceil(len(device.y) / training.batch)
    total = torch.zeros((), dtype=next(iter(first.values())).dtype)
    for step, chosen in enumerate(draws(len(device.y), training, device.seed)):
        loss = device.loss(functional_call(model, theta, (device.x[chosen],)), device.y[chosen]).mean()
        if step >= kept:
            total = total + loss * (len(chosen) / len(device.y))
            continue
        if penalty is not None:
            loss = loss + _penalty(penalty, theta, first)
        gradients = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        for name, g in zip(first, gradients, strict=True):
            momentum[name] = training.momentum * momentum[name] + g + training.weight_decay * theta[name]
            theta[name] = theta[name] - training.rate(device.round) * momentum[name]
    return dict(zip(first, torch.autograd.grad(total, list(first.values())), strict=True))


def _penalty(penalty: Quadratic, theta: Tensors, first: Tensors) -> Tensor:
    """λ Σ Ω (θ - θ_0)²."""
    total = torch.zeros(())
    for name, value in first.items():
        squares = (theta[name] - value) ** 2
        total = total + (squares if penalty.importance is None else penalty.importance[name] * squares).sum()
    return penalty.strength * total


def network() -> nn.Sequential:
    """28,874 parameters, as in docs/design/algorithms.md §14."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 8, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),  # (n, 8, 14, 14)
            conv2=nn.Conv2d(8, 16, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),  # (n, 16, 7, 7)
            flatten=nn.Flatten(),
            fc1=nn.Linear(16 * 7 * 7, 32),
            relu3=nn.ReLU(),
            dropout=nn.Dropout(0.5),
            fc2=nn.Linear(32, 10),
        )
    )


def losses(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs, y, reduction="none")


def party(examples: int) -> Party:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples, 1, 28, 28, generator=generator)
    y = torch.randint(10, (examples,), generator=generator)
    return Party("device", 1, network(), losses, x, y, round=0, cycle=0, seed=1)


def run(way: str, steps: int) -> None:
    """So many steps of keep-trace descent, and the gradient of all examples; `sgd`: as many steps, and no more."""
    device = party(min(EXAMPLES, steps * BATCH))
    weights = {name: value.clone() for name, value in device.model.state_dict().items()}
    epochs = steps * BATCH // len(device.y)
    training = Training(epochs=epochs + (way != "sgd"), batch=BATCH, lr=0.01)
    if way == "sgd":
        sgd(device, weights, training)
    elif way == "unrolled":
        unrolled(device, weights, training)
    else:
        keep_trace(device, weights, training, every=1 if way == "trajectory" else ceil(sqrt(steps)))


@dataclass(frozen=True)
class Taken:
    """The time and memory of one way, in one process."""

    way: str
    steps: int
    seconds: float
    megabytes: float  # the peak above what was held before


def _megabytes(what: str) -> float:
    """VmHWM, the peak, or VmRSS: from /proc, for ru_maxrss begins at what the parent process held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def take(way: str, steps: int) -> Taken:
    """Measures here, after one step of each way: neither its memory nor what torch loads for it is counted."""
    torch.set_num_threads(1)
    for each in WAYS:
        run(each, 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is held now
    held, began = _megabytes("VmRSS"), time.process_time()
    run(way, steps)
    return Taken(way, steps, time.process_time() - began, max(0.0, _megabytes("VmHWM") - held))


def measure(scale: float) -> list[Taken]:
    """Each way with each number of steps, times `scale`, each in a fresh process."""
    found = []
    for steps in STEPS:
        for way in WAYS:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                found.append(pool.submit(take, way, max(1, round(scale * steps))).result())
    return found


def missed(found: Sequence[Taken]) -> list[str]:
    """The bar that was missed, in a sentence."""
    last = {taken.way: taken.megabytes for taken in found if taken.steps == STEPS[-1]}
    if last["checkpoints"] < MOST * last["unrolled"]:
        return []
    fault = f"checkpoints take {last['checkpoints']:.0f} MB at {STEPS[-1]} steps, the unrolled graph"
    return [f"{fault} {last['unrolled']:.0f} MB; it must be less than {MOST:g} of that"]


def table(found: Sequence[Taken]) -> str:
    """A line for each number of steps."""
    lines = ["steps" + "".join(f"{way:>22}" for way in WAYS)]
    for steps in sorted({taken.steps for taken in found}):
        row = {taken.way: taken for taken in found if taken.steps == steps}
        lines.append(f"{steps:5}" + "".join(f"{row[way].seconds:12.2f} s {row[way].megabytes:5.0f} MB" for way in WAYS))
    return "\n".join(lines)


def main(
    scale: Annotated[float, typer.Option(min=0, help="Share of the steps; below 1 nothing is judged.")] = 1.0,
) -> None:
    """Time and memory of the keep-trace gradient."""
    found = measure(scale)
    typer.echo(f"uga: a CNN of 28,874 parameters, B={BATCH}, CPU seconds and extra peak memory\n{table(found)}")
    judge(missed(found) if scale >= 1 else [])


if __name__ == "__main__":
    typer.run(main)
