"""Networks for the 8 x 8 digits: one that learns at a quarter of the seconds that the shipped one takes, and others."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn


def small(classes: int = 10) -> nn.Sequential:
    """2,410 parameters: (n, 1, 8, 8) -> logits (n, classes)."""
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), fc1=nn.Linear(64, 32), relu=nn.ReLU(), fc2=nn.Linear(32, classes))
    )


def images(classes: int = 10) -> nn.Sequential:
    """3,098 parameters, with a convolution and dropout of both kinds."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 4, 3, padding=1),
            dropout1=nn.Dropout2d(0.1),
            conv2=nn.Conv2d(4, 8, 3),
            relu=nn.ReLU(),
            dropout2=nn.Dropout(0.2),
            flatten=nn.Flatten(),
            fc=nn.Linear(288, classes),
        )
    )


class Waits(nn.Sequential):
    """Looks at a value, for which a GPU must be waited for: its steps cannot be recorded."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        return super().forward(x) * (float(torch.ones((), device=x.device)) if x.is_cuda else 1.0)


def waits(classes: int = 10) -> nn.Sequential:
    """650 parameters."""
    return Waits(OrderedDict(flatten=nn.Flatten(), fc2=nn.Linear(64, classes)))
