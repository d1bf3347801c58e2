"""The counts of one training step, equal on all machines: counted in cost.py, priced in devices/device.py."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class StepCounts:
    """The counts of one training step. Starting an operator costs time whatever its size (operators.py)."""

    flops: float = 0.0
    floats: float = 0.0  # numbers of 4 bytes that it reads from memory or writes to it
    conv: float = 0.0  # FLOPs in convolutions
    recurrent: float = 0.0  # FLOPs in recurrent layers; the others are dense
    positions: float = 0.0  # positions in recurrent layers that are computed one after another
    operators: float = 0.0  # started outside of recurrent layers, without convolutions
    convolutions: float = 0.0  # started convolutions

    @property
    def dense(self) -> float:
        """FLOPs of matrix products outside of recurrent layers."""
        return self.flops - self.conv - self.recurrent

    def times(self, n: float) -> StepCounts:
        """Returns the counts of `n` such steps."""
        return StepCounts(*(n * value for value in astuple(self)))

    def towards(self, other: StepCounts, share: float) -> StepCounts:
        """Returns the interpolation at `share` of the way to another; above 1 it extrapolates."""
        return StepCounts(*(a + (b - a) * share for a, b in zip(astuple(self), astuple(other), strict=True)))
