"""The network of a stack of devices, each with weights and dropout of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import vmap

from algorithms.algorithm import Precision, Tensors
from algorithms.training import local, precision, transfers
from algorithms.training.as_built import remember, restore
from algorithms.training.copied import copied
from algorithms.training.dropout import DROPOUTS, keys, mask, mask_on_cpu
from algorithms.training.local import lay_out, step_seed
from algorithms.training.seeding import seeded, torch_seeded
from algorithms.training.stack_layers import StackFlatten, instead_of, takes_stacks
from algorithms.training.tensors import call, frozen_of, mapped

_known: WeakKeyDictionary[nn.Module, StackModel] = WeakKeyDictionary()


def stack_model(model: nn.Module) -> StackModel:
    """Returns the StackModel of this network; cached on a GPU, and for a plain sequence of layers."""
    if not (transfers.elsewhere(next(model.parameters()).device) or takes_stacks(model)):
        return StackModel(model)
    if model not in _known:
        _known[model] = StackModel(remember(copied(model)))  # a reference to the key would keep it alive forever
    return _known[model]


@torch.no_grad()
def outputs(model: nn.Module, weights: Sequence[Tensors], xs: Sequence[Tensor]) -> list[Any]:
    """Returns, for each model in `weights`, its outputs for its own x (n, ...), as local.outputs does; all are computed
    together."""
    restore(model)
    seeded(0)  # as in local.outputs
    one, longest = stack_model(model).as_built(), max(map(len, xs))
    if not longest:
        return [local.outputs(model, *each) for each in zip(weights, xs, strict=True)]
    filled = torch.stack([torch.cat([x, x.new_zeros(longest - len(x), *x.shape[1:])]) for x in xs])
    together = {name: torch.stack([each[name] for each in weights]) for name in weights[0]}
    pieces = torch.split(filled, max(1, local.PIECE_ON_GPU // len(xs)), 1)
    one.model.eval()
    try:
        each = [one.called(together, piece) for piece in pieces]
        said = mapped(lambda *some: torch.cat(some, 1), *each)
    finally:
        one.model.train()
    return [mapped(lambda every, k=k, x=x: every[k, : len(x)], said) for k, x in enumerate(xs)]


class StackModel:
    """The network of a stack: computes the outputs for all devices together, each with its own weights.

    On the CPU the masks of dropout are drawn in advance, as each device draws them alone; on a GPU they are computed
    where they are used (dropout.py).
    """

    def __init__(self, model: nn.Module) -> None:
        parameter = next(model.parameters())
        self.on_cpu = not transfers.elsewhere(parameter.device)
        self.drawing = model if self.on_cpu else copied(model).to_empty(device="cpu")  # only for the forms of inputs
        self.given: list[Tensor] = []  # masks (CPU) or keys for the current call, in the order of the layers
        self.ones: dict[torch.Size, list[tuple[nn.Module, Tensor]]] = {}  # by a batch's shape: see _ones
        self.draws = any(type(layer) in DROPOUTS for layer in model.modules())
        self.whole = self.on_cpu and takes_stacks(model)  # the network itself is called for all devices
        self.model = self._changed(model)
        self.frozen = frozen_of(self.model) if self.whole else {}
        for each in (self.model, self.drawing):
            if each is not model:
                remember(each)

    def as_built(self) -> StackModel:
        """Returns this StackModel in train mode, after restoring its network to its state after construction
        (as_built.py)."""
        for each in (self.model, self.drawing):
            restore(each)
            each.train()
        return self

    def _changed(self, model: nn.Module) -> nn.Module:
        """Returns a copy in which some layers have another class but keep their names, attributes and hooks."""
        if not any(map(self._instead, model.modules())):
            return model
        model = copied(model)
        for layer in model.modules():
            if kind := self._instead(layer):
                layer.__dict__.pop("forward", None)  # see dropout.counted
                layer.__class__ = kind
                if isinstance(layer, _Given):
                    layer.given = self.given
        return model

    def _instead(self, layer: nn.Module) -> type[nn.Module] | None:
        if type(layer) in DROPOUTS:
            return (MASKED if self.on_cpu else COUNTER_BASED)[type(layer)]
        if self.whole and type(layer) is nn.Flatten:
            return StackFlatten
        return instead_of(layer, self.on_cpu)

    def outputs(self, how: Precision, weights: Tensors, x: Tensor, drawn: Sequence[Tensor]) -> Any:
        """Returns the outputs (k, B, ...) of k devices for x (k, B, ...), in which padding may follow a device's own
        examples.  `how`: the precision of products; `drawn`: the result of `draw`."""
        return precision.outputs(how, x.device, lambda: self.called(weights, x, *drawn))

    def called(self, weights: Tensors, x: Tensor, *drawn: Tensor) -> Any:
        """Returns the network's outputs (k, B, ...) for x (k, B, ...), without a change of precision."""

        def one(weights: Tensors, x: Tensor, *drawn: Tensor) -> Any:
            self.given[:] = drawn if self.on_cpu else [key for keys in drawn for key in keys]
            return call(self.model, weights, x)

        weights = {name: value.expand(len(x), *value.shape) for name, value in self.frozen.items()} | weights
        return (one if self.whole else vmap(one))(weights, x, *drawn)

    def draw(self, seeds: Sequence[int], step: int, x: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Returns the masks or keys of dropout for a step of these devices, whose batches in x (k, B, ...) have these
        sizes."""
        if not self.draws:
            return ()
        return self._masks(seeds, step, x, sizes) if self.on_cpu else [self._keys(seeds, step, x)]

    def _keys(self, seeds: Sequence[int], step: int, x: Tensor) -> Tensor:
        """Returns the keys of each call of a dropout layer, (k, calls)."""
        calls, generator = len(self._ones(x[0])), torch.Generator()
        own = [step_seed(seed, step) for seed in seeds[: len(x)]]
        rows = [keys(calls, generator.manual_seed(each)) for each in own]
        torch_seeded(own[-1])  # for a user's own penalty that draws
        return transfers.sent(torch.stack(rows), x.device)

    def _masks(self, seeds: Sequence[int], step: int, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Returns the masks of each layer, (k, B, ...)."""
        rows = []
        for seed, own, size in zip(seeds[: len(x)], x, sizes, strict=True):
            ones = self._ones(own[:size])
            torch_seeded(step_seed(seed, step))
            masks = (mask_on_cpu(layer, one) for layer, one in ones)
            # A short batch is padded with examples, which use the first example's masks.
            rows.append([torch.cat([m, m[:1].expand(len(own) - len(m), *m.shape[1:])]) for m in masks])
        return [torch.stack(layer) for layer in zip(*rows, strict=True)]

    def _ones(self, x: Tensor) -> list[tuple[nn.Module, Tensor]]:
        """Returns the dropout layers in the order of their calls, with ones in the form of their inputs."""
        if x.shape not in self.ones:
            calls = self.ones[x.shape] = []

            def call(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                calls.append((layer, torch.ones_like(inputs[0])))

            layers = [layer for layer in self.drawing.modules() if type(layer) in DROPOUTS]
            hooks = [layer.register_forward_pre_hook(call) for layer in layers]
            lay_out(self.drawing, torch.channels_last)  # as in local.sgd: draws depend on the strides of inputs
            try:
                with torch.no_grad():
                    self.drawing(x if self.on_cpu else torch.zeros_like(x, device="cpu"))
            finally:
                lay_out(self.drawing, torch.contiguous_format)
                for hook in hooks:
                    hook.remove()
        return self.ones[x.shape]


class _Given(nn.Module):
    """A dropout layer of a stack; `given` has the masks or keys of the calls that are still to come."""

    given: list[Tensor]


class _Masked(_Given):
    """A dropout layer that multiplies by a mask that was drawn in advance."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.given.pop(0) if self.training else x


class _CounterBased(_Given):
    """A dropout layer that multiplies by the mask computed from the next key."""

    def forward(self, x: Tensor) -> Tensor:
        return x * mask(self, x, self.given.pop(0)) if self.training else x


def _in_place_of(how: type[nn.Module]) -> dict[type, type[nn.Module]]:
    """Returns, for each kind of dropout layer, a subclass of it whose masks come from `how`."""
    return {kind: type(f"{how.__name__}{kind.__name__}", (how, kind), {}) for kind in DROPOUTS}


MASKED, COUNTER_BASED = _in_place_of(_Masked), _in_place_of(_CounterBased)
