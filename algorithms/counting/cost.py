"""The cost of a Phase on a model: FLOPs, and floats moved to and from memory.

Measured on torch's meta device, where tensors have shapes and no values, so a measurement takes milliseconds and the
result does not depend on the machine.  FLOPs are those of matrix products and convolutions, with two for a multiply-add
(flops.py); all other operations are charged by the floats that they move.  A recurrent layer counts as its single
steps, each with its own matrix products; a CPU's single operation for all of them would hide them from torch's counter
of FLOPs. operators.py has the traffic and the overhead of such layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Loss, Phase, Training, matches
from algorithms.counting.flops import counter
from algorithms.counting.operators import recurrent_flops, watched
from algorithms.counting.step_counts import StepCounts
from algorithms.importance.batched import chunk_sums
from algorithms.importance.gradients import alone
from algorithms.training.as_built import remember, restore
from algorithms.training.copied import on_meta, shapes
from algorithms.training.local import single_values
from algorithms.training.optimizers import state_floats
from algorithms.training.seeding import seeded
from algorithms.training.torch_lock import TURN

# Traffic that algorithms declare in Phase.traffic, in floats (4 bytes) per parameter and step: every operand is
# read once and every result written once, as happens once a model is larger than the cache.
PULL = 7.0  # difference: parameter and anchor read, written (3); addcmul_: grad, Ω, difference read, written (4)
PULL_PLAIN = 6.0  # the same difference (3); add_: grad and difference read, written (3)
SQUARES = 5.0  # a chunk's float32 sum read (1), the float64 accumulator read and written (2 + 2)

# The cost of these runs is a part for the weights plus a part per example, so two batch sizes determine it for all:
# otherwise devices with 1,000 different last batches would each unroll an 80-step GRU. Neither size is 1, because a
# recurrent layer saves copies of a single text (at most 1.6 % of the floats of a forward).
PROPORTIONAL = frozenset({"forward", "batch", "second"})
TWO_SIZES = (2, 4)

BARE = 10.0  # operators in a step of one dense layer: a device's overhead includes them


def sgd_traffic(parameters: int, momentum: float) -> float:
    """Returns the floats that the optimiser moves in a step over `parameters` parameters.

    Parameter and gradient read, parameter written (3); with momentum, its buffer read and written (2).  Weight decay is
    free, because the fused step has already read the parameter.
    """
    return (5.0 if momentum else 3.0) * parameters


def optimizer_traffic(parameters: int, training: Training) -> float:
    """Returns the floats that the optimiser of `training` moves in a step over `parameters` parameters: as
    `sgd_traffic`, with its own state read and written; clipping reads the gradient once more, and reads and writes it
    again."""
    return sgd_traffic(parameters, 0.0) + (2 * state_floats(training) + (3 if training.clip_norm else 0)) * parameters


class FloatCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's has no types
    """A counter of the floats that operations read and write; views and allocations move nothing.

    Eight bytes count as two floats.  An operation's scratch memory is not visible.  Floats are not counted while
    `aside()` is true.  The operations that move something are counted, too, convolutions separately, but not while
    `within()` is true: in a recurrent layer, which is charged by its positions.  `flops()` is read before and after
    each convolution, so that the FLOPs of convolutions are also counted by kind.
    """

    def __init__(
        self,
        aside: Callable[[], bool] = bool,
        within: Callable[[], bool] = bool,
        flops: Callable[[], int] = int,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.floats = self.operators = self.convolutions = 0.0
        self.conv = self.grouped = self.pointwise = self.conv_floats = 0.0
        self.aside, self.within, self.flops = aside, within, flops

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        convolution = "convolution" in func.__name__
        before = self.flops() if convolution else 0
        result = func(*args, **(kwargs or {}))
        if _still(func):
            return result
        grouped, pointwise = _kind(func, args, kwargs or {}) if convolution else (False, False)
        product = pointwise and "backward" in func.__name__
        if convolution and not product:
            flops = self.flops() - before
            self.conv += flops
            self.grouped += grouped * flops
            self.pointwise += pointwise * flops
        if not self.within():
            self.convolutions += convolution
            self.operators += not convolution
        if not self.aside():
            # A lookup reads the rows that it takes, not the whole table.
            read = (result, args[1]) if func is torch.ops.aten.embedding.default else (args, kwargs)
            moved = [leaf for leaf in tree_leaves((read, result)) if isinstance(leaf, Tensor)]
            floats = sum(tensor.numel() * tensor.element_size() for tensor in moved) / 4
            self.floats += floats
            self.conv_floats += floats if convolution and not product else 0.0
        return result


def _still(func: Any) -> bool:
    """Returns true if the result is a view of its argument's memory, or new memory that nothing was written to."""
    aliases = (value.alias_info for value in func._schema.returns)
    return func.__name__.startswith(("_unsafe_view", "unsafe_split", "empty", "new_empty")) or any(
        alias is not None and not alias.is_write for alias in aliases
    )


