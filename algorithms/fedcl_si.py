"""Synaptic intelligence (Zenke et al. 2017) over the rounds: a weight is important if its moves lowered the loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from algorithms.algorithm import Load, Loss, Message, Party, Phase, Tensors, Work
from algorithms.counting.estimation import estimation
from algorithms.importance.importance import Slope
from algorithms.training.tensors import load, travelling

SCORE = 5.0  # floats that `scored` moves for each parameter: ω (2, float64), both positions (2), Ω (1)
WALK = 8.0  # floats that `walked` moves: ω and gradient (2 + 2), both positions (2), ω again (2)


def begun(weights: Tensors, model: nn.Module) -> Message:
    """Returns what the server's state gets for synaptic intelligence: the sum ω for each weight, 0 at first ("path"),
    and the weights at which the path starts ("start")."""
    start = {name: weights[name] for name in travelling(model)}
    return {"path": {n: torch.zeros_like(v, dtype=torch.float64) for n, v in start.items()}, "start": start}


def extended(state: Message, weights: Tensors, server: Party) -> Message:
    """Returns the new "path", the sums ω, and the unchanged "start", after a round that moved the model from the
    state's weights to `weights`.  Takes the gradient of the proxy set's loss at the state's weights."""
    load(server.model, {**state["weights"], **server.own})
    gradient = slope(server.model, server.loss, server.x, server.y)
    return {"path": walked(state["path"], gradient, state["weights"], weights), "start": state["start"]}


def slope(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Tensors:
    """Returns the gradient of the mean loss over all examples, in float64 and in eval mode."""
    return Slope(model.eval(), loss, x, y).alone()


def walked(path: Tensors, slope: Tensors, before: Tensors, after: Tensors) -> Tensors:
    """Returns ω after one more move: ω - ∇L(θ_t) ⊙ (θ_{t+1} - θ_t), in float64 (Zenke et al., Eq. 3).

    The sum over all coordinates approximates the decrease of the loss, better for smaller moves.
    """
    return {n: omega - slope[n] * (after[n].double() - before[n].double()) for n, omega in path.items()}


def scored(path: Tensors, start: Tensors, now: Tensors, damping: float) -> Tensors:
    """Returns Ω = relu(ω) / ((θ - θ_start)² + ξ), in the precision of the weights (Zenke et al., Eq. 5, for one
    task)."""
    lengths = {name: (now[name].double() - start[name].double()).square() for name in path}
    return {name: (torch.relu(omega) / (lengths[name] + damping)).to(now[name].dtype) for name, omega in path.items()}


def work(load: Load) -> Work:
    """Returns the work of `extended`: one gradient of the proxy set's mean loss, and a step of the path."""
    (gradient,) = estimation("path", "mean_squared", load.examples, load.parameters)
    return (gradient, Phase("path", "forward", traffic=WALK * load.parameters))
