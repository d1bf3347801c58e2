"""Means of the devices' models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import accumulate, chain, islice
from typing import Protocol, cast

import torch
from torch import Tensor

from algorithms.algorithm import Reply, Tensors
from algorithms.training.transfers import elsewhere, fetched

BLOCK = 1 << 17  # coordinates: their mean and one upload, 2 MB in float64, fit into the caches of two cores
THREADS = 2
ROWS = 8  # uploads that are converted to float64 together


class TensorRow(Protocol):
    """Named tensors, one after the other in a single tensor `row`, on the CPU or a GPU.  The mean of such uploads is
    computed on the first row's device, with the same bits as elsewhere."""

    @property
    def row(self) -> Tensor: ...  # (parameters,)

    def apart(self, row: Tensor) -> Tensors:
        """Returns the named tensors in another row (parameters,) of the same layout."""


def weighted_mean(replies: Mapping[str, Reply], kind: str = "weights") -> Tensors:
    """Returns the mean of the uploads of this kind, tensor by tensor, weighted by the replies' `examples` (McMahan et
    al. 2017, Alg. 1, line 8), or by their `weight` if they have one.

    Means are computed in float64 and in the order of the names, so that they do not depend on the order of arrival.
    Integer buffers, such as BatchNorm's count of batches, take the largest value (docs/design/algorithms.md §15).
    Raises ValueError if all replies have 0 examples.
    """
    counted = _counted(replies)
    return _means(counted, kind, [reply.weight or reply.examples for reply in counted])


def plain_mean(replies: Mapping[str, Reply], kind: str) -> Tensors:
    """Returns the mean of the uploads of this kind with equal weights, computed as in `weighted_mean`.  Replies with 0
    examples do not count.

    Raises ValueError if all replies have 0 examples.
    """
    counted = _counted(replies)
    return _means(counted, kind, [1] * len(counted))


def importance_weighted_mean(replies: Mapping[str, Reply], kind: str) -> Tensors:
    """Returns the mean of the uploaded weights in which each device's coordinate is weighted by its importance.

    θ = Σ_k F̄^k ⊙ θ^k, where F̄ is the importance uploaded as `kind`, divided by its sum over the layer (a parameter
    tensor) in each device, then in each coordinate by the sum over the devices, so that Σ_k F̄^k = 1 (Kim et al. 2020,
    Eq. 2; docs/design/algorithms.md §9).  Negative importance counts as 0.  Coordinates without importance on any
    device, and weights without importance, such as buffers, are averaged by examples.  Raises ValueError if all replies
    have 0 examples.
    """
    counted = _counted(replies)
    means = weighted_mean(replies)
    for name in counted[0].upload[kind]:
        values = (reply.upload["weights"][name] for reply in counted)  # one at a time in memory
        shares = (_layer_shares(reply.upload[kind][name]) for reply in counted)
        by_examples = means[name]
        mean = torch.zeros_like(by_examples, dtype=torch.float64)
        total = torch.zeros_like(mean)
        for value, share in zip(values, shares, strict=True):
            total += share
            mean = mean.lerp(value.double(), torch.where(total > 0, share / total, 0.0))
        means[name] = torch.where(total > 0, mean.to(by_examples.dtype), by_examples)
    return means


def _counted(replies: Mapping[str, Reply]) -> list[Reply]:
    """Returns the replies with at least one example, in the order of their names."""
    counted = [replies[name] for name in sorted(replies) if replies[name].examples > 0]
    if not counted:
        raise ValueError(f"{len(replies)} replies count 0 examples together; a mean needs at least 1")
    return counted