def _kind(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, bool]:
    """Returns whether a convolution, or its gradient, is grouped, and whether it is 1 x 1 and not grouped."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    grouped = given["groups"] > 1
    return grouped, not grouped and set(given["weight"].shape[2:]) == {1}


class Meter:
    """The costs of phases on one model, whose examples have shape `input_shape`.

    `dtype`: the type of an example's numbers; `target_shape`, `target_dtype`: of one target.
    """

    def __init__(
        self,
        model: nn.Module,
        input_shape: Sequence[int],
        loss: Loss,
        dtype: torch.dtype = torch.float32,
        target_shape: Sequence[int] = (),
        target_dtype: str = "int64",
    ) -> None:
        self.model = remember(on_meta(model))
        self.trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.input_shape, self.target_shape = tuple(input_shape), tuple(target_shape)
        self.loss, self.dtype, self.target_dtype = loss, dtype, getattr(torch, target_dtype)
        self.counts: dict[tuple[str, int, str], StepCounts] = {}

    def steps(self, phase: Phase) -> int:
        """Returns the number of batches in all passes of the phase; 1 if it has no examples but moves floats, as
        combining does.

        Raises ValueError for numbers that are negative or not finite, or a batch below 1.
        """
        _check(phase)
        if phase.examples > 0:
            return phase.epochs * ceil(phase.examples / phase.batch)
        if phase.second_order > 0:
            return ceil(phase.second_order / phase.batch)
        return 1 if phase.traffic > 0 or phase.per_parameter > 0 else 0

    def flops(self, phase: Phase) -> float:
        """Returns the FLOPs of the whole phase: all of its passes, and Hessian-vector products for `second_order`
        examples.

        A gradient per example counts as one forward and one backward.  Raises ValueError if a pass counts 0 FLOPs,
        because then the counter does not know the model's operations, or if `backward` matches no parameter.
        """
        _check(phase)
        return sum((examples * self._flops(order, phase) for order, examples in self._passes(phase)), 0.0)

    def step(self, phase: Phase) -> StepCounts:
        """Returns the counts of the phase's mean step (the last batch of a pass may be shorter).

        Its floats are weights, activations and their gradients, and the declared traffic.  Its operators are counted
        only beyond those of one dense layer, BARE.  Raises ValueError as `flops` does.
        """
        steps, floats = max(1, self.steps(phase)), phase.traffic
        parts = dict.fromkeys(("conv", "recurrent", "grouped", "pointwise"), 0.0)  # FLOPs, which grow with the examples
        if phase.per_parameter > 0:
            floats += phase.per_parameter * sum(parameter.numel() for parameter in self._chosen(phase.backward))
        grown = []
        for order, examples in self._passes(phase):
            whole = self._count(order, phase.batch, phase.backward)
            for part in parts:
                parts[part] += examples * getattr(whole, part) / phase.batch
            # The floats of the weights, and the operators, do not grow with the batch.
            twice = self._count(order, 2 * phase.batch, phase.backward)
            grown.append(whole.towards(twice, examples / steps / phase.batch - 1))
            floats += grown[-1].floats
        return StepCounts(
            self.flops(phase) / steps,
            floats,
            **{part: flops / steps for part, flops in parts.items()},
            positions=float(sum(each.positions for each in grown)),
            operators=max(0.0, sum(each.operators for each in grown) - BARE),
            convolutions=float(sum(each.convolutions for each in grown)),
            conv_floats=float(sum(each.conv_floats for each in grown)),
        )

    def _passes(self, phase: Phase) -> list[tuple[str, float]]:
        """Returns the kinds of runs in the phase (keys of RUNS, or "each_label"), each with its total number of
        examples."""
        runs = [(phase.kind, float(phase.epochs * phase.examples)), ("second", float(phase.second_order))]
        return [(order, examples) for order, examples in runs if examples > 0]

    def _flops(self, order: str, phase: Phase) -> float:
        """Returns the FLOPs per example of this phase's runs of kind `order` (a key of RUNS, or "each_label")."""
        count = self._count(order, phase.batch, phase.backward)
        if count.flops == 0:
            raise ValueError(
                f"phase {phase.name!r} counts 0 FLOPs for {phase.examples or phase.second_order:g} examples; the "
                "model needs at least one matrix product or convolution that torch's FLOP counter knows"
            )
        return count.flops / phase.batch

    def _count(self, order: str, batch: int, backward: str) -> StepCounts:
        if order in PROPORTIONAL and batch > 1:
            few, more = (self._known(order, size, backward) for size in TWO_SIZES)
            return few.towards(more, (batch - TWO_SIZES[0]) / (TWO_SIZES[1] - TWO_SIZES[0]))
        return self._known(order, batch, backward)

    def _known(self, order: str, batch: int, backward: str) -> StepCounts:
        key = (order, batch, backward)
        if key not in self.counts:
            with TURN:  # torch's counter also counts what other threads compute
                self.counts[key] = self._measured(order, batch, backward)
        return self.counts[key]

    def _measured(self, order: str, batch: int, backward: str) -> StepCounts:
        if order == "each_label":  # once for each label that the model knows; each adds to the sums
            each, labels = self._count("each", batch, backward), self._labels()
            sums = SQUARES * sum(parameter.numel() for parameter in self._chosen(backward))
            return replace(each, floats=each.floats + sums).times(labels)
        if order == "each" and alone(self.model):
            return self._run("one", 1, backward).times(batch)
        counted = self._run(order, batch, backward)
        if order == "second" and alone(self.model):  # torch's tracker loses the layers, as with positions
            once = self._count("batch", batch, backward)
            return replace(counted, operators=3 * once.operators, convolutions=3 * once.convolutions)
        return counted

    def _run(self, order: str, batch: int, backward: str) -> StepCounts:
        restore(self.model)
        seeded(0)  # a network that skips layers at random has one price
        chosen = [] if order == "forward" else self._chosen(backward)
        self.model.train(order not in ("each", "whole", "one"))
        with (
            shapes(),
            single_values(self.model),
            watched(self.model, order) as seen,
            counter() as flops,
            FloatCounter(
                partial(_inside, seen.fused, flops), partial(_inside, seen.layers, flops), flops.get_total_flops
            ) as moved,
        ):
            x = torch.empty(batch, *self.input_shape, dtype=self.dtype)
            y = torch.empty(batch, *self.target_shape, dtype=self.target_dtype)
            ran = RUNS[order](self.model, self.loss, x, y, chosen)
        if ran is False:  # the failed attempt is not charged
            return self._run("whole", batch, backward)
        return StepCounts(
            float(flops.get_total_flops()),
            moved.floats + seen.floats,
            moved.conv,
            recurrent_flops(self.model, flops.get_flop_counts()),
            seen.positions,
            moved.operators,
            moved.convolutions,
            moved.grouped,
            moved.pointwise,
            moved.conv_floats,
        )

    @shapes()
    @torch.no_grad()
    def _labels(self) -> int:
        restore(self.model)
        seeded(0)
        self.model.eval()  # a BatchNorm cannot train on the variance of one example
        return int(self.model(torch.empty(1, *self.input_shape, dtype=self.dtype)).shape[-1])

    def _chosen(self, backward: str) -> list[nn.Parameter]:
        """Returns the trainable parameters that `backward` matches; on this copy of the model, the others then need no
        gradient."""
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in self.trainable and matches(name, backward))
        chosen = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if not chosen:
            raise ValueError(f"backward is {backward!r}; the trainable parameters are {', '.join(self.trainable)}")
        return chosen


