"""The training and test examples of the devices of a large fleet.  Each device draws its examples when they are needed,
independently of the other devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy import ndarray

from devices import splits
from devices.data.dataset import Dataset
from scenarios.builders.random_values import generator
from scenarios.builders.roster import Made, sample

Slices = tuple[ndarray, ...]  # a device's examples of each time slice
HELD = ("train", "validation", "tests")
REMEMBERED = 1_000, 10_000  # cached devices, at least, and at most: of which many may be at work at once
CACHE = 100_000_000  # bytes, above which fewer are cached


def by_cycle(chosen: ndarray, cycle: ndarray | None, cycles: int) -> Slices:
    """Divides the indices `chosen` by time slice; `cycle`: the slice of each example of the data set, None if there is
    only one."""
    return (chosen,) if cycle is None else tuple(chosen[cycle[chosen] == each] for each in range(cycles))


@dataclass(frozen=True)
class SplitInput:
    """The labels and time slices of a data set, by which it is divided among devices; small enough for workers."""

    labels: ndarray | None  # (n,); None unless each has one class
    labels_test: ndarray
    tests: int
    cycle: ndarray | None
    cycle_test: ndarray | None
    cycles: int

    @classmethod
    def of(cls, data: Dataset) -> SplitInput:
        tested = data.y_test[:0] if data.labels is None else data.y_test
        return cls(data.labels, tested, len(data.y_test), data.cycle, data.cycle_test, data.cycles)

    def test_shards(self, own: ndarray, devices: int, rng: np.random.Generator) -> Slices:
        """Returns, for each time slice, the indices of test examples for a device that trains on the examples `own`,
        with labels in about the same proportions.  `devices`: the number of devices that share the test examples."""
        found = []
        for pool in by_cycle(np.arange(self.tests), self.cycle_test, self.cycles):
            size = len(pool) // devices  # 0 in a fleet larger than the test set
            if self.labels is None:
                found.append(np.sort(rng.choice(pool, size, replace=False)))
                continue
            labels, mine = self.labels_test[pool], self.labels[own]
            if size:  # at most the number of examples with its labels
                size = min(size, int(np.isin(labels, mine).sum()))
            found.append(pool[splits.test_shard(mine, labels, size, rng)] if size else np.zeros(0, np.int64))
        return tuple(found)


@dataclass(frozen=True)
class Drawing:
    """The rule by which each device of a large fleet draws its examples: with a random generator of its own, seeded by
    `root` and the device's name."""

    known: SplitInput
    pool: ndarray
    proxy: ndarray
    each: int
    held_out: float
    devices: int
    root: int

    def shares(self, fleet: Collection[str]) -> dict[str, Mapping[str, Slices]]:
        """Returns {"train" | "validation" | "tests": {device: indices by time slice}}, which are drawn when they are
        read.  Draws for a sample of the devices at once, and raises ValueError if one of them has no examples to train
        on."""
        least, most = REMEMBERED
        each = 1000 + 2 * self.pool.itemsize * self.each  # bytes: its training and test examples, some objects
        drawn = Made(fleet, self.of, min(most, max(least, CACHE // each)))
        for name in sample(fleet) if self.known.cycles > 1 else sample(fleet)[:1]:
            drawn.get(name)
        return {part: Made(fleet, partial(_part, drawn, number), keep=0) for number, part in enumerate(HELD)}

    @cached_property
    def apart(self) -> ndarray:
        """For each index up to the largest one in use: true if the example is not in the proxy set, the server's own
        examples."""
        apart = np.ones(1 + max(self.pool.max(initial=0), self.proxy.max(initial=0)), bool)
        apart[self.proxy] = False
        return apart

    def of(self, name: str) -> tuple[Slices, Slices, Slices]:
        """Returns one device's training examples, held-out examples and test examples, each as indices by time
        slice."""
        rng = generator(self.root, name)
        own = self.pool[splits.draw(len(self.pool), 1, self.each, rng)[0]]
        parts = by_cycle(own, self.known.cycle, self.known.cycles)
        slices = [splits.hold_out(part, self.held_out, rng) for part in parts]
        for cycle, (train, _) in enumerate(slices):
            if not len(train):
                raise ValueError(f"{self.each} examples leave {name} without any to train on in time slice {cycle}")
        validation = tuple(kept[self.apart[kept]] for _, kept in slices)
        return tuple(train for train, _ in slices), validation, self.known.test_shards(own, self.devices, rng)


def _part(drawn: Mapping[str, tuple[Slices, ...]], number: int, name: str) -> Slices:
    return drawn[name][number]
