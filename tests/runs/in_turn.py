"""An algorithm of somebody's own, with a rule of its own for whom a round asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class InTurn(FedAvg):
    """FedAvg that asks the devices one after the other, in the order of their names."""

    cohort_rule: ClassVar[Literal["drawn", "own"]] = "own"

    def cohort(self, round: int, names: Sequence[str], count: int, seed: int) -> Sequence[str]:
        first = round * count
        return [names[(first + k) % len(names)] for k in range(min(count, len(names)))]


IN_TURN = {"algorithm": f"{__name__}:InTurn", "name": "in-turn"}  # as a scenario names it
