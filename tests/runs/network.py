"""A network that learns the 8 x 8 digits at a quarter of the seconds that the shipped one takes."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def small(classes: int = 10) -> nn.Sequential:
    """2,410 parameters: (n, 1, 8, 8) -> logits (n, classes)."""
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), fc1=nn.Linear(64, 32), relu=nn.ReLU(), fc2=nn.Linear(32, classes))
    )
