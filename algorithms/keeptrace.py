"""Keep-trace gradient descent: the gradient of a locally trained model's loss with respect to its initial weights.

Local training is a function of its initial weights; UGA needs the derivative of its result (Yao et al. 2019, Eq.
11-13).  Keeping autograd's graph through all steps costs memory for each of them.  Here only the weights along the way
are kept, all of them or one in every few steps, and the derivative is computed backwards, with a Hessian-vector product
per step (docs/design/algorithms.md §14).  Other weights are computed again, with the same batches and the same dropout,
so that both ways give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

import torch
from torch import Tensor

from algorithms.algorithm import Party, Phase, Tensors, Training, Work
from algorithms.counting.cost import SQUARES
from algorithms.training.augmenting import augmented
from algorithms.training.local import Quadratic, batches, check_penalty, pull, seeded_step, single_values, steps
from algorithms.training.tensors import kept_of, load, tensors_of, trainable, travelling
from algorithms.training.unfused import twice_differentiable

FLOAT = 4  # bytes: the declared memory is that of float32

# Floats moved for each parameter in a backward step, in addition to the Hessian-vector product.
ADJOINT = 5.0  # u = -η v (2), v + H u (3)
ADJOINT_MOMENTUM = 3.0  # u reads v_m too (1), v_m = μ u (2)
PULL_SPRING = 3.0  # the penalty's part, for the weights and also for the anchor: u read, sum read and written


@dataclass(frozen=True)
class Traced:
    """The result of keep-trace gradient descent."""

    gradient: Tensors  # of L(ω^(T)(ω_t); D_k) with respect to ω_t, for each trainable parameter
    weights: Tensors  # ω^(T), with the buffers after all passes


def traced_steps(n: int, training: Training) -> int:
    """Returns T: the SGD steps of all epochs except the last, on `n` examples."""
    return steps(n, replace(training, epochs=training.epochs - 1))


def spacing(steps: int, parameters: int, budget: float) -> int:
    """Returns the number of steps between two kept weights: 1 if the weights of all steps fit into `budget` bytes,
    otherwise the square root of the number of steps, rounded up."""
    return 1 if steps * parameters * FLOAT <= budget else ceil(sqrt(steps))


def stored(steps: int, every: int, momentum: float) -> int:
    """Returns how many copies of the parameters are in memory at the same time, for this many steps of which every
    `every`-th keeps its weights.

    With `every` 1 this is one copy for each step.  Otherwise it is one for each kept step, two with momentum (training
    continues from there), and one for each step between two kept ones.
    """
    return steps if every == 1 else ceil(steps / every) * (2 if momentum else 1) + min(every, steps)


def replayed(n: int, training: Training, every: int) -> int:
    """Returns the number of examples in the steps that are computed a second time: between two kept weights all steps
    but the last."""
    per_epoch, T = ceil(n / training.batch), traced_steps(n, training)
    lasts = [step for step in range(T) if step % every == every - 1 or step == T - 1]
    short = per_epoch * training.batch - n  # number of examples missing from an epoch's last batch
    kept = sum(training.batch - (short if step % per_epoch == per_epoch - 1 else 0) for step in lasts)
    return int(training.epochs - 1) * n - kept


def keep_trace(
    device: Party,
    weights: Tensors,
    training: Training,
    every: int = 1,
    penalty: Quadratic | None = None,
    first_order: bool = False,
    accumulate: bool = False,
) -> Traced:
    """Trains for all epochs except the last, and returns the gradient, with respect to the initial `weights`, of the
    trained weights' loss over all examples (Yao et al. 2019, Eq. 13).

    Weights are kept in every `every`-th step; the result does not depend on it, to the last bit.  SGD is local.sgd's,
    including momentum, weight decay and batches; `penalty` is part of the training loss, and its anchor, `weights`, is
    differentiated too.  The last gradient is the mean over all examples, in train mode and in the batches of the last
    epoch, each weighted by its size; dropout draws the same masks when a step is repeated, and momentum and weight
    decay are differentiated exactly (docs/design/algorithms.md §14).  If a BatchNorm uses its running statistics
    (local.single_values), they count as constants.  One epoch gives the plain gradient at `weights`.  `first_order`
    leaves the Hessians out.  With `accumulate` the last gradient is instead the unweighted sum of the mean gradients of
    those batches.  `device.model` holds the trained weights afterwards.  Raises ValueError for `every` below 1, and for
    a penalty with another anchor.
    """
    if every < 1:
        raise ValueError(f"every is {every}; weights must be kept in every step (1), or in every so many")
    check_penalty(penalty)
    if penalty is not None and penalty.anchor is not weights:
        raise ValueError("the penalty has an anchor of its own; it must be the weights that training starts from")
    way = _Way(device, weights, training, penalty)
    device.model.train()
    with twice_differentiable(), single_values(device.model):
        kept, end = _forward(way, every)
        v = way.last_gradient(end, accumulate)
        trained = way.finish(end)
        if not first_order:
            v = _backward(way, kept, every, v)
            way.finish(end)
            load(way.model, {**trained, **device.own})  # restores the buffers: those steps must not change them
    return Traced({name: v[name].contiguous() for name in travelling(way.model)}, trained)  # as in messages


@dataclass(frozen=True)
class _State:
    """The state of training before a step. Tensors are never changed in place."""

    theta: Tensors  # the trainable parameters
    momentum: Tensors  # {} before the first step
    buffers: Tensors  # BatchNorm's running means and the like


class _Way:
    """The training steps of one device's round; each can be computed again, with the same batch and the same
    dropout."""

    def __init__(self, device: Party, weights: Tensors, training: Training, penalty: Quadratic | None) -> None:
        self.device, self.training, self.penalty = device, training, penalty
        self.rate = training.rate(device.round)
        self.model = device.model
        load(self.model, {**weights, **device.own})
        self.parameters = trainable(self.model)
        self.batches = [
            chosen.to(device.x.device)
            for epoch in range(int(training.epochs))
            for chosen in batches(len(device.y), training.batch, device.seed, epoch)
        ]
        self.steps = traced_steps(len(device.y), training)
        self.noted = 0  # steps whose losses are noted

    def start(self) -> _State:
        # In torch's usual layout: channels last, as in local.sgd, does not speed up the second derivative.
        return _State({name: p.detach().clone() for name, p in self.parameters.items()}, {}, self._buffers())

    def _buffers(self) -> Tensors:
        return {name: buffer.clone() for name, buffer in self.model.named_buffers()}

    @torch.no_grad()
    def _load(self, state: _State) -> None:
        for name, parameter in self.parameters.items():
            parameter.data = state.theta[name]
        for name, buffer in self.model.named_buffers():
            buffer.copy_(state.buffers[name])

    def _gradient(self, step: int, graph: bool = False) -> tuple[Tensor, ...]:
        """Returns the gradient of the mean loss of this step's batch, at the loaded weights, with the dropout of this
        step; notes its losses if the step has not been computed before."""
        chosen = self.batches[step]
        seeded_step(self.device.seed, step)
        x = augmented(self.device, self.device.x[chosen], step)
        losses = self.device.loss(self.model(x), self.device.y[chosen])
        if self.device.losses and step == self.noted:
            self.device.losses.note(losses)
            self.noted += 1
        loss = losses.mean()
        return torch.autograd.grad(loss, list(self.parameters.values()), create_graph=graph, materialize_grads=True)

    def after(self, state: _State, step: int) -> _State:
        """Returns the state after a step: m_i = μ m_{i-1} + ∇L(θ_{i-1}) + wd θ_{i-1}, θ_i = θ_{i-1} - η m_i, as in
        torch.optim.SGD."""
        self._load(state)
        momentum, theta = {}, {}
        for (name, old), g in zip(state.theta.items(), self._gradient(step), strict=True):
            if self.penalty is not None:
                g = g.clone()
                if name not in self.device.own:
                    self.penalty(name, old, g)
            if self.training.weight_decay:
                g = g.add(old, alpha=self.training.weight_decay)
            if self.training.momentum and state.momentum:
                g = g.add(state.momentum[name], alpha=self.training.momentum)
            theta[name] = old.sub(g, alpha=self.rate)
            if self.training.momentum:
                momentum[name] = g
        return _State(theta, momentum, self._buffers())

    def last_gradient(self, state: _State, accumulate: bool) -> Tensors:
        """Returns the gradient of the mean loss of all examples, in the batches of the last epoch, or the sum of the
        batches' gradients."""
        self._load(state)
        n = len(self.device.y)
        total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in state.theta.items()}
        for step in range(self.steps, len(self.batches)):
            for sum_, g in zip(total.values(), self._gradient(step), strict=True):
                sum_.add_(g, alpha=1.0 if accumulate else len(self.batches[step]) / n)
        return {name: value.to(state.theta[name].dtype) for name, value in total.items()}

    def hessian_times(self, u: Tensors, state: _State, step: int) -> Tensors:
        """Returns H_i u, the Hessian of this step's loss at `state` times u, by a gradient that keeps its graph and a
        backward pass through it."""
        self._load(state)
        gradients = self._gradient(step, graph=True)
        outs = [(g, u[name]) for name, g in zip(u, gradients, strict=True) if g.requires_grad]
        if not outs:  # a loss whose gradient is constant
            return {name: torch.zeros_like(value) for name, value in u.items()}
        products = torch.autograd.grad(
            [g for g, _ in outs],
            list(self.parameters.values()),
            grad_outputs=[each for _, each in outs],
            materialize_grads=True,
        )
        return dict(zip(u, products, strict=True))

    def finish(self, end: _State) -> Tensors:
        """Copies the weights of `end` into the model, and returns them with the model's current buffers."""
        for name, parameter in self.parameters.items():
            parameter.data = end.theta[name].clone()
        self.device.own.update({name: value.clone() for name, value in kept_of(self.model).items()})
        return {name: value.clone() for name, value in tensors_of(self.model).items()}


