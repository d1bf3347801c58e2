"""How the server makes one model of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from algorithms.algorithm import Reply, Tensors


def weighted_mean(replies: Mapping[str, Reply]) -> Tensors:
    """Mean of the uploaded weights, each counted `examples` times (McMahan et al. 2017, Alg. 1, line 8).

    Means are taken in float64 and in the order of the names, so the order of arrival leaves no trace.
    Integer buffers, such as BatchNorm's count of batches, take the largest value (algorithms.md §11).
    Raises ValueError if no reply counts an example.
    """
    counted = [replies[name] for name in sorted(replies) if replies[name].examples > 0]
    if not counted:
        raise ValueError(f"{len(replies)} replies count 0 examples together; a mean needs at least 1")
    examples = [reply.examples for reply in counted]
    return {
        name: _mean([reply.upload["weights"][name] for reply in counted], examples)
        for name in counted[0].upload["weights"]
    }


def _mean(values: Sequence[Tensor], examples: Sequence[int]) -> Tensor:
    if not values[0].is_floating_point():
        return torch.stack(list(values)).amax(0)
    # A running mean: unlike a sum that is divided at the end, it returns equal tensors as they are.
    mean = torch.zeros_like(values[0], dtype=torch.float64)
    total = 0
    for value, n in zip(values, examples, strict=True):
        total += n
        mean.lerp_(value.double(), n / total)
    return mean.to(values[0].dtype)