def _means(counted: Sequence[Reply], kind: str, times: Sequence[float]) -> Tensors:
    """Returns the mean of each tensor of this kind over the uploads of the replies `counted`, weighted by `times`.  Two
    threads compute large tensors in blocks, which does not change the result."""
    uploads = [reply.upload[kind] for reply in counted]
    if all(hasattr(upload, "apart") for upload in uploads):  # isinstance of a Protocol takes 10 us
        rows = [cast(TensorRow, upload).row for upload in uploads]
        mean = _mean((row.to(rows[0].device) for row in rows), times)  # some may have been moved to the CPU
        return cast(TensorRow, uploads[0]).apart(fetched(mean))
    values = [_in_place(uploads[0], name) for name in uploads[0]]
    if sum(BLOCK if value is None else value.numel() for value in values) < BLOCK:  # starting threads takes longer
        return {name: _mean((_either(tensors, name) for tensors in uploads), times) for name in uploads[0]}
    with ThreadPoolExecutor(THREADS) as threads:
        under_way = {name: _begun(threads, uploads, name, times) for name in uploads[0]}
        return {name: mean() for name, mean in under_way.items()}


def _begun(
    threads: ThreadPoolExecutor, uploads: Sequence[Tensors], name: str, times: Sequence[float]
) -> Callable[[], Tensor]:
    """Starts the mean of the tensor `name`, and returns a function that waits for it.  A tensor that is small, or that
    some upload cannot give without a copy, is a single block."""
    values = [value for tensors in uploads if (value := _in_place(tensors, name)) is not None]
    if len(values) < len(uploads) or values[0].numel() <= BLOCK:
        return threads.submit(_mean, (tensors[name] for tensors in uploads), times).result
    mean = torch.empty(values[0].shape, dtype=values[0].dtype)
    blocks = zip(*(torch.split(value.reshape(-1), BLOCK) for value in (mean, *values)), strict=True)
    parts = [threads.submit(_fill, part, block, times) for part, *block in blocks]

    def whole() -> Tensor:
        for part in parts:
            part.result()
        return mean

    return whole


def _fill(part: Tensor, values: Sequence[Tensor], times: Sequence[float]) -> None:
    part.copy_(_mean(values, times))


def _in_place(tensors: Tensors, name: str) -> Tensor | None:
    # A view of the message: only for elementwise arithmetic, because a product's bits depend on the address.
    look: Callable[[str], Tensor | None] | None = getattr(tensors, "in_place", None)
    return tensors[name] if look is None else look(name)


def _either(tensors: Tensors, name: str) -> Tensor:
    """Returns the tensor `name`, without a copy if it can be read in place."""
    value = _in_place(tensors, name)
    return tensors[name] if value is None else value


def _mean(values: Iterable[Tensor], times: Sequence[float]) -> Tensor:
    """Returns the mean of the tensors `values`, weighted by `times`, in the first one's dtype; of integers, the largest
    in each coordinate.  Holds only a few of the tensors in memory at a time."""
    others = iter(values)
    first = next(others)
    if not first.is_floating_point():
        return reduce(torch.maximum, others, first.clone())
    # A running mean: unlike a sum divided at the end, it returns equal tensors unchanged.
    mean = torch.zeros(first.shape, dtype=torch.float64, device=first.device)
    for value, n, total in zip(_widened(chain([first], others), first), times, accumulate(times), strict=True):
        mean.lerp_(value, n / total)
    if not mean.sum().isfinite():  # only constants, as of a mask: the same in all uploads
        mean = mean.where(first.isfinite(), first)
    return mean.to(first.dtype)


def _widened(values: Iterable[Tensor], like: Tensor) -> Iterator[Tensor]:
    """Yields the tensors converted to float64; each is valid only until the next one is taken.  Small tensors, and
    tensors on a GPU, are converted several at a time."""
    at_once = ROWS if elsewhere(like.device) else min(ROWS, BLOCK // max(1, like.numel()))
    if at_once <= 1:
        wide = torch.empty_like(like, dtype=torch.float64)
        yield from (wide.copy_(value) for value in values)
        return
    rest = iter(values)
    while few := list(islice(rest, at_once)):
        yield from torch.stack(few).double()


def _layer_shares(importance: Tensor) -> Tensor:
    """Returns the importance in float64, scaled to the sum 1; all 0 if the layer has no importance."""
    positive = importance.double().clamp(min=0)
    whole = positive.sum()
    return positive / whole if whole > 0 else positive
