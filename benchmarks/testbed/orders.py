"""The order of algorithms by seconds per round, predicted beside measured, over networks, links and seeds.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product
from pathlib import Path
from statistics import fmean

from torch import nn

SEEDS = (1, 2, 3)
FEDCL = "{fedcl: {strength: 0.5, importance: sq, interval: 1}}"
ALGORITHMS = f"algorithms=[fedavg, {{fedprox: {{mu: 0.1}}}}, scaffold, {FEDCL}, {{fedcurv: {{strength: 0.5}}}}]"
NETWORKS = {"convolutions": "digits-cnn", "dense": "benchmarks.testbed.orders:dense"}
LINKS = {"narrow": 1.0, "wide": 4.0}  # rates and buffers, in units of those of rounds.yaml
RATES = {  # Mbit/s, and kB
    "server.link": {"up_mbit_s": 20, "down_mbit_s": 10, "buffer_kb": 150},
    "topology.slow": {"up_mbit_s": 4, "down_mbit_s": 8, "buffer_kb": 60},
    "topology.fast": {"up_mbit_s": 12, "down_mbit_s": 24, "buffer_kb": 180},
}
Seconds = Mapping[str, float]  # of a round, by algorithm


def dense(classes: int = 10) -> nn.Sequential:
    """Returns a network with about the bytes of digits-cnn (50,826 parameters) and a small part of its FLOPs."""
    widths = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes)]
    return nn.Sequential(nn.Flatten(), *widths)


@dataclass(frozen=True)
class Place:
    """A network on links of some width."""

    network: str
    links: str

    @property
    def changes(self) -> list[str]:
        """The changes that make this place of rounds.yaml."""
        times = LINKS[self.links]
        rates = [f"{link}.{key}={times * rate:g}" for link, of in RATES.items() for key, rate in of.items()]
        return [f"model={NETWORKS[self.network]}", ALGORITHMS, f"seeds={list(SEEDS)}", *rates]

    @property
    def kept(self) -> Path:
        """The file of what was measured here."""
        return Path(__file__).parent / "orders" / f"{self.network}-{self.links}.json"


PLACES = [Place(*each) for each in product(NETWORKS, LINKS)]


@dataclass(frozen=True)
class Cell:
    """Seconds per round at one place, predicted and measured, by seed."""

    place: Place
    predicted: Sequence[Seconds]
    measured: Sequence[Seconds]

    @property
    def alike(self) -> list[bool]:
        """By seed: the whole order is the predicted one."""
        each = zip(self.predicted, self.measured, strict=True)
        return [sorted(said, key=said.__getitem__) == sorted(took, key=took.__getitem__) for said, took in each]

    @property
    def pairs(self) -> Iterator[tuple[bool, bool]]:
        """Yields for each pair of algorithms and seed: all seeds have measured it in one order; its predicted order is
        the measured one."""
        for one, other in combinations(self.measured[0], 2):
            decided = len({took[one] < took[other] for took in self.measured}) == 1
            for said, took in zip(self.predicted, self.measured, strict=True):
                yield decided, (said[one] < said[other]) == (took[one] < took[other])


def means(each: Sequence[Seconds]) -> dict[str, float]:
    """Returns the mean seconds over seeds, by algorithm, fastest first."""
    found = {label: fmean(seconds[label] for seconds in each) for label in each[0]}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def order(each: Sequence[Seconds]) -> str:
    """Returns the algorithms by their mean seconds; `<` where all seeds have a pair of neighbours so, else `~`."""
    labels = list(means(each))
    signs = ["<" if all(took[a] < took[b] for took in each) else "~" for a, b in pairwise(labels)]
    return labels[0] + "".join(f" {sign} {label}" for sign, label in zip(signs, labels[1:], strict=True))


def agreement(cells: Sequence[Cell]) -> tuple[str, str, str]:
    """Returns as texts in how many runs the whole order agrees, for how many pairs, and for how many of those pairs
    whose measured order is the same with all seeds."""
    runs = [alike for cell in cells for alike in cell.alike]
    pairs = Counter(pair for cell in cells for pair in cell.pairs)
    right, clear = pairs[True, True] + pairs[False, True], pairs[True, True] + pairs[True, False]
    return f"{sum(runs)} of {len(runs)}", f"{right} of {pairs.total()}", f"{pairs[True, True]} of {clear}"


def missed(cells: Sequence[Cell]) -> list[str]:
    """Returns a sentence for each pair that all seeds measured in one order and all predict in the other."""
    return [
        f"{cell.place.network}, {cell.place.links}: {one} was faster than {other} with each seed, not as predicted"
        for cell in cells
        for one, other in permutations(cell.measured[0], 2)
        if all(took[one] < took[other] for took in cell.measured)
        and all(said[one] > said[other] for said in cell.predicted)
    ]


def table(cells: Sequence[Cell]) -> str:
    """Returns a line for each place and one for all of them."""
    lines = ["| network | links | measured | predicted | whole order | pairs | clear pairs |", "|---" * 7 + "|"]
    for cell in cells:
        both = order(cell.measured), order(cell.predicted)
        lines.append(f"| {' | '.join((cell.place.network, cell.place.links, *both, *agreement([cell])))} |")
    lines.append(f"| all | | | | {' | '.join(agreement(cells))} |")
    return "\n".join(lines)


TEXT = """### The order of algorithms

The order of five algorithms by their seconds per round, in {runs} runs of each of {rounds} rounds: two networks of
about 50,000 parameters (digits-cnn, and a dense one with a small part of its FLOPs), on links as above (*narrow*) and
on links with four times the rates and buffers (*wide*), with {seeds} seeds. Each run is predicted from the FedAvg of
its own seed; nothing else is calibrated. The measurement is kept in `benchmarks/testbed/orders/`.

The whole order is the predicted one in {whole} runs, and {pairs} pairs of algorithms in one run are in the predicted
order. Pairs are *clear* if they were measured in the same order with each seed; of these {clear} are as predicted. `~`
is between neighbours that change places from seed to seed. The bar to meet: no clear pair is predicted in the opposite
order with each seed.

{table}

Two cores ran all of it, with other work. Runs of one algorithm at one place then differ by tens of percent, which is
more than the difference between most algorithms if links are wide and a round is mostly training."""


def page(cells: Sequence[Cell], rounds: int) -> str:
    """Returns the part of docs/fidelity.md on the order of algorithms; `rounds`: of each run."""
    said = dict(zip(("whole", "pairs", "clear"), agreement(cells), strict=True))
    runs = sum(len(cell.measured) for cell in cells)
    return TEXT.format(runs=runs, rounds=rounds, seeds=len(SEEDS), table=table(cells), **said)
