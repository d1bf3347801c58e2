"""Compares device profiles with measured seconds of others and of this computer: `python -m benchmarks.devices`.

Writes docs/devices.md.  It has the error on FLASH's cells with one network left out, for one speed and for a speed per
class of operator; the profiles; and this computer, predicted by `fedlapse calibrate` and from its other networks.
Prints the errors on FLASH's cells and on this computer.  `--no-host` takes the latter from docs/devices.md.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor, nn

from algorithms.algorithm import Phase
from algorithms.counting.cost import Meter, sgd_traffic
from algorithms.counting.step_counts import StepCounts
from algorithms.models import build, cross_entropy, input_shape
from benchmarks import compute
from benchmarks.compute import Job
from devices.device import SPEEDS, Profile, profiles
from devices.profiles import shipped
from emulator.commands.calibrate import source
from emulator.commands.devices import COMPUTING, FURTHER
from emulator.forecast import fitting
from emulator.forecast.calibration import evaluated
from emulator.forecast.fitting import RATES, Cell, predicted, rate_of

PAGE = Path(__file__).parents[1] / "docs/devices.md"
PHONES = {"nexus-6": "phone-low", "redmi-note-7": "phone-mid", "pixel-4": "phone-high"}  # and whose bandwidth it has
# Seconds per batch: Yang et al. 2021 (FLASH), models/utils/device_util/device_util.py at commit 70e47eb2.
SECONDS = {
    "FEMNIST CNN": (1.642, 0.588, 0.179),
    "CelebA CNN": (5.392, 1.355, 0.561),
    "Reddit LSTM": (2.596, 0.916, 0.528),
    "Shakespeare LSTM": (28.621, 13.579, 10.681),
}
NINE = ("FEMNIST CNN", "CelebA CNN", "Reddit LSTM")
LIKE = 0.1  # weight of "classes are equally fast" against one cell: what decides where no cell does
CLASSES = 3
NOT_KNOWN = {"positions": 0.0, "operators": 0.0, "convolutions": 0.0}  # what it takes to start them on FLASH's phones
COLUMNS = (*COMPUTING, *FURTHER)  # of the table of profiles, as `fedlapse devices` has them
HOST = "## This computer"
HOST_SAID = """\
*Calibrated*: the kernels of `fedlapse calibrate`, on this computer and in turns with the steps, give speeds, bandwidth
and overheads; no step of the table is among them. So this is the error of a profile on networks that it has not seen,
on a computer that it has. *Left out*: bandwidth and overheads are the calibrated ones, and the speeds are fitted, as
those of FLASH's phones, to the steps of the table's other networks."""


class Words(nn.Module):
    """LEAF's and FLASH's language models: an embedding, LSTM layers, a dense layer at each or at the last position."""

    def __init__(self, words: int, embedding: int, units: int, last: bool) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(words, embedding), last
        self.lstm, self.dense = nn.LSTM(embedding, units, 2, batch_first=True), nn.Linear(units, words)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.dense(states[:, -1] if self.last else states)
        return logits


def femnist() -> nn.Module:
    """models/femnist/cnn.py: 6,603,710 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 2048),
        nn.ReLU(),
        nn.Linear(2048, 62),
    )


def celeba() -> nn.Module:
    """models/celeba/cnn.py: four blocks on 84 x 84 x 3; 'same' pooling rounds up."""
    layers: list[nn.Module] = []
    for channels in (3, 32, 32, 32):
        conv = nn.Conv2d(channels, 32, 3, padding=1)
        layers += [conv, nn.BatchNorm2d(32), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 36, 2))


@cache
def flash_steps() -> dict[str, StepCounts]:
    """FLASH's networks as its code has them; Reddit's vocabulary is not in the code: 10,000, as LEAF's script says."""
    text = torch.int64
    return {
        "FEMNIST CNN": step(femnist(), (1, 28, 28), 10),
        "CelebA CNN": step(celeba(), (3, 84, 84), 10),
        "Reddit LSTM": step(Words(10_000, 256, 256, last=False), (10,), 10, text, (10,)),
        "Shakespeare LSTM": step(Words(80, 8, 256, last=True), (80,), 100, text),
    }


def step(
    model: nn.Module,
    shape: tuple[int, ...],
    batch: int,
    dtype: torch.dtype = torch.float32,
    targets: tuple[int, ...] = (),
) -> StepCounts:
    traffic = sgd_traffic(sum(parameter.numel() for parameter in model.parameters()), 0.0)
    meter = Meter(model, shape, cross_entropy, dtype, targets)
    return replace(meter.step(Phase("train", "batch", batch, batch, traffic=traffic)), **NOT_KNOWN)


# ---- fits


