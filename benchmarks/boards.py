"""How well profiles of boards predict measured training steps: `python -m benchmarks.boards`.

--data is a table of seconds per step, a network of timm a row (columns: BOARDS and TASKS).  Fits pi-4 to all networks
but one family at a time, and to those measured on pi-5 the factors by which it is faster than that pi-4; writes
docs/boards.md with the seconds of the family that was left out of both, predicted beside measured, and prints the rates
of a fit to all.  The counts
of the networks' steps are kept in boards.json; --count makes them again, which takes minutes and needs timm.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from algorithms.counting.step_counts import StepCounts
from benchmarks.devices import table
from devices.device import Profile, numbers_of, profiles
from devices.profiles import NAMED
from emulator.forecast.fitting import FAR, RATES, fitted, predicted
from emulator.forecast.step_table import counted

DATA = Path(__file__).parents[2] / "shared/data/boards/pi_training.csv"
PAGE = Path(__file__).parents[1] / "docs/boards.md"
COUNTS = Path(__file__).with_suffix(".json")  # network -> task -> its step
STEP = (16, "3x224x224")  # batch and shape
TASKS = {"train": "all weights", "head": "head only"}
TRAINS = {"train": "all", "head": "head"}
BOARDS = {"pi4": "pi-4", "pi5": "pi-5"}  # columns are named pi4_train_s
SAME = {"deit": "vit"}  # a family under another name
START = {
    **dict.fromkeys(RATES, 1e10),
    "memory_bytes_per_s": 2e9,
    "conv_bytes_per_s": 2e9,
    "flops_per_s": 1e10,
    "recurrent_flops_per_s": None,  # no network has such layers
}
PARTS = (  # of a profile: pi-5 has one factor for each
    ("flops_per_s", "conv_flops_per_s", "dense_flops_per_s", "grouped_flops_per_s", "pointwise_flops_per_s"),
    ("memory_bytes_per_s",),
    ("conv_bytes_per_s",),
)
FREE = 1e-3  # weight of START, which pi-4 is drawn to: nearly none, as it has 56 cells


@dataclass(frozen=True, eq=False)
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


def read(path: Path) -> tuple[Row, ...]:
    """Returns the rows of a table of measured steps: two for each network, one for each of TASKS; seconds.

    Raises KeyError for a network whose step is not counted in COUNTS.
    """
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return tuple(_row(line, task, StepCounts(**counts[line["network"]][task])) for line in lines for task in TASKS)


def _row(line: Mapping[str, str], task: str, step: StepCounts) -> Row:
    texts = {board: line[f"{column}_{task}_s"] for column, board in BOARDS.items()}
    return Row(line["network"], task, step, {board: float(text) for board, text in texts.items() if text})


def count(path: Path) -> None:
    """Writes COUNTS for the networks of a table of measured steps."""
    with path.open(encoding="utf-8", newline="") as file:
        names = {line["network"]: line["timm_name"] for line in csv.DictReader(file)}
    found = {
        network: {task: asdict(counted(f"timm:{name}", *STEP, trains)) for task, trains in TRAINS.items()}
        for network, name in names.items()
    }
    COUNTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@cache
def profile_of(board: str, rows: tuple[Row, ...]) -> Profile:
    """Returns the board's shipped profile with the rates that the rows give.

    pi-5 is pi-4 as these rows give it, times one factor for each of PARTS.
    """
    cells = [(row.step, row.seconds[board]) for row in rows if board in row.seconds]
    if board == "pi-4":
        return fitted(cells, replace(profiles()[board], **START), FREE)
    shape = profile_of("pi-4", rows)
    own = replace(profiles()[board], **{rate: getattr(shape, rate) for rate in (*RATES, "flops_per_s")})

    def times(logs: NDArray[np.float64]) -> Profile:
        factors = zip(PARTS, np.exp(logs), strict=True)
        return replace(own, **{rate: getattr(own, rate) * factor for part, factor in factors for rate in part})

    def errors(logs: NDArray[np.float64]) -> list[float]:
        return [np.log(predicted(step, times(logs)) / seconds) for step, seconds in cells]

    return times(least_squares(errors, np.zeros(len(PARTS)), loss="soft_l1", f_scale=FAR).x)


def judged(board: str, rows: tuple[Row, ...]) -> list[tuple[Row, float]]:
    """Returns each row of the board with the seconds that a fit to the other families predicts: for pi-5, of both
    boards."""
    families = dict.fromkeys(row.family for row in rows if board in row.seconds)
    others = {family: profile_of(board, tuple(row for row in rows if row.family != family)) for family in families}
    own = sorted((row for row in rows if board in row.seconds), key=lambda row: [*families].index(row.family))
    return [(row, predicted(row.step, others[row.family])) for row in own]


def text(board: str, found: Sequence[tuple[Row, float]]) -> str:
    """Returns a line for each task and a table of the predictions for one board."""
    lines, rows = [], []
    for task, what in TASKS.items():
        own = sorted((pair for pair in found if pair[0].task == task), key=lambda pair: pair[0].seconds[board])
        real, told = [row.seconds[board] for row, _ in own], [seconds for _, seconds in own]
        errors = [seconds / took - 1 for seconds, took in zip(told, real, strict=True)]
        worst = max(range(len(own)), key=lambda i: abs(errors[i]))
        swapped = sum(a > b for a, b in pairwise(told))
        lines.append(
            f"* {what}, {len(own)} networks: off by {median(map(abs, errors)):.0%} in the median, "
            f"{errors[worst]:+.0%} at worst ({own[worst][0].network});\n"
            f"  rank correlation {spearmanr(real, told)[0]:.3f}, {swapped} neighbouring pairs swapped"
        )
        rows += [
            [row.network, what, f"{took:.2f}", f"{seconds:.2f}", f"{error:+.0%}"]
            for (row, seconds), took, error in zip(own, real, errors, strict=True)
        ]
    return "\n".join([*lines, "", table(["network", "trained", "measured s", "predicted s", "error"], rows)])


def rates_text(profile: Profile) -> str:
    rates = ((name, value, NAMED[name].unit) for name, value in numbers_of(profile).items())
    return "\n".join(f"* {name}: {value:.4g} {unit}" for name, value, unit in rates if unit.endswith("/s"))


def page(rows: tuple[Row, ...]) -> str:
    """Returns docs/boards.md."""
    parts = [SAID]
    for board in BOARDS.values():
        parts += [f"## {board}, each family of networks left out", text(board, judged(board, rows))]
        parts += [f"Fitted to all networks:\n\n{rates_text(profile_of(board, rows))}"]
    return "\n\n".join([*parts, REMAINS]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="table of measured steps")
    parser.add_argument("--count", action="store_true", help="count the steps of its networks again, with timm")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    if not given.data.is_file():
        parser.error(f"--data is {given.data}; there is no such file")
    if not given.out.parent.is_dir():
        parser.error(f"--out is {given.out}; there is no folder {given.out.parent}")
    if given.count:
        count(given.data)
    given.out.write_text(page(read(given.data)), encoding="utf-8")
    print(f"{given.out.read_text(encoding='utf-8')}\nwrote {given.out}")
    return 0


SAID = """\
# Boards: seconds of a training step, predicted and measured

