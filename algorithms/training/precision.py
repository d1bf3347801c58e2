"""The precision of matrix products in local training. Weights, losses, gradients and updates are always float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from algorithms.algorithm import Precision
from algorithms.training.tensors import mapped


def outputs(precision: Precision, place: torch.device, network: Callable[[], Any]) -> Any:
    """Returns the network's outputs in float32; under bf16 its matrix products and convolutions are computed in
    bfloat16."""
    if precision != "bf16":
        return network()
    with torch.autocast(place.type, torch.bfloat16, cache_enabled=False):  # a cache would outlive a stack's step
        return mapped(Tensor.float, network())


@contextmanager
def multiplying(precision: Precision) -> Iterator[None]:
    """A context in which a GPU rounds the factors of float32 products to 10 bits if the precision is tf32."""
    settings: Sequence[Any] = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [each.allow_tf32 for each in settings]
    for each in settings if precision == "tf32" else ():
        each.allow_tf32 = True
    try:
        yield
    finally:
        for each, value in zip(settings, before, strict=True):
            each.allow_tf32 = value
