"""How well profiles of boards predict measured training steps: `python -m benchmarks.boards --data FILE`.

FILE is a table of seconds per step, a network of timm a row (columns: BOARDS and TASKS).  Fits pi-4 to all networks
but one family at a time, and pi-5 to those measured there, drawn to the rates of pi-4; prints the seconds of the
family that was left out, predicted beside measured, and the rates of a fit to all.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from scipy.stats import spearmanr
from torch import nn

import devices.data.tv  # noqa: F401  torchvision, which timm imports, may lack operators
from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter, sgd_traffic
from algorithms.counting.step_counts import StepCounts
from algorithms.models import cross_entropy
from benchmarks.devices import table
from devices.device import Profile, numbers_of, profiles
from devices.profiles import NAMED
from emulator.forecast.fitting import LIKE, Cell, fitted, left_out

DATA = Path(__file__).parents[2] / "shared/data/boards/pi_training.csv"
BATCH, SHAPE, CLASSES = 16, (3, 224, 224), 1000
TASKS = {"train": "all weights", "head": "head only"}
BOARDS = {"pi4": "pi-4", "pi5": "pi-5"}  # columns are named pi4_train_s
SAME = {"deit": "vit"}  # a family under another name
FREE = 1e-3  # weight of the rates that pi-4 is drawn to: nearly none, as it has 56 cells


@dataclass(frozen=True)
class Row:
    """One step of a network, with all weights trained or the last layer alone, and its seconds on each board."""

    network: str
    task: str
    step: StepCounts
    seconds: Mapping[str, float]

    @property
    def family(self) -> str:
        name = self.network.split("_")[0].rstrip("0123456789")
        return SAME.get(name, name)


def read(path: Path) -> list[Row]:
    """Returns the rows of a table of measured steps: two for each network, one for each of TASKS; seconds."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row for line in csv.DictReader(file) for row in _rows(line)]


def _rows(line: Mapping[str, str]) -> Iterator[Row]:
    for task in TASKS:
        texts = {board: line[f"{column}_{task}_s"] for column, board in BOARDS.items()}
        seconds = {board: float(text) for board, text in texts.items() if text}
        yield Row(line["network"], task, counted(line["timm_name"], task), seconds)


def counted(name: str, task: str) -> StepCounts:
    """Returns the counts of one step of a network of timm, on torch's meta device."""
    import timm

    with torch.device("meta"):
        model: nn.Module = timm.create_model(name, num_classes=CLASSES)
    if task == "head":
        model.requires_grad_(False)
        last = model.get_classifier()
        for layer in last if isinstance(last, tuple) else [last]:
            layer.requires_grad_(True)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    phase = Phase("train", "batch", BATCH, BATCH, traffic=sgd_traffic(trained, 0.0))
    return Meter(model, SHAPE, cross_entropy).step(phase)


def profile_of(board: str, rows: Sequence[Row]) -> Profile:
    """Returns the board's shipped profile with the rates that all its rows give."""
    return fitted([(row.step, row.seconds[board]) for row in rows if board in row.seconds], *like(board, rows))


def like(board: str, rows: Sequence[Row]) -> tuple[Profile, float]:
    """Returns the profile that the board's rates are drawn to, and the weight of that: pi-5 has the shape of pi-4."""
    if board == "pi-4":
        return profiles()["pi-4"], FREE
    found = profile_of("pi-4", rows)
    return replace(found, name=board, overhead_s=profiles()[board].overhead_s), LIKE


def judged(board: str, rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Returns each row of the board with the seconds that a fit to the other families predicts."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        if board in row.seconds:
            families.setdefault(row.family, []).append(row)
    cells: dict[str, list[Cell]] = {
        name: [(row.step, row.seconds[board]) for row in own] for name, own in families.items()
    }
    found = left_out(cells, *like(board, rows))
    return [pair for name, own in families.items() for pair in zip(own, found[name], strict=True)]


def text(board: str, found: Sequence[tuple[Row, float]]) -> str:
    """Returns a table of the predictions for one board, and a line for each task."""
    lines, rows = [], []
    for task, what in TASKS.items():
        own = sorted((pair for pair in found if pair[0].task == task), key=lambda pair: pair[0].seconds[board])
        real, told = [row.seconds[board] for row, _ in own], [seconds for _, seconds in own]
        errors = [seconds / took - 1 for seconds, took in zip(told, real, strict=True)]
        worst = max(range(len(own)), key=lambda i: abs(errors[i]))
        swapped = sum(a > b for a, b in pairwise(told))
        lines.append(
            f"{board}, {what}, {len(own)} networks: off by {median(map(abs, errors)):.0%} in the median, "
            f"{errors[worst]:+.0%} at worst ({own[worst][0].network}); "
            f"rank correlation {spearmanr(real, told)[0]:.3f}, {swapped} neighbouring pairs swapped"
        )
        rows += [
            [row.network, what, f"{took:.2f}", f"{seconds:.2f}", f"{error:+.0%}"]
            for (row, seconds), took, error in zip(own, real, errors, strict=True)
        ]
    return "\n".join([*lines, "", table(["network", "trained", "measured s", "predicted s", "error"], rows)])


def rates_text(profile: Profile) -> str:
    rates = ((name, value, NAMED[name].unit) for name, value in numbers_of(profile).items())
    said = [f"{name} {value:.4g} {unit}" for name, value, unit in rates if unit.endswith("/s")]
    return f"{profile.name}, fitted to all: {', '.join(said)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="table of measured steps")
    given = parser.parse_args()
    if not given.data.is_file():
        parser.error(f"--data is {given.data}; there is no such file")
    rows = read(given.data)
    for board in BOARDS.values():
        print(f"{text(board, judged(board, rows))}\n\n{rates_text(profile_of(board, rows))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
