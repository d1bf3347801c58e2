"""What the server knows of each device when it chooses whom it asks, and the interface of such a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Past(NamedTuple):
    """The server's knowledge of one device: its size, requests to it so far, and its replies that count in rounds or
    versions that have closed.  `round`, `seconds`, `staleness` and `loss` are those of the last such reply."""

    examples: int  # training examples that it holds, which it has told before the run
    asked: int = 0  # requests to it
    counted: int = 0  # its replies that count
    round: int = -1  # round in which its last reply counts; -1: none
    seconds: float = 0.0  # from the start of its download to the end of its upload
    staleness: int = 0
    loss: float | None = None  # in training; None: no reply has told it


class Pasts(dict[str, Past]):
    """The server's knowledge of each device, by name; a device without requests has at least its number of examples,
    which `examples` returns for its name."""

    def __init__(self, examples: Callable[[str], int]) -> None:
        super().__init__()
        self.examples = examples

    def __missing__(self, name: str) -> Past:
        self[name] = past = Past(self.examples(name))
        return past

    def ask(self, names: Sequence[str]) -> None:
        """Notes that these devices are asked."""
        for name in names:
            self[name] = self[name]._replace(asked=self[name].asked + 1)

    def count(self, name: str, **last: Any) -> None:
        """Notes a reply that counts in a round that has closed; `last` has the other fields of a Past."""
        self[name] = self[name]._replace(counted=self[name].counted + 1, **last)


Known = Mapping[str, Past]  # by device


class Selection(Protocol):
    """A rule that chooses devices.  It is pure, and a frozen dataclass whose fields are its options."""

    @property
    def loss_power(self) -> int:
        """The power p of the losses that replies carry, (mean of loss^p)^(1/p) over all examples of local training: 1
        is the mean, 2 the root of the mean square; 0: they carry none.  A class has it as a ClassVar."""

    def cohort(self, round: int, names: Sequence[str], count: int, past: Known, seed: int) -> Sequence[str]:
        """Returns the devices that this round asks: 1 to `count` of `names`, which are online and idle now, sorted.
        `past` has each of them; asynchronous: `count` is the number of free places, and `round` counts as many replies
        as devices are at work as one."""


def by_weight(weights: Sequence[float] | NDArray[Any], count: int, rng: np.random.Generator) -> list[int]:
    """Returns the places of `count` weights, drawn one after another without replacement, each with a probability
    proportional to its weight (Efraimidis and Spirakis 2006), in the order of the draw."""
    with np.errstate(divide="ignore"):
        keys = rng.exponential(size=len(weights)) / np.asarray(weights, float)
    drawn: list[int] = np.argsort(keys, kind="stable")[:count].tolist()
    return drawn
