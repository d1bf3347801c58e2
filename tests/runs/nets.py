"""Networks for the 8 x 8 digits, as scenarios name them."""

import random

import numpy as np
import torch
from torch import Tensor, nn

DENSE, NORMED, TOLD, TWICE, CENTRED, DEEP = (
    f"{__name__}:{name}" for name in ("dense", "normed", "told", "Twice", "Centred", "Deep")
)


def dense() -> nn.Sequential:
    """64-12-10, with dropout: 910 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10))


def normed() -> nn.Sequential:
    """With the buffers of a BatchNorm."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))


def told() -> nn.Sequential:
    """With dropout of values that are hardly ever 0, so that its outputs tell what it dropped."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.3), nn.Linear(12, 10))


class Twice(nn.Module):
    """64-64-64-10, whose two hidden layers have one weight: 4,746 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.b.weight = self.a.weight
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.head(torch.relu(self.b(torch.relu(self.a(x.flatten(1))))))
        return said


class Centred(nn.Module):
    """Centres its inputs by a running mean that is not saved, of the batches that it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(64, 16), nn.Linear(16, 10)
        self.register_buffer("seen", torch.zeros(64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training:
            self.seen = 0.9 * self.seen + 0.1 * x.detach().mean(0)
        said: Tensor = self.head(torch.relu(self.a(x - self.seen)))
        return said


class Deep(nn.Module):
    """Leaves a layer out at random (Huang et al. 2016), by Python's and by NumPy's generator, and so do its prices;
    and is noisy in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if not self.training or (random.random() < 0.7 and np.random.random() < 0.7):  # noqa: NPY002
            x = x + torch.relu(self.a(x))
        said: Tensor = self.head(x)
        return said if self.training else said + 0.01 * random.random() * torch.rand_like(said)


def batch_normed() -> nn.Sequential:
    """With a BatchNorm that keeps no statistics: it has no eval mode."""
    normed = nn.BatchNorm1d(12, track_running_stats=False)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), normed, nn.Linear(12, 10))


class Squeezed(nn.Sequential):
    """Forgets that there are examples, where there is one."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = super().forward(x)
        return outputs.squeeze()


class Looking(nn.Sequential):
    """Looks at the numbers that it returns."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = super().forward(x)
        assert outputs.sum().item() < 1e9
        return outputs


def lazy(classes: int) -> nn.Sequential:
    """Torch finds out at the first call how many inputs its layers have."""
    return nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(classes))


def said(classes: int) -> nn.Sequential:
    """The network for the 8 x 8 digits with its shapes stated."""
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 36, classes))


class Unreached(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.spare = nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self[1](self[0](x))
        return outputs
