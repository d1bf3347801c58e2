"""Networks for the 8 x 8 digits, as scenarios name them."""

from torch import nn

DENSE, NORMED, TOLD = (f"{__name__}:{name}" for name in ("dense", "normed", "told"))


def dense() -> nn.Sequential:
    """64-12-10, with dropout: 910 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10))


def normed() -> nn.Sequential:
    """With the buffers of a BatchNorm."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))


def told() -> nn.Sequential:
    """With dropout of values that are hardly ever 0, so that its outputs tell what it dropped."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.3), nn.Linear(12, 10))
