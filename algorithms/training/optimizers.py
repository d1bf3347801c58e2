"""Optimisers of local training: plain SGD, Adam, AdamW, or a user's own; each round starts with a fresh one.

The steps are those of torch.optim, by its fused kernels: 0.9 ms each instead of 1.5 (MNIST CNN, SGD with momentum).
The kernels are elementwise, so no order of summation changes, and they work on one device or on a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from algorithms.algorithm import Tensors, Training

BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam and AdamW, as torch's defaults
SIDE = 64  # of the square parameter on which an own optimiser's state is counted


def descent(training: Training, round: int, stacked: bool = False) -> Descent:
    """Returns the optimiser of one round; `stacked`: for tensors (devices, *shape)."""
    kind = {"sgd": SGD, "adam": Adam, "adamw": Adam}.get(training.optimizer, Own)
    return kind(training, round, stacked)


class Descent:
    """The steps of one round: clips the gradients, then moves the parameters."""

    recordable: ClassVar[bool] = True  # true if steps differ in tensors only, so that they can be recorded on a GPU

    def __init__(self, training: Training, round: int, stacked: bool) -> None:
        self.training, self.stacked = training, stacked
        self.rate: float | Tensor = training.rate(round)  # a tensor () in a recorded step (stack_graph.py)
        self.state: dict[str, Tensors] = {}  # slot -> parameter name -> tensor

    @torch.no_grad()
    def step(self, parameters: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        """Moves the parameters that have a gradient, in place; clipping also changes the gradients in place.  In a
        stack, a step may have fewer devices than the step before; these are the first ones."""
        if self.training.clip_norm and grads:
            self._clip(grads)
        self._move(parameters, grads)

    def begin(self, parameters: Mapping[str, Tensor]) -> None:
        """Makes all tensors of the state now, so that steps keep their places in memory."""

    def tensors(self) -> list[Tensor]:
        """Returns the rate, if it is a tensor, and the state, always in the same order."""
        rate = [self.rate] if isinstance(self.rate, Tensor) else []
        return [*rate, *(tensor for slot in self.state.values() for tensor in slot.values())]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Descent:
        """Returns a copy that has `change(t)` in place of each tensor t."""
        found = copy(self)
        found.rate = change(self.rate) if isinstance(self.rate, Tensor) else self.rate
        found.state = {key: {name: change(value) for name, value in slot.items()} for key, slot in self.state.items()}
        return found

    def _move(self, parameters: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def _clip(self, grads: Mapping[str, Tensor]) -> None:
        """Scales each device's gradient to the norm `clip_norm` at most, as torch.nn.utils.clip_grad_norm_ does."""
        squares = [grad.square().reshape(len(grad) if self.stacked else 1, -1).sum(1) for grad in grads.values()]
        factor = (self.training.clip_norm / (torch.stack(squares).sum(0).sqrt() + 1e-6)).clamp(max=1.0)
        for grad in grads.values():
            grad.mul_(factor.view(-1, *[1] * (grad.dim() - 1)) if self.stacked else factor[0])

    def _first(self, value: Tensor, like: Tensor) -> Tensor:
        """Returns the rows of the devices that take this step."""
        return value[: len(like)] if self.stacked else value