def one_speed(cells: Sequence[Cell], base: Profile) -> Profile:
    """`base` with the speed that has the least squares of log(predicted / measured), for all classes."""

    def residuals(log: np.ndarray) -> list[float]:
        speeds = [float(np.exp(log[0]))] * CLASSES
        return [float(np.log(predicted(step, with_speeds(base, speeds)) / took)) for step, took in cells]

    return with_speeds(base, [float(np.exp(least_squares(residuals, [np.log(1e9)]).x[0]))] * CLASSES)


def by_class(cells: Sequence[Cell], base: Profile) -> Profile:
    """`base` with a speed per class that have the least squares of log(predicted / measured), drawn to their geometric
    mean by LIKE."""

    def residuals(logs: np.ndarray) -> list[float]:
        found = [float(np.log(predicted(step, with_speeds(base, np.exp(logs))) / took)) for step, took in cells]
        return [*found, *(np.sqrt(LIKE) * (logs - logs.mean()))]

    return with_speeds(base, np.exp(least_squares(residuals, [np.log(1e9)] * CLASSES).x))


def as_pi(cells: Sequence[Cell], base: Profile) -> Profile:
    """`base` with all rates of pi-4 fitted to the cells, drawn to those of pi-4 times one factor."""
    return fitting.fitted(cells, replace(profiles()["pi-4"], overhead_s=base.overhead_s, operator_s=0, convolution_s=0))


def with_speeds(base: Profile, speeds: Sequence[float] | np.ndarray) -> Profile:
    """`base` with these FLOP/s of its classes: convolution, dense, recurrent."""
    return replace(base, **dict(zip(SPEEDS, map(float, speeds), strict=False)))


Fit = Callable[[Sequence[Cell], Profile], Profile]


def left_out(names: Sequence[str], steps: dict[str, StepCounts], fit: Fit) -> dict[str, list[float]]:
    """Network -> relative error on each phone, when the speeds come from the phone's other networks."""
    return {name: errors(name, [other for other in names if other != name], steps, fit) for name in names}


def fitted(names: Sequence[str], steps: dict[str, StepCounts], fit: Fit) -> dict[str, list[float]]:
    """Network -> relative error on each phone, when the speeds come from all of the phone's networks."""
    return {name: errors(name, names, steps, fit) for name in names}


def errors(name: str, known: Sequence[str], steps: dict[str, StepCounts], fit: Fit) -> list[float]:
    found = []
    for phone, like in enumerate(PHONES.values()):
        profile = fit([(steps[other], SECONDS[other][phone]) for other in known], profiles()[like])
        found.append(predicted(steps[name], profile) / SECONDS[name][phone] - 1)
    return found


def others_tell(work: Sequence[Job], seconds: Sequence[float], base: Profile, fit: Fit) -> list[float]:
    """Relative error of each step on this computer, when the speeds come from the steps of its other networks."""
    cells = [(job.model, job.step, took) for job, took in zip(work, seconds, strict=True)]
    told = {
        network: fit([(step, took) for other, step, took in cells if other != network], base) for network, _, _ in cells
    }
    return [predicted(step, told[network]) / took - 1 for network, step, took in cells]


def _on(profile: Profile, work: Sequence[Job], seconds: Sequence[float]) -> list[float]:
    return [compute.on(profile, job) / took - 1 for job, took in zip(work, seconds, strict=True)]


def phone_speeds(steps: dict[str, StepCounts]) -> dict[str, tuple[float, list[float]]]:
    """Phone -> its one speed, and those by class, from all of its cells: what profiles.csv says."""
    found = {}
    for phone, (name, like) in enumerate(PHONES.items()):
        cells = [(step, SECONDS[network][phone]) for network, step in steps.items()]
        one, own = one_speed(cells, profiles()[like]), by_class(cells, profiles()[like])
        found[name] = (rate_of(one, SPEEDS[0]), [rate_of(own, speed) for speed in SPEEDS[:CLASSES]])
    return found


# ---- the page


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(values: Sequence[float]) -> list[str]:
    return [f"{value:+.0%}" for value in values]


def flash_text(steps: dict[str, StepCounts]) -> str:
    costs = []
    for name, step in steps.items():
        flops = [f"{each / 1e6:.0f}" for each in (step.conv, step.dense, step.recurrent)]
        costs.append([name, *flops, f"{step.floats / 1e6:.1f}", *map(str, SECONDS[name])])
    heads = ["network", "conv MFLOP", "dense", "recurrent", "M floats", *PHONES]
    parts = [table(heads, costs)]
    for title, names in (("Nine cells: three networks", NINE), ("With Shakespeare, twelve cells", tuple(SECONDS))):
        parts.append(f"### {title}\n\n{error_table(names, steps)}")
    speeds = [
        [name, f"{one / 1e9:.3g}", *(f"{speed / 1e9:.3g}" for speed in own)]
        for name, (one, own) in phone_speeds(steps).items()
    ]
    heads = ["phone", "one speed", "convolution", "dense", "recurrent"]
    parts.append(f"### Speeds from all twelve cells, GFLOP/s\n\n{table(heads, speeds)}")
    return "\n\n".join(parts)


