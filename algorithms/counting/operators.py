"""The operators of a run through a model: convolutions, dense products, recurrent layers.

Starting an operator has a fixed cost, highest for a convolution, so that a small CNN's step takes longer than its
FLOPs, bytes and a step's overhead: 1.3 ms instead of 0.5 ms with digits-cnn and batches of 10 (a Xeon, 2026-11-22).  A
profile may have this cost (devices/device.py, `operator_s` and `convolution_s`), which `fedlapse calibrate` measures.

Devices differ in their speed for each kind (docs/design/devices.md §1).  A convolution is recognised by its operation,
a recurrent layer's products by the module in which torch's counter saw them; all other matrix products are dense.

The traffic of a recurrent layer depends on how it is computed.  A **fused** one, an LSTM (oneDNN on a CPU, cuDNN), is
one operation for all positions: it reads its weights once, and its states stay in the cache between positions.  Others,
such as a GRU on a CPU, compute one position after another: each reads the weights again, and costs a part of a step's
overhead, because it starts as many operations as a small step does (devices/device.py, POSITION).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

# Numbers that an LSTM writes for each unit and position: its state, its cell, and its four gates, which the backward
# pass reads.
KEPT = 6
BACKWARD = 2.0  # floats of a backward pass, in forward passes: it has two products for each of theirs, as with FLOPs


@dataclass
class Sequences:
    """Counts of the recurrent layers in a run."""

    layers: frozenset[str] = frozenset()  # names, as torch's ModuleTracker forms them
    fused: frozenset[str] = frozenset()  # names of the fused operators
    floats: float = 0.0  # moved by the fused ones, by the rule above
    positions: float = field(default=0.0)  # of the others: forward and backward together count 1, a forward alone 1/3


def recurrent_flops(model: nn.Module, counts: Mapping[str, Mapping[Any, int]]) -> float:
    """Returns the FLOPs in recurrent layers, from FlopCounterMode.get_flop_counts().

    Torch's tracker attributes only a part of Hessian-vector products; the shares of that part are then used for all.
    """
    everything, root = counts.get("Global", {}), counts.get(type(model).__name__, {})
    products = sum(everything.values()) - _convolutions(everything)
    attributed = sum(root.values()) - _convolutions(root)
    inside = sum(sum(counts.get(name, {}).values()) for name in _recurrent(model))
    return inside * (products / attributed) if attributed else 0.0


@contextmanager
def watched(model: nn.Module, order: str) -> Iterator[Sequences]:
    """A context that counts what the model's recurrent layers do during one run of kind `order` (a key of cost.RUNS);
    it gives the counts."""
    once = order != "second"  # a fused layer has no second derivative
    layers = _recurrent(model)
    fused = frozenset(
        name for name, layer in layers.items() if once and isinstance(layer, nn.LSTM) and layer.proj_size == 0
    )
    seen = Sequences(frozenset(layers), fused)

    def note(name: str, layer: nn.RNNBase, inputs: tuple[Any, ...]) -> None:
        trained = torch.is_grad_enabled() and (_needs(inputs[0]) or any(map(_needs, layer.parameters())))
        share = 1.0 if trained else 1 / (1 + BACKWARD)
        if name in seen.fused:
            seen.floats += share * (1 + BACKWARD) * _moved(layer, inputs[0])
        else:  # a Hessian-vector product takes three times the FLOPs of a gradient
            seen.positions += (share if once else 3.0) * _positions(layer, inputs[0]) * _deep(layer)

    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs, name=name: note(name, layer, inputs))
        for name, layer in layers.items()
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _recurrent(model: nn.Module) -> dict[str, nn.RNNBase]:
    root = type(model).__name__
    modules = model.named_modules()
    return {f"{root}.{name}" if name else root: layer for name, layer in modules if isinstance(layer, nn.RNNBase)}


def _convolutions(counts: Mapping[Any, int]) -> int:
    return sum(flops for operation, flops in counts.items() if "convolution" in str(operation))


def _needs(value: Any) -> bool:
    tensor = value.data if isinstance(value, PackedSequence) else value
    return bool(tensor.requires_grad)


def _deep(layer: nn.RNNBase) -> int:
    """Returns the number of layers and directions that are computed one after another."""
    return layer.num_layers * (2 if layer.bidirectional else 1)


def _positions(layer: nn.RNNBase, x: Tensor | PackedSequence) -> int:
    if isinstance(x, PackedSequence):
        return len(x.batch_sizes)
    return x.shape[1] if layer.batch_first and x.dim() == 3 else x.shape[0]


def _moved(layer: nn.RNNBase, x: Tensor | PackedSequence) -> float:
    """Returns the floats of a fused forward pass: weights and input read, states and gates written, each once."""
    values = x.data if isinstance(x, PackedSequence) else x
    tokens = values.numel() / layer.input_size
    weights = sum(parameter.numel() for parameter in layer.parameters())
    return float(weights + values.numel() + KEPT * tokens * layer.hidden_size * _deep(layer))