def _inside(names: Collection[str], flops: FlopCounterMode) -> bool:
    """Returns true if the model is at this moment inside one of the modules `names`; `flops` is torch's counter, which
    tracks that."""
    return not flops.mod_tracker.parents.isdisjoint(names)


def _check(phase: Phase) -> None:
    for what in ("examples", "epochs", "second_order", "traffic", "per_parameter"):
        value = getattr(phase, what)
        if not (isfinite(value) and value >= 0):
            raise ValueError(f"{what} of phase {phase.name!r} is {value}; it must be 0 or more, and finite")
    if phase.batch < 1:
        raise ValueError(f"batch of phase {phase.name!r} is {phase.batch}; a step needs at least 1 example")
    if phase.second_order and phase.kind == "forward":
        raise ValueError(f"phase {phase.name!r} has second_order, which needs gradients, but the kind 'forward'")


def _forward(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, _: list[nn.Parameter]) -> None:
    with torch.no_grad():
        loss(model(x), y)


def _outputs(model: nn.Module, x: Tensor) -> Tensor:
    """Returns the outputs of the model, from views of its parameters: torch's tracker of modules fails if a module is
    called with a parameter itself, for example one of torch.nn.utils.parametrize."""
    weights = {name: parameter.view_as(parameter) for name, parameter in model.named_parameters()}
    outputs: Tensor = functional_call(model, weights, (x,))
    return outputs


