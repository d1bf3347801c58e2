"""A round's training on one GPU: benchmarks/cifar10-cross-device's 50 devices as one stack, on made-up images.

Milliseconds a round, with each step replayed as a CUDA graph or started kernel by kernel, and with convolutions as
matrix products or as cuDNN's convolutions of 50 groups.  There is no bar here: the scenario itself has one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import torch
import typer

from algorithms import models, stack
from algorithms.algorithm import Party, Precision, Training
from algorithms.fedavg import FedAvg
from algorithms.training import dropout, stack_graph, stack_model
from emulator.compute.executors import quiet_torch
from emulator.compute.gpu import gpus
from scenarios.text.faults import BadScenario

DEVICES, EXAMPLES, BATCH = 50, 50, 10
WARM = 2  # rounds that are not counted: steps are recorded in them
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")


def seconds(place: str, precision: Precision, rounds: int, devices: int = DEVICES) -> float:
    """Seconds of a round: the mean after the first rounds."""
    model = dropout.counter_based(models.build("cifar-cnn-3x3", 0).to(place))
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    x = torch.randn(devices, EXAMPLES, 3, 32, 32, device=place)
    y = torch.randint(10, (devices, EXAMPLES), device=place)
    algorithm = FedAvg(Training(epochs=1, batch=BATCH, lr=0.1, precision=precision))

    def play(round: int) -> None:
        parties = [
            Party(f"d{k}", devices, model, models.cross_entropy, x[k], y[k], round, 0, seed=devices * round + k)
            for k in range(devices)
        ]
        stack.train(algorithm, [{"weights": weights}] * devices, parties)
        if place != "cpu":
            torch.cuda.synchronize()

    for round in range(WARM):
        play(round)
    began = time.perf_counter()
    for round in range(WARM, WARM + rounds):
        play(round)
    return (time.perf_counter() - began) / rounds


@contextmanager
def otherwise(recorded: bool, products: bool) -> Iterator[None]:
    """Within this context steps are not recorded, or layers stay as they are, or both."""
    seen, instead = stack_graph.SEEN, stack_model.instead_of
    stack_graph.forget()
    stack_graph.SEEN = seen if recorded else 10**9
    stack_model.instead_of = instead if products else lambda *_: None
    try:
        yield
    finally:
        stack_graph.SEEN, stack_model.instead_of = seen, instead


def main(
    place: Annotated[str, typer.Option(help="cuda, or cpu to see that it runs.")] = "cuda",
    rounds: Annotated[int, typer.Option(min=1)] = 20,
    devices: Annotated[int, typer.Option(min=2)] = DEVICES,
) -> None:
    """Prints a line for each way and precision."""
    try:
        (where,) = gpus.found(place)
    except BadScenario as none:
        print(none)
        raise typer.Exit(2) from None
    quiet_torch()
    gpus.use(where)
    print(gpus.model(where) if where != "cpu" else "cpu")
    for precision in PRECISIONS:
        for recorded, products in ((True, True), (False, True), (True, False), (False, False)):
            with otherwise(recorded, products):
                took = seconds(where, precision, rounds, devices)
            said = ("graphs" if recorded else "kernel by kernel"), ("products" if products else "cuDNN's groups")
            print(f"{precision:8} {said[0]:17} {said[1]:15} {1e3 * took:8.2f} ms a round")


if __name__ == "__main__":
    typer.run(main)
