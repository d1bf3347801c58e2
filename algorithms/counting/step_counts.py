"""The counts of one training step, which no machine changes: counted in cost.py, priced in devices/device.py."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class StepCounts:
    """The counts of one training step. Starting an operator costs time whatever its size (operators.py)."""

    flops: float = 0.0
    floats: float = 0.0  # numbers of 4 bytes that it reads from memory or writes there
    conv: float = 0.0  # of the FLOPs, those in convolutions; gradients of 1 x 1 ones are matrix products, so dense
    recurrent: float = 0.0  # and those in recurrent layers; the others are dense
    positions: float = 0.0  # of recurrent layers that compute one position after another
    operators: float = 0.0  # that it starts outside of recurrent layers, apart from convolutions
    convolutions: float = 0.0  # that it starts
    grouped: float = 0.0  # of the FLOPs in convolutions, those in grouped ones, as depthwise ones are
    pointwise: float = 0.0  # and those in 1 x 1 ones
    conv_floats: float = 0.0  # of the floats, those that convolutions read or write

    @property
    def dense(self) -> float:
        """FLOPs of matrix products outside of recurrent layers."""
        return self.flops - self.conv - self.recurrent

    def times(self, n: float) -> StepCounts:
        """Returns the counts of `n` such steps."""
        return StepCounts(*(n * value for value in astuple(self)))

    def towards(self, other: StepCounts, share: float) -> StepCounts:
        """Returns the point at `share` of the way to another; above 1 it lies beyond."""
        return StepCounts(*(a + (b - a) * share for a, b in zip(astuple(self), astuple(other), strict=True)))
