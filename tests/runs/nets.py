"""Networks for the 8 x 8 digits, as scenarios name them."""

from torch import Tensor, nn

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


def lazy(classes: int) -> nn.Sequential:
    """Torch finds out at the first call how many inputs its layers have."""
    return nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(classes))


def said(classes: int) -> nn.Sequential:
    """The same for the 8 x 8 digits, said."""
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 36, classes))


class Unreached(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.spare = nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self[1](self[0](x))
        return outputs