def _forward(way: _Way, every: int) -> tuple[dict[int, _State], _State]:
    """Returns the kept states, by step, and the state after the last step."""
    kept, state = {}, way.start()
    for step in range(way.steps):
        if step % every == 0:
            # With all weights kept no step is repeated, and none needs the momentum.
            kept[step] = state if every > 1 else replace(state, momentum={})
        state = way.after(state, step)
    return kept, state


def _segment(way: _Way, first: _State, start: int, every: int) -> list[_State]:
    """Returns the states before the steps `start`, `start` + 1 ... up to the next kept one, without momentum, computed
    again from `first`, the kept state before step `start`."""
    states = []
    for step in range(start, min(start + every, way.steps) - 1):
        # Only the next step needs the momentum, and no backward step; keeping it would double what `stored` declares.
        states.append(replace(first, momentum={}))
        first = way.after(first, step)
    return [*states, replace(first, momentum={})]


def _backward(way: _Way, kept: dict[int, _State], every: int, v: Tensors) -> Tensors:
    """Returns the gradient of the trained weights' loss with respect to the initial weights, computed backwards through
    the steps from `v`, the gradient at the trained weights (docs/design/algorithms.md §14).

    With v_θ and v_m the derivatives by θ_i and m_i: u = v_m - η v_θ, then v_θ ← v_θ + H_i u + wd u and v_m ← μ u; a
    penalty adds 2λΩ to H_i, and -2λΩ u to the derivative by its anchor.
    """
    mu, penalty = way.training.momentum, way.penalty
    v_m: Tensors = {}
    by_anchor = {name: torch.zeros_like(value) for name, value in v.items()} if penalty else {}
    for start in reversed(range(0, way.steps, every)):
        states: list[_State] = _segment(way, kept.pop(start), start, every)
        while states:
            step = start + len(states) - 1
            u = {name: v_m[name].sub(g, alpha=way.rate) if v_m else -way.rate * g for name, g in v.items()}
            product = way.hessian_times(u, states.pop(), step)
            v = _stepped_back(way, v, u, product, by_anchor)
            v_m = {name: mu * value for name, value in u.items()} if mu else {}
    return {name: value + by_anchor[name] for name, value in v.items()} if penalty else v


