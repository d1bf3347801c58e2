"""Batches of a stack of devices that may have different numbers of examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from algorithms.training.transfers import sent


@dataclass(frozen=True)
class StepBatches:
    """The batches of one step, for the k devices that take it.

    `places` (k, B): for each device, the indices of its batch's examples among the examples of all devices; `sizes`
    (k,), on the CPU: the number of examples that count in each batch.  The examples after these only pad a short batch.
    """

    places: Tensor
    sizes: Tensor

    def of(self, values: Tensor) -> Tensor:
        """Returns the batches' rows, (k, B, ...), of `values` (n, ...), which has one row for each example of all
        devices.  Indexing would take up to five times as long as index_select."""
        return values.index_select(0, self.places.flatten()).view(*self.places.shape, *values.shape[1:])

    @property
    def counted(self) -> Tensor | None:
        """True for examples that count, (k, B); None if all do."""
        width = self.places.shape[1]
        if bool((self.sizes == width).all()):
            return None
        return sent(torch.arange(width) < self.sizes[:, None], self.places.device)


def sums_of(losses: Tensor, counted: Tensor | None) -> Tensor:
    """Returns the sums (k,) of the losses (k, B) of batches, over the examples that count."""
    return (losses if counted is None else torch.where(counted, losses, 0)).sum(1)


def means_of(losses: Tensor, counted: Tensor | None) -> Tensor:
    """Returns the means (k,) of the losses (k, B) of batches, over the examples that count."""
    return losses.mean(1) if counted is None else sums_of(losses, counted) / counted.sum(1)


def schedule(
    orders: Sequence[Sequence[ndarray]], batch: int, on: torch.device, counts: Sequence[int] | None = None
) -> Iterator[StepBatches]:
    """Yields the batches of all steps, `batch` examples at a time, for examples on the device `on`.

    `orders` has, for each device, the order of its examples in each of its epochs; `counts`: the steps that each device
    takes, by default all of its epochs.  Devices with the most steps come first, so that the devices that take a step
    are always the first ones.
    """
    examples = np.array([len(epochs[0]) if epochs else 0 for epochs in orders])
    if counts is None:
        counts = [len(epochs) * -(-n // batch) for epochs, n in zip(orders, examples.tolist(), strict=True)]
    width, begins, steps = min(batch, examples.max()), np.cumsum(examples) - examples, max(counts)
    places, sizes = np.zeros((len(examples), steps, width), np.int64), np.zeros((len(examples), steps), np.int64)
    alike = defaultdict(list)  # devices by their examples and steps
    for k, (n, count) in enumerate(zip(examples.tolist(), counts, strict=True)):
        alike[n, count].append(k)
    for (n, count), these in alike.items():
        if n and count:
            drawn = np.array([orders[k] for k in these])
            own = [min(batch, n - start) for start in range(0, n, batch)] * drawn.shape[1]
            places[these, :count] = _batches(drawn, batch, width)[:, :count] + begins[these, None, None]
            sizes[these, :count] = own[:count]
    for step in range(steps):
        taking = sizes[: np.count_nonzero(sizes[:, step]), step].copy()
        chosen = np.ascontiguousarray(places[: len(taking), step, : taking.max()])
        yield StepBatches(sent(torch.from_numpy(chosen), on), torch.from_numpy(taking))


def _batches(drawn: ndarray, batch: int, width: int) -> ndarray:
    """Returns the batches (devices, steps, width) of devices with equally many examples; `drawn` (devices, epochs, n)
    has the order of the examples.  A short batch is padded with its own first example, whose loss is as finite as the
    batch's."""
    n, count = drawn.shape[2], -(-drawn.shape[2] // batch)
    first = drawn[:, :, [(count - 1) * batch]]  # the last batch of each
    return np.concatenate([drawn, np.repeat(first, count * width - n, 2)], 2).reshape(len(drawn), -1, width)


def stacked(values: Sequence[Tensor]) -> Tensor:
    """Returns the devices' tensors as one (K, *shape); a view if all devices have the same tensor."""
    first = values[0]
    if all(value is first for value in values):
        return first.expand(len(values), *first.shape)
    return torch.stack(list(values))


def by_length(lengths: Sequence[int]) -> list[int]:
    """Returns the indices of the devices by decreasing length."""
    return sorted(range(len(lengths)), key=lambda k: -lengths[k])
