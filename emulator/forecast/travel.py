"""The bytes of a model that travel, and those that stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from algorithms.training.tensors import frozen_of, kept_of, tensors_of
from emulator.lab.lab import Lab


@dataclass(frozen=True)
class Travel:
    """The bytes of a model's tensors, by what becomes of them."""

    travels: int  # in each message with the model
    kept: int  # by each device
    frozen: int
    brought: int  # of the frozen ones, to each device once, before the first round that it takes part in


def travel_of(lab: Lab) -> Travel | None:
    """Returns the bytes of the model by what becomes of them; None if all travel."""
    if not (lab.model.train or lab.model.keep):
        return None
    frozen = _bytes(frozen_of(lab.module))
    travels, kept = _bytes(tensors_of(lab.module)), _bytes(kept_of(lab.module))
    return Travel(travels, kept, frozen, frozen if lab.brings_frozen else 0)


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(value.nbytes for value in tensors.values())