def _stepped_back(way: _Way, v: Tensors, u: Tensors, product: Tensors, by_anchor: Tensors) -> Tensors:
    """Returns v_θ before a step (see `_backward`); `v` is v_θ after it, and `product` is H u.  Adds a penalty's part of
    the derivative by the anchor to `by_anchor`, in place."""
    before = {name: value + product[name] for name, value in v.items()}
    for name, value in before.items():
        if way.training.weight_decay:
            value.add_(u[name], alpha=way.training.weight_decay)
        if way.penalty and name not in way.device.own:
            omega = None if way.penalty.importance is None else way.penalty.importance[name]
            pull(value, u[name], way.penalty.strength, omega)
            pull(by_anchor[name], u[name], -way.penalty.strength, omega)
    return before


def work(train: Phase, parameters: int, training: Training, every: int, first_order: bool, spring: bool) -> Work:
    """Returns the work of `keep_trace` on a device whose plain training is the phase `train`; `spring`: with a
    quadratic penalty."""
    n = int(train.examples)
    before = replace(train, epochs=int(training.epochs) - 1)
    whole = Phase("gradient", "batch", n, train.batch, traffic=SQUARES * parameters)
    if before.epochs == 0:
        return (whole,)
    if first_order:
        return (before, whole)
    again = replace(train, name="replay", examples=replayed(n, training, every), epochs=1)
    moved = ADJOINT + (ADJOINT_MOMENTUM if training.momentum else 0.0) + (2 * PULL_SPRING if spring else 0.0)
    back = Phase("trace", "batch", 0, train.batch, second_order=before.epochs * n, traffic=moved * parameters)
    return (before, whole, *([again] if again.examples else []), back)


def held(n: int, training: Training, every: int, first_order: bool, spring: bool) -> float:
    """Returns the floats that `keep_trace` holds for each parameter; without Hessians only a float64 sum of
    gradients."""
    T = traced_steps(n, training)
    if T == 0 or first_order:
        return 2.0
    return stored(T, every, training.momentum) + 2.0 + spring