def _batch(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, chosen: list[nn.Parameter]) -> None:
    torch.autograd.grad(loss(_outputs(model, x), y).mean(), chosen, allow_unused=True)


def _each(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, _: list[nn.Parameter]) -> bool:
    """Computes the gradients of single examples by the fast path of importance/batched.py; returns false if there is
    none."""
    return chunk_sums(model, loss, x, y, "sq") is not None


def _whole(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, chosen: list[nn.Parameter]) -> None:
    """Computes the gradients without the fast path: each example's gradient is written, squared, and summed."""
    _batch(model, loss, x, y, chosen)
    for parameter in chosen:
        torch.zeros(len(x), *parameter.shape, dtype=parameter.dtype, device="meta").square_().sum(0)


def _one(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, chosen: list[nn.Parameter]) -> None:
    """Computes the gradient of one example in a batch of its own, squared and summed, as importance does without a
    faster way."""
    _batch(model, loss, x, y, chosen)
    for parameter in chosen:
        torch.empty_like(parameter, dtype=torch.float64).add_(torch.empty_like(parameter).square())


def _second(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, chosen: list[nn.Parameter]) -> None:
    """Computes a Hessian-vector product: a gradient that keeps its graph, and a backward pass through it."""
    mean = loss(_outputs(model, x), y).mean()
    gradients = torch.autograd.grad(mean, chosen, create_graph=True, allow_unused=True)
    varying = [g for g in gradients if g is not None and g.requires_grad]  # others have no second derivative
    if varying:
        torch.autograd.grad(varying, chosen, grad_outputs=[torch.empty_like(g) for g in varying], allow_unused=True)


RUNS: dict[str, Callable[[nn.Module, Loss, Tensor, Tensor, list[nn.Parameter]], bool | None]] = {
    "forward": _forward,
    "batch": _batch,
    "each": _each,
    "whole": _whole,
    "one": _one,
    "second": _second,
}