class SGD(Descent):
    """SGD with momentum, Nesterov's too, and weight decay.

    The same bits as torch.optim.SGD(fused=True), which would import torch's compiler: a second of CPU and 70 MB in each
    process.
    """

    def begin(self, parameters: Mapping[str, Tensor]) -> None:
        if self.training.momentum:
            self.state = {"momentum": {name: torch.zeros_like(value) for name, value in parameters.items()}}

    def _move(self, parameters: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        kept = self.state.get("momentum", {})
        momentum = [self._first(kept[name], grad) if name in kept else None for name, grad in grads.items()]
        sgd(
            [parameters[name] for name in grads],
            list(grads.values()),
            momentum,
            foreach=False,
            fused=True,
            lr=self.rate,  # type: ignore[arg-type]  # or a tensor
            momentum=self.training.momentum,
            weight_decay=self.training.weight_decay,
            dampening=0,
            nesterov=self.training.nesterov,
            maximize=False,
        )
        if not kept:
            made = {name: own for name, own in zip(grads, momentum, strict=True) if own is not None}
            self.state = {"momentum": made} if made else {}


class Adam(Descent):
    """Adam (Kingma and Ba 2015, Alg. 1), with weight decay as an L2 penalty, and AdamW (Loshchilov and Hutter 2019,
    Alg. 2), with decoupled weight decay."""

    def begin(self, parameters: Mapping[str, Tensor]) -> None:
        zeros = [{name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2)]
        # One count for each parameter, because the kernel adds 1 to each that it gets.
        counts = {name: torch.zeros((), device=value.device) for name, value in parameters.items()}
        self.state = {"mean": zeros[0], "square": zeros[1], "count": counts}

    def _move(self, parameters: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        if not self.state:
            self.begin(parameters)
        mean, square, count = self.state.values()
        adam(
            [parameters[name] for name in grads],
            list(grads.values()),
            [self._first(mean[name], grad) for name, grad in grads.items()],
            [self._first(square[name], grad) for name, grad in grads.items()],
            [],
            [count[name] for name in grads],
            foreach=False,
            fused=True,
            decoupled_weight_decay=self.training.optimizer == "adamw",
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.rate,
            weight_decay=self.training.weight_decay,
            eps=EPSILON,
            maximize=False,
        )


class Own(Descent):
    """A user's own optimiser, `package.module:factory`, which `made` calls; in a stack each device has its own, on its
    row of the tensors, because the optimiser may join the parameters of a device, as LAMB does."""

    recordable: ClassVar[bool] = False

    def __init__(self, training: Training, round: int, stacked: bool) -> None:
        super().__init__(training, round, stacked)
        self.devices: list[tuple[Any, Mapping[str, Tensor]]] = []  # each with its optimiser and parameters

    def _move(self, parameters: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        if not self.devices:
            rows: Sequence[Mapping[str, Tensor]] = [parameters]
            if self.stacked:
                count = len(next(iter(parameters.values())))
                rows = [{name: nn.Parameter(value[k]) for name, value in parameters.items()} for k in range(count)]
            rate = float(self.rate)
            self.devices = [(made(self.training, list(row.values()), rate), row) for row in rows]
        active = len(next(iter(grads.values()), ())) if self.stacked else 1
        for k, (optimizer, row) in enumerate(self.devices[:active]):
            for name, parameter in row.items():
                grad = grads.get(name)
                parameter.grad = grad if grad is None or not self.stacked else grad[k]
            optimizer.step()


def made(training: Training, parameters: Sequence[Tensor], rate: float) -> Any:
    """Returns the user's own optimiser of these parameters: its factory is called with them, `lr`, and those of
    `momentum`, `nesterov` and `weight_decay` that the scenario sets.  Raises TypeError if it has no `step`."""
    said = {key: value for key in ("momentum", "nesterov", "weight_decay") if (value := getattr(training, key))}
    found = resolve_name(training.optimizer)(parameters, lr=rate, **said)
    if not callable(getattr(found, "step", None)):
        raise TypeError(f"{training.optimizer} returned a {type(found).__name__}; it must be a torch.optim.Optimizer")
    return found


@lru_cache
def state_floats(training: Training) -> float:
    """Returns the floats (4 bytes) of the optimiser's state for each parameter; of an own optimiser those that it has
    after one step on a square matrix."""
    if training.optimizer == "sgd":
        return 1.0 if training.momentum else 0.0
    if training.optimizer in ("adam", "adamw"):
        return 2.0
    parameter = nn.Parameter(torch.ones(SIDE, SIDE))
    parameter.grad = torch.ones(SIDE, SIDE)
    optimizer = made(training, [parameter], training.lr)
    optimizer.step()
    state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() / 4 for value in state if value.dim()) / parameter.numel()