def error_table(names: Sequence[str], steps: dict[str, StepCounts]) -> str:
    """Errors of the forms, left out and fitted, with their medians."""
    forms: list[tuple[str, dict[str, list[float]]]] = [
        ("left out, one speed", left_out(names, steps, one_speed)),
        ("left out, by class", left_out(names, steps, by_class)),
        ("left out, as a Pi", left_out(names, steps, as_pi)),
        ("fitted, one speed", fitted(names, steps, one_speed)),
        ("fitted, by class", fitted(names, steps, by_class)),
    ]
    rows = [[name, *(" ".join(percent(found[name])) for _, found in forms)] for name in names]
    medians = [f"{median(abs(e) for cell in found.values() for e in cell):.0%}" for _, found in forms]
    return table(["network", *(title for title, _ in forms)], [*rows, ["median of sizes", *medians]])


def profile_text() -> str:
    """Every profile, its numbers, and what was measured."""
    rows = []
    for name, said in shipped().items():
        cells = [" / ".join(short(said[what].value) for what in whats if what in said) for _, whats in COLUMNS]
        measured = ", ".join(what for what, one in said.items() if one.measured)
        rows.append([name, *(cell or "-" for cell in cells), measured or "nothing"])
    return table(["profile", *(heading for heading, _ in COLUMNS), "measured"], rows)


def short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def host_text(scale: float) -> str:
    """This computer: `fedlapse calibrate`, and steps of networks that it did not see."""
    compute.quiet_torch()
    names = (*compute.FITTED, *compute.HELD_OUT)
    work = [job for name in names for job in compute.jobs(name, build(name, 0), input_shape(name), scale)]
    for name, length in compute.TEXTS.items():
        work += compute.text_jobs(name, build(name, 0), length, scale)
    kernels, timed = compute.calibration()
    every = compute.measured([*work, *timed], max(2, round(10 * scale)))
    profile = evaluated(kernels, every[len(work) :]).profile("host", "measured here", memory=1)
    rates = " / ".join(f"{getattr(profile, rate) / 1e9:.1f}" for rate in RATES)
    said = (
        "Calibrated, nothing fitted to the table: convolution / dense / recurrent / grouped / 1 x 1 in GFLOP/s, memory "
        f"/ convolutions in GB/s: {rates}; {1e6 * profile.overhead_s:.0f} us a step, {1e6 * profile.operator_s:.1f} an "
        f"operator, {1e6 * profile.convolution_s:.0f} a convolution; one speed {profile.flops_per_s / 1e9:.1f}.\n"
        f"({source(1)}, Python {platform.python_version()})"
    )
    return f"{said}\n\n{HOST_SAID}\n\n{host_table(work, every[: len(work)], profile)}"


def host_table(work: Sequence[Job], seconds: Sequence[float], profile: Profile) -> str:
    """Errors of the calibrated profile, and of speeds fitted to the other networks, with their medians."""
    found = {
        "calibrated, one speed": _on(profile.one_speed, work, seconds),
        "calibrated, by class": _on(profile, work, seconds),
        "left out, one speed": others_tell(work, seconds, profile, one_speed),
        "left out, by class": others_tell(work, seconds, profile, by_class),
    }
    rows = [
        [job.name, f"{1e3 * real:.2f}", *(f"{errors[k]:+.0%}" for errors in found.values())]
        for k, (job, real) in enumerate(zip(work, seconds, strict=True))
    ]
    for family, part in compute.FAMILIES.items():
        own = [k for k, job in enumerate(work) if part in job.model]
        medians = [f"{median(abs(errors[k]) for k in own):.0%}" for errors in found.values()]
        rows.append([f"**{family}**, median", "", *medians])
    rows.append(["**all**, median", "", *(f"{median(map(abs, errors)):.0%}" for errors in found.values())])
    return table(["step", "measured ms", *found], rows)


def page(host: str) -> str:
    text = Path(__file__).with_name("devices.txt").read_text(encoding="utf-8")
    values = {"today": str(date.today()), "flash": flash_text(flash_steps()), "profiles": profile_text(), "host": host}
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def host_of(page: str) -> str:
    """A description of this computer, for a page of results."""
    return page.partition(f"{HOST}\n\n")[2].partition("\n\nWhat remains.")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full work on this computer")
    parser.add_argument("--no-host", action="store_true", help="keep what docs/devices.md says of this computer")
    parser.add_argument("--out", type=Path, default=PAGE)
    said = parser.parse_args()
    if not said.out.parent.is_dir():
        parser.error(f"--out is {said.out}; there is no folder {said.out.parent}")
    host = host_of(PAGE.read_text(encoding="utf-8")) if said.no_host else host_text(said.scale)
    said.out.write_text(page(host), encoding="utf-8")
    print(f"{flash_text(flash_steps())}\n\n{HOST}\n\n{host}\n\nwrote {said.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
