"""A network as a scenario says it: its pretrained weights, what of it is trained, and what never leaves a device."""

from __future__ import annotations

from dataclasses import dataclass

FROZEN = "frozen"  # why a tensor is in no message, and its kind in the one that brings it to each device once
KEPT = "kept-weights"  # why another is in no message, and its kind in a device's memory
TRAINABLE = "trainable"  # in place of patterns: what the module itself leaves with requires_grad


@dataclass(frozen=True)
class Network:
    """A network by name, and what is done with it once it is built (training/settled.py).  Patterns are as in
    algorithm.matches; "" means that nothing was said."""

    name: str  # one of models.MODELS, or a user's own, package.module:thing
    weights: str = ""  # path of a file with pretrained weights
    digest: str = ""  # SHA-256 of that file, in hex
    train: str = ""  # patterns of the parameters that are trained, or TRAINABLE; all others are frozen
    keep: str = ""  # patterns of the tensors that never leave a device
