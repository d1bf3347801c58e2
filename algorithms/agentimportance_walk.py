"""Path scores of the Riemannian walk (Chaudhry et al. 2018): the amount by which each weight's moves lowered the
loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.algorithm import Tensors

RECENT = 0.9  # α: weight of the latest gradient in the running Fisher (Chaudhry et al. 2018, Eq. 6)

# Floats that a Walk holds for each parameter: last and first position of the window, gradient, Fisher, gain, score.
HELD = 6.0
SCORE = 1.0  # floats for each parameter that remain after training: the score
# Floats that a Walk moves for each parameter. In a step: move (3), gain (4), position (2), g² (2), Fisher (3), gradient
# (2).
STEP = 16.0
# At a window's end: move (3), its square (2), times Fisher (3), times ½ (2), plus ξ (2), quotient (3), relu (2), score
# (3), gain (1), position (2).
CLOSE = 23.0


@dataclass
class Path:
    """The path of one parameter in the window, and its gain so far; all tensors have the parameter's shape."""

    place: Tensor  # θ_i
    start: Tensor  # θ at the beginning of the window
    slope: Tensor  # gradient of the loss at θ_i, without penalties
    fisher: Tensor  # F_run: a moving mean of squared batch gradients
    gain: Tensor  # Δℓ of the window
    score: Tensor  # s
    steps: int = 0


class Walk:
    """Records local training and scores how much each weight's moves lowered the loss, relative to their length.

    Each step adds -g (θ_{i+1} - θ_i) to Δℓ, where g is the gradient of the batch's loss without any penalty.  After
    every `window` steps (Δt), and after the last step, s += relu(Δℓ / (½ F_run Δθ² + ξ)), where Δθ is the window's move
    and ξ = `damping`; then Δℓ restarts at 0 (Chaudhry et al. 2018, Eq. 7 and 8).  F_run is the moving mean (1 - α)
    F_run + α g² with α = 0.9, initialised with the first g².
    """

    def __init__(self, window: int, damping: float) -> None:
        self.window, self.damping = window, damping
        self.paths: dict[str, Path] = {}

    @torch.no_grad()
    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        """Records the position and gradient of one parameter at the start of a step, which is also the end of the
        previous step."""
        if name not in self.paths:
            place, slope = parameter.detach().clone(), grad.clone()
            zeros = (torch.zeros_like(place), torch.zeros_like(place))
            self.paths[name] = Path(place, place.clone(), slope, slope.square(), *zeros)
            return
        path = self.paths[name]
        self._arrive(path, parameter)
        path.fisher.lerp_(grad.square(), RECENT)
        path.slope.copy_(grad)

    @torch.no_grad()
    def scores(self, weights: Tensors) -> Tensors:
        """Returns the score s of each parameter after training that ended at `weights`.  Call it once, because it
        empties the walk."""
        for name, path in self.paths.items():
            self._arrive(path, weights[name])
            if path.steps % self.window:
                self._close(path)
        scores = {name: path.score for name, path in self.paths.items()}
        self.paths.clear()
        return scores

    def _arrive(self, path: Path, place: Tensor) -> None:
        path.gain.addcmul_(path.slope, place - path.place, value=-1)
        path.place.copy_(place)
        path.steps += 1
        if path.steps % self.window == 0:
            self._close(path)

    def _close(self, path: Path) -> None:
        length = (path.place - path.start).square_().mul_(path.fisher).mul_(0.5).add_(self.damping)
        path.score += (path.gain / length).relu_()
        path.gain.zero_()
        path.start.copy_(path.place)


def traffic(window: int) -> float:
    """Returns the floats that a Walk moves for each parameter per step, on average over a window."""
    return STEP + CLOSE / window
