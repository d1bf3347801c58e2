"""Examples of a stack of devices, batch by batch, where each device has its own number of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from algorithms.places import sent


@dataclass(frozen=True)
class Batches:
    """The batches of one step, of the devices that take it.

    `places` (k, B) are their examples among those of all devices, where these lie, and `sizes` (k,), on the CPU, how
    many of each batch count; the others fill up a short batch.
    """

    places: Tensor
    sizes: Tensor

    @property
    def counted(self) -> Tensor | None:
        """Which examples count, (k, B); None for all."""
        width = self.places.shape[1]
        if bool((self.sizes == width).all()):
            return None
        return sent(torch.arange(width) < self.sizes[:, None], self.places.device)


def sums_of(losses: Tensor, counted: Tensor | None) -> Tensor:
    """Sums of the losses (k, B) of batches, of which these count, (k,)."""
    return (losses if counted is None else torch.where(counted, losses, 0)).sum(1)


def means_of(losses: Tensor, counted: Tensor | None) -> Tensor:
    """The same as means."""
    return losses.mean(1) if counted is None else sums_of(losses, counted) / counted.sum(1)


def schedule(orders: Sequence[Sequence[ndarray]], batch: int, on: torch.device) -> Iterator[Batches]:
    """The batches of all steps, `batch` examples at a time, of examples that lie `on` this.

    `orders` has, for each device, the order of its examples in each epoch; those with most steps come first.  So the
    devices that take a step are the first ones.
    """
    examples = [len(epochs[0]) for epochs in orders]
    width, begins = min(batch, max(examples)), np.cumsum([0, *examples])
    plans = [_plan(epochs, batch, width) for epochs in orders]
    for step in range(len(plans[0][1])):
        active = [(plan, begin) for plan, begin in zip(plans, begins, strict=False) if step < len(plan[1])]
        sizes = np.array([plan[1][step] for plan, _ in active])
        places = np.stack([plan[0][step, : sizes.max()] + begin for plan, begin in active])
        yield Batches(sent(torch.from_numpy(places), on), torch.from_numpy(sizes))


def _plan(epochs: Sequence[ndarray], batch: int, width: int) -> tuple[ndarray, ndarray]:
    """A device's batches: examples (steps, width), and how many of each count (steps,).  A short batch is filled up
    with its own first example, whose loss is as finite as the batch's."""
    n = len(epochs[0])
    sizes = [min(batch, n - start) for start in range(0, n, batch)]
    rows = [np.empty(0, np.int64)]
    for drawn in epochs if n else ():
        rows += [drawn, np.repeat(drawn[n - sizes[-1] :][:1], len(sizes) * width - n)]
    return np.concatenate(rows).reshape(-1, width or 1), np.array(sizes * len(epochs))


def stacked(values: Sequence[Tensor]) -> Tensor:
    """With the devices' axis, (K, *shape): a view, if all devices have the same tensor."""
    first = values[0]
    if all(value is first for value in values):
        return first.expand(len(values), *first.shape)
    return torch.stack(list(values))


def by_length(lengths: Sequence[int]) -> list[int]:
    """The places of the devices, those with the most first."""
    return sorted(range(len(lengths)), key=lambda k: -lengths[k])
