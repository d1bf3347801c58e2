"""The counts of one training step, equal on all machines: counted in cost.py, priced in devices/device.py."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class StepCounts:
    """The counts of one training step. Starting an operator costs time whatever its size (operators.py)."""

    flops: float = 0.0
    floats: float = 0.0  # numbers of 4 bytes that it reads from memory or writes to it
    conv: float = 0.0  # FLOPs in convolutions; the gradients of 1 x 1 ones are matrix products, so dense
    recurrent: float = 0.0  # FLOPs in recurrent layers; the others are dense
    positions: float = 0.0  # positions in recurrent layers that are computed one after another
    operators: float = 0.0  # started outside of recurrent layers, without convolutions
    convolutions: float = 0.0  # started convolutions
    grouped: float = 0.0  # FLOPs in grouped convolutions, as depthwise ones: a part of `conv`
    pointwise: float = 0.0  # FLOPs in 1 x 1 convolutions: a part of `conv`
    conv_floats: float = 0.0  # numbers that convolutions read or write: a part of `floats`

    @property
    def dense(self) -> float:
        """FLOPs of matrix products outside of recurrent layers."""
        return self.flops - self.conv - self.recurrent

    def times(self, n: float) -> StepCounts:
        """Returns the counts of `n` such steps."""
        return StepCounts(*(n * value for value in astuple(self)))

    def towards(self, other: StepCounts, share: float) -> StepCounts:
        """Returns counts between these (`share` 0) and those of `other` (`share` 1), interpolated linearly; above 1
        extrapolated."""
        return StepCounts(*(a + (b - a) * share for a, b in zip(astuple(self), astuple(other), strict=True)))