Made by `python -m benchmarks.boards`.

The measured seconds are those of one step with 16 images of 3 x 224 x 224 (1,000 classes, SGD, float32, four cores): 28
networks on a Raspberry Pi 4 Model B and 11 of them on a Raspberry Pi 5, each with all weights trained and with the last
layer alone, by 64-bit PyTorch 1.13. They were measured for federated-embedded-vision (jafermarq, Apache-2.0, 2023).

The profiles `pi-4` and `pi-5` are fitted to these figures: the speeds of convolutions, grouped convolutions, 1 x 1
convolutions and dense products, and the bandwidths of convolutions and of all other operators. Overheads are assumed.
In the tables each family of networks is predicted from a fit to all other families. The Pi 5 is the Pi 4 times three
factors, because its few networks do not determine all rates: one for all speeds, one for the bandwidth of convolutions
and one for that of all other operators. A family is left out of both fits.

**What the figures do not say.**

* *Other software.* The same board with a 32-bit system, or with an interpreter that has no kernels for its processor,
  can take 50 times as long.
* *Small networks.* None was measured. The step of a network with a few thousand weights takes what it costs to start
  its operators, which the profiles assume ([devices.md](devices.md#raspberry-pis)).
* *Recurrent layers.* None was measured; they have the profile's single speed.
* *Heat.* It is not known how the boards were cooled, or whether they throttled. A group with `throttling: true` slows
  down to 0.7 of these speeds, so heat may count twice.
* *Measuring.* The seconds are the mean of 20 batches with no warm-up, so they include the first, slow step and some
  waiting for image files."""
REMAINS = """\
## What remains

Convolutions of one kind do not have one speed. The heads of convnext are predicted too slow by up to a half, the
training of all its weights by a seventh at most: its depthwise convolutions have 7 x 7 kernels, whose forward pass is
faster per FLOP than that of the 3 x 3 ones in the mobile networks. The 3 x 3 convolutions of small residual networks
(resnet18) are slower than the average. Small vision transformers (deit_tiny) are faster, because their activations stay
in the caches.

On the Pi 5 resnet18 and resnet34 are predicted a third too fast, as on the Pi 4, if the resnets are left out. Which
rates share a factor was chosen after some ten ways had been tried on these 11 networks, so the medians are optimistic.
One factor for all rates is off by 12 % (median) for each task, -33 % at worst.

`fedlapse calibrate --from` fits a profile to networks like yours."""


if __name__ == "__main__":
    sys.exit(main())
