"""Training on one device: the only training loop, and the only penalty that algorithms share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from algorithms.algorithm import Message, Party, Phase, Reply, Tensors, Training, Work, matches
from algorithms.course import Course, structure
from algorithms.training import precision, transfers
from algorithms.training.as_built import restore
from algorithms.training.augmenting import augmented
from algorithms.training.optimizers import descent
from algorithms.training.pulls import form
from algorithms.training.seeding import seeded
from algorithms.training.tensors import BATCH_NORMS, call, joined, kept_of, load, tensors_of, trainable, travelling

Pull = Callable[[str, Tensor, Tensor], None]  # (name, parameter, grad): adds a penalty's gradient to grad

PIECED = 1 << 19  # values, 4 MB in float64
SLACK = 1e-9  # steps: 0.07 of 100 steps is 7.000000000000001
STRONGEST = 1e9  # a penalty beyond it leaves the range of float32
PENALTY = ("strength", "importance", "value")  # members of a Penalty in addition to its call
# Examples per forward pass of an evaluation; constants, because the last bits depend on them.
PIECE, PIECE_ON_GPU = 100, 1000


def batches(n: int, batch: int, seed: int, epoch: int) -> Iterator[Tensor]:
    """Yields the examples 0 ... n-1 in an order drawn from (seed, epoch), `batch` indices at a time.

    The last batch of an epoch may be shorter.  Raises ValueError if `batch` is below 1.
    """
    if batch < 1:
        raise ValueError(f"batch is {batch}; a step needs at least 1 example")
    drawn = order(n, seed, epoch)
    for start in range(0, n, batch):
        yield torch.from_numpy(drawn[start : start + batch])


def order(n: int, seed: int, epoch: int) -> ndarray:
    """Returns the order of the examples 0 ... n-1 in an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(n)


def steps(n: int, training: Training, asked: int = 0) -> int:
    """Returns the steps of one round on a device with `n` examples: `asked`, if that is not 0, those of `training`, or
    those of its epochs, of which a fraction is rounded up to whole steps.  Without examples there is no step."""
    per_epoch = ceil(n / training.batch)
    if per_epoch and (given := asked or training.steps):
        return given
    return ceil(training.epochs * per_epoch - SLACK)


def passes(phase: Phase, steps: int) -> Work:
    """Returns the work of this many steps: whole passes over the phase's examples, and the first batches of another."""
    whole, rest = divmod(steps, max(1, ceil(phase.examples / phase.batch)))
    found = (replace(phase, epochs=whole),) if whole or not rest else ()
    return (*found, *((replace(phase, examples=rest * phase.batch, epochs=1),) if rest else ()))


def pull(grad: Tensor, difference: Tensor, strength: float, importance: Tensor | None = None) -> None:
    """Adds 2 * strength * importance * difference to `grad`, in place; importance None means ones.

    Every penalty uses this function: its two forms (no importance, and an importance of 1) agree bit for bit, other
    formulas differ in the last bit, and the equalities between algorithms are tested bit for bit
    (docs/design/algorithms.md §1).
    """
    if importance is None:
        grad.add_(difference, alpha=2 * strength)
    else:
        grad.addcmul_(importance, difference, value=2 * strength)


@dataclass(frozen=True)
class Shift:
    """An addition of the same tensors to each gradient."""

    coordinatewise: ClassVar[bool] = True

    of: Tensors

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:  # noqa: ARG002
        grad.add_(self.of[name])


class Penalty(Protocol):
    """A quadratic penalty: it adds its gradient, and has the numbers from which its leverage is computed.

    A dataclass whose `__call__` treats each coordinate independently may set `coordinatewise = True`, as a ClassVar: it
    is then called once for all devices of a stack (stack.py), with tensors that begin with the devices' axis.
    """

    @property
    def strength(self) -> float: ...  # λ

    @property
    def importance(self) -> Tensors | None: ...  # Ω; None means ones

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None: ...

    def value(self, weights: Tensors) -> float:
        """Returns the penalty's value at these weights, minus the smallest value that it can have."""


