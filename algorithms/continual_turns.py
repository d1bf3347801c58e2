"""The schedule of continual learning: which parameters each round of a cycle sends, trains and uploads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from algorithms.algorithm import Tensors, Training, matches

Variant = Literal["baseline", "alg0", "alg1", "alg2"]


@dataclass(frozen=True)
class Turn:
    """The parameters that a round sends, trains and uploads, as globs; "" means none."""

    name: str  # train, or retrain for the whole fleet
    down: str
    trained: str
    epochs: int
    up: str


@dataclass(frozen=True)
class CycleSchedule:
    """The rounds of all cycles (An Bian 2018, Algorithms 0 to 2); see algorithms.continual.Continual for the fields."""

    variant: Variant
    personal: str
    inner: int
    retrain_epochs: int
    literal: bool
    average: bool
    training: Training

    @property
    def asks_all(self) -> bool:
        """True if some rounds ask the whole fleet."""
        return self.variant != "baseline" or self.average

    def of(self, round: int) -> Turn:
        """Returns what the round does: FedAvg's training, or retraining if it is the last round of a block.

        A block is a whole cycle; with Algorithm 2, from cycle 1 on, each cycle has `inner` blocks.
        """
        apart = self.variant == "alg2" and self.training.cycle(round) > 0
        sent = self._shared if apart else "*"
        per_cycle = self.training.per_cycle
        if self.asks_all and per_cycle > 0 and (round + 1) % (per_cycle // (self.inner if apart else 1)) == 0:
            return self._retraining(round, sent)
        return Turn("train", sent, sent, int(self.training.epochs), sent)

    @property
    def _shared(self) -> str:
        """Globs of all parameters except the personal ones."""
        return " ".join(["*", *(f"!{glob}" for glob in self.personal.split())])

    def _retraining(self, round: int, sent: str) -> Turn:
        """Returns the turn of the last round of a block, which sends the parameters `sent`."""
        if self.variant == "baseline":
            return Turn("retrain", "*", "*", 0, "*")
        if self.variant == "alg0":
            return Turn("retrain", "*", "*", self.retrain_epochs, "*")
        minimal, literal = (self.personal, "*") if self.variant == "alg1" else ("", self._shared)
        ends_cycle = (round + 1) % self.training.per_cycle == 0
        up = literal if self.literal and ends_cycle else minimal
        return Turn("retrain", sent, self.personal, self.retrain_epochs, up)

    def check(self) -> None:
        """Raises ValueError if `inner` is above 1 without Algorithm 2, or if a cycle does not consist of `inner` equal
        blocks of 2 rounds or more."""
        per_cycle, block = self.training.per_cycle, self.training.per_cycle / self.inner
        if self.inner > 1 and self.variant != "alg2":
            raise ValueError(f"inner is {self.inner}; it must be 1, or more with alg2")
        if self.asks_all and per_cycle and (block < 2 or block % 1):
            raise ValueError(
                f"inner is {self.inner} and rounds.per_cycle {per_cycle}; a cycle must consist of so many equal blocks "
                "of 2 rounds or more: FedAvg's, then one that retrains"
            )

    def check_names(self, names: Sequence[str]) -> None:
        """Raises ValueError if the schedule needs data in time slices and they have none, or if `personal` names none
        of the parameters `names` or, with Algorithm 2, all of them."""
        if self.asks_all and not self.training.per_cycle:
            raise ValueError(f"rounds.per_cycle is 0; {self.variant} needs data that drift, and 2 rounds in a cycle")
        if self.variant in ("alg1", "alg2"):
            personal = [name for name in names if matches(name, self.personal)]
            if self.personal.split() and not personal:
                raise ValueError(f"personal is {self.personal!r}; it must name some of {', '.join(names)}")
            if self.variant == "alg2" and personal == list(names):
                raise ValueError(f"personal is {self.personal!r}; alg2 needs other parameters besides these, to share")


def part(tensors: Tensors, globs: str) -> Tensors:
    """Returns the tensors whose names match the globs."""
    return {name: value for name, value in tensors.items() if matches(name, globs)}