def check_penalty(found: object) -> None:
    """Raises TypeError unless an algorithm's penalty() returned a Penalty or None."""
    if found is not None and not (callable(found) and all(hasattr(found, name) for name in PENALTY)):
        what = "as algorithms.training.local.Quadratic(anchor, strength, importance)"
        raise TypeError(f"penalty() returned a {type(found).__name__}; it must return a penalty, {what}, or None")


@dataclass(frozen=True)
class Quadratic:
    """The penalty λ Σ Ω (θ - θ_t)² with its anchor θ_t (FedCL, Eq. 3; FedProx with λ = μ/2, Ω = 1)."""

    coordinatewise: ClassVar[bool] = True

    anchor: Tensors  # θ_t
    strength: float  # λ
    importance: Tensors | None = None  # Ω; None means ones

    def __call__(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        for part, at, anchor, *omega in pieces(grad, parameter, self.anchor[name], *self._known(name)):
            pull(part, at - anchor, self.strength, *omega)

    def value(self, weights: Tensors) -> float:
        """Returns λ Σ Ω (θ - θ_t)²."""
        total = 0.0
        for name in self.importance or weights:
            for value, anchor, *omega in pieces(weights[name], self.anchor[name], *self._known(name)):
                squares = (value - anchor).double().square_()
                total += float((squares.mul_(omega[0]) if omega else squares).sum())
        return self.strength * total

    def _known(self, name: str) -> Sequence[Tensor]:
        return () if self.importance is None else (self.importance[name],)


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yields views of the tensors, broadcast to the shape of the first: as they are, or some rows of those with more
    than PIECED values, so that what is computed of a piece stays small."""
    first = tensors[0]
    if first.numel() <= PIECED:
        yield tensors
    else:
        rows = max(1, PIECED * len(first) // first.numel())
        yield from zip(*(torch.split(each.expand_as(first), rows) for each in tensors), strict=True)


def _forget(parameters: Mapping[str, Tensor]) -> None:
    """Clears the parameters' gradients."""
    for parameter in parameters.values():
        parameter.grad = None


def sgd(
    device: Party,
    weights: Tensors,
    training: Training,
    penalty: Pull | None = None,
    only: str = "*",
    losses: list[Tensor] | None = None,
) -> Tensors:
    """Returns the weights (parameters and buffers) after one round of local training from `weights`.

    Steps on the mean loss of a batch, as many as `steps` says, by a fresh optimiser (optimizers.py); the rate is that
    of the device's global round.  `penalty` adds to the gradient of each trained parameter before the optimiser clips
    it and adds its weight decay.  Only parameters that match the globs `only` are trained.  `losses` gets the mean
    loss of each batch in the last pass, (), without the penalty.  Shuffling and dropout depend on `device.seed` alone.
    `device.model` holds the trained weights afterwards, and no gradients.  Raises RuntimeError if `weights` do not fit
    the model.
    """
    model = device.model
    load(model, {**weights, **device.own})
    model.train()
    lay_out(model, torch.channels_last)  # a step of the MNIST CNN, B=64, 1 thread: 33 ms, not 41
    possible = trainable(model)
    trained = {name: parameter for name, parameter in possible.items() if matches(name, only)}
    for name, parameter in possible.items():
        parameter.requires_grad_(name in trained)
    pulled = {name: parameter for name, parameter in trained.items() if name not in device.own}
    optimizer = descent(training, device.round)
    count = steps(len(device.y), training, device.steps)
    last = count - ceil(len(device.y) / training.batch)  # the first of the last steps that have all examples
    with single_values(model), precision.multiplying(training.precision):
        for step, drawn in enumerate(draws(len(device.y), training, device.seed, count)):
            _forget(trained)
            chosen = drawn.to(device.x.device)
            x = augmented(device, device.x[chosen], step)
            said = precision.outputs(training.precision, x.device, partial(model, x))
            each = device.loss(said, device.y[chosen])
            if device.losses:
                device.losses.note(each)
            loss = each.mean()
            if losses is not None and step >= last:
                losses.append(loss.detach())
            torch.autograd.backward(loss)
            if penalty is not None:
                _penalise(pulled, penalty)
            optimizer.step(trained, {name: p.grad for name, p in trained.items() if p.grad is not None})
    _forget(trained)
    for parameter in possible.values():
        parameter.requires_grad_(True)
    # Later computations on this model must not depend on its earlier training.
    lay_out(model, torch.contiguous_format)
    device.own.update({name: value.clone() for name, value in kept_of(model).items()})
    return {name: value.clone() for name, value in tensors_of(model).items()}


@dataclass(frozen=True)
class Sgd:
    """A round of local training as a task of a course: `sgd` with all of the `pulls`, one after another."""

    device: Party
    weights: Tensors
    training: Training
    pulls: Sequence[Pull] = ()
    only: str = "*"
    losses: list[Tensor] | None = None

    @property
    def sort(self) -> Hashable:
        """A key that is equal for devices that can be trained together: same training, same structure of the network,
        same round, and pulls of the same forms (so either all have a penalty or none has, and likewise Ω)."""
        device = self.device
        given = (structure(device.model), id(device.loss), device.round)
        return self.training, self.only, tuple(map(form, self.pulls)), self.losses is None, *given

    def alone(self) -> Tensors:
        """Returns the trained weights."""
        return sgd(self.device, self.weights, self.training, self._pull if self.pulls else None, self.only, self.losses)

    def _pull(self, name: str, parameter: Tensor, grad: Tensor) -> None:
        for pull in self.pulls:
            pull(name, parameter, grad)


def fitting(
    device: Party, weights: Tensors, training: Training, penalty: Penalty | None = None, pulls: Sequence[Pull] = ()
) -> Course[Reply]:
    """Trains for a round, and returns the reply with the trained weights.  Under a penalty the reply also reports the
    penalty's share of the loss and, with SGD, its leverage.

    `pulls` are called with each trained parameter and its gradient before each step, in their order, and before the
    penalty adds its part.
    """
    check_penalty(penalty)
    losses: list[Tensor] = []
    every = (*pulls, *(() if penalty is None else (penalty,)))
    trained = yield Sgd(device, weights, training, every, losses=None if penalty is None else losses)
    examples = len(device.y)
    if penalty is None:
        return Reply({"weights": trained}, examples)
    given = penalty.strength, penalty.importance, training.rate(device.round), steps(examples, training, device.steps)
    reached = leverage(*given) if training.optimizer == "sgd" else {}  # others rescale the penalty's gradient
    parameters = {name: trained[name] for name in travelling(device.model)}
    share = {"penalty_share": share_of(float(penalty.value(parameters)), losses)}
    return Reply({"weights": trained}, examples, leverage=reached, numbers=share)


@torch.no_grad()
def outputs(model: nn.Module, weights: Tensors, x: Tensor) -> Any:
    """Returns the outputs (n, ...) of the model with these weights for `x`, in eval mode.

    On the CPU in small pieces and channels_last: 1,000 examples of the MNIST CNN in 150 ms, not 430 (1 thread).  On a
    GPU, copying weights into a simple model takes longer than computing.
    """
    seeded(0)  # for networks that draw in eval mode, too
    # Without buffers, and without layers that need their weights in one piece:
    simple = weights.keys() == dict(model.named_parameters()).keys()
    if transfers.elsewhere(x.device) and simple and not any(isinstance(layer, nn.RNNBase) for layer in model.modules()):
        restore(model)
        model.eval()
        return joined([call(model, weights, part) for part in torch.split(x, PIECE_ON_GPU)])
    load(model, weights)
    model.eval()
    lay_out(model, torch.channels_last)
    said = joined([model(part) for part in torch.split(x, PIECE)])
    lay_out(model, torch.contiguous_format)
    return said


@contextmanager
def single_values(model: nn.Module) -> Iterator[None]:
    """A context in which a BatchNorm in train mode also accepts a batch with one value per channel.

    The last batch of an epoch may have one example, and torch rejects it, because one value has no variance.  Here the
    layer then works as in eval mode, with its running statistics, which do not change (docs/design/algorithms.md §15).
    """
    layers = [each for each in model.modules() if isinstance(each, BATCH_NORMS) and each.training]
    hooks = [layer.register_forward_pre_hook(_by_size) for layer in layers]
    try:
        yield
    finally:
        for layer, hook in zip(layers, hooks, strict=True):
            hook.remove()
            layer.train()


def _by_size(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    x = inputs[0]  # (n, channels, ...)
    layer.train(x.numel() > x.shape[1])


def draws(n: int, training: Training, seed: int, asked: int = 0) -> Iterator[Tensor]:
    """Yields the batches of one round (`asked` as in `steps`), as indices of examples.  Seeds all generators before
    each, so a step's draws do not depend on earlier draws."""
    for step in range(steps(n, training, asked)):
        epoch, place = divmod(step, ceil(n / training.batch))
        if not place:
            chosen = list(batches(n, training.batch, seed, epoch))
        seeded_step(seed, step)
        yield chosen[place]


def seeded_step(seed: int, step: int) -> None:
    """Seeds the generators for this step of a round, counted from 0; a repeated step draws the same."""
    seeded(step_seed(seed, step))


def step_seed(seed: int, step: int) -> int:
    """Returns the 32-bit seed of a device's step; the spawn key separates it from `order`'s SeedSequence([seed,
    epoch])."""
    return int(np.random.SeedSequence(seed, spawn_key=(step,)).generate_state(1)[0])


@torch.no_grad()
def _penalise(trained: Mapping[str, nn.Parameter], penalty: Pull) -> None:
    for name, parameter in trained.items():
        if parameter.grad is None:  # the loss did not reach it, but the penalty does
            parameter.grad = torch.zeros_like(parameter)
        penalty(name, parameter, parameter.grad)


def lay_out(model: nn.Module, layout: torch.memory_format) -> None:
    """Stores the weights of 2-d convolutions in this memory format; all others have only one format."""
    for parameter in model.parameters():
        if parameter.dim() == 4:
            # A clone: with one input channel both orders count as contiguous, and only a clone sets the strides.
            parameter.data = parameter.data.clone(memory_format=layout)


def share_of(penalty: float, losses: Sequence[Tensor]) -> float:
    """Returns the penalty's share of the final training loss: penalty / (penalty + mean of `losses`)."""
    loss = float(torch.stack(list(losses)).mean())
    return penalty / (penalty + loss) if penalty > 0 else 0.0


def forms(kinds: Collection[str], model: nn.Module) -> Message:
    """Returns a message of these kinds for its names, dtypes and shapes: "weights" has all tensors that travel, every
    other kind has the trained parameters among them."""
    weights = tensors_of(model)
    parameters = {name: weights[name] for name in travelling(model)}
    return {kind: weights if kind == "weights" else parameters for kind in kinds}


def leverage(strength: float, importance: Tensors | None, lr: float, steps: int) -> dict[str, float]:
    """Returns the leverage of a quadratic penalty: how far it pulls a coordinate back to its anchor in one round
    (docs/design/algorithms.md §10).

    `median`, `p99` and `max` of lr * steps * 2 * strength * Ω over all coordinates (nearest rank); `step` is lr * 2 *
    strength * max Ω; SGD is stable while it is below 2 (1 + momentum).
    """
    stiffness = 2 * lr * strength
    reached = {"median": 1.0, "p99": 1.0, "max": 1.0}
    if importance is not None:
        omega = torch.cat([value.flatten() for value in importance.values()]).cpu().numpy()
        at = [ceil(0.5 * len(omega)) - 1, ceil(0.99 * len(omega)) - 1, len(omega) - 1]
        # One partial sort for all three: 14-18 ms for 1.7 M coordinates; two torch.kthvalue 30, a full sort 140.
        reached = dict(zip(reached, map(float, np.partition(omega, at)[at]), strict=True))
    return {name: stiffness * steps * value for name, value in reached.items()} | {"step": stiffness * reached["max"]}
