"""Sums of |g| or g² over examples, g the gradient of one example's loss, from one backward for many examples.

Only for networks whose trainable layers are plain Linear and Conv2d layers: the gradient of a Linear layer is an outer
product, so its squares are an outer product of squares (docs/design/algorithms.md §15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.nn import functional as F

from algorithms.algorithm import Loss, Tensors
from algorithms.importance.gradients import POWER, Power, chunks, losses_of, zeros
from algorithms.training.tensors import trainable

# Constants, independent of free memory: a sum's last bits depend on where it is split.
CHUNK = 64  # examples in one batched backward; the last chunk is shorter
UNFOLDED = 1 << 20  # floats of unfolded images and gradients held at once in a Conv2d layer: 4 MB in float32

Called = tuple[Tensor, GradientEdge]  # a layer's inputs, and the node at which the gradient of its outputs is available


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """Returns the modules that own trainable parameters, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    }


def _plain(model: nn.Module) -> bool:
    """Returns true if every trainable parameter is the weight or bias of a Linear or Conv2d layer of the kinds handled
    below; weight_norm and spectral_norm leave other parameters there."""
    layers = layers_of(model).values()
    parts = {part for layer in layers for part, _ in layer.named_parameters(recurse=False)}
    return parts <= {"weight", "bias"} and all(
        type(layer) is nn.Linear
        or (
            type(layer) is nn.Conv2d
            and layer.groups == 1
            and layer.padding_mode == "zeros"
            and not isinstance(layer.padding, str)
        )
        for layer in layers
    )


def in_chunks(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Power) -> Tensors | None:
    """Returns sums of |g| or g² over the examples, or None if there is no fast path for the model."""
    sums = zeros(model)
    for parameter in model.parameters():
        if parameter.dim() == 4:  # channels last: a fifth less time for convolutions and pools, as in local.sgd
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    for some_x, some_y in chunks(x, y, CHUNK):
        chunk = chunk_sums(model, loss, some_x, some_y, kind)
        if chunk is None:
            return None
        for name, total in chunk.items():
            sums[name] += total
    return sums


def chunk_sums(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Power) -> Tensors | None:
    """Returns sums of |g| or g² over the examples of one chunk, from one batched backward; None if that is impossible.

    Needs trainable layers that are Linear or Conv2d, each used at most once; `model` must already be in its mode.
    counting/cost.py counts the floats that this moves.
    """
    if not _plain(model):
        return None
    layers = layers_of(model)
    total, calls = _watched(model, layers, loss, x, y)
    if not _once(total, layers, calls, len(x)):
        return None
    called = {name: call[0] for name, call in calls.items() if call}
    deltas = torch.autograd.grad(total, [edge for _, edge in called.values()])
    sums: Tensors = {}
    for (name, (inputs, _)), delta in zip(called.items(), deltas, strict=True):
        for part, value in _sums(layers[name], inputs, delta, kind).items():
            sums[f"{name}.{part}" if name else part] = value
    for name, parameter in trainable(model).items():
        if name not in sums:  # the loss does not reach it
            sums[name] = torch.zeros_like(parameter)
    return sums


def _watched(
    model: nn.Module, layers: dict[str, nn.Module], loss: Loss, x: Tensor, y: Tensor
) -> tuple[Tensor, dict[str, list[Called]]]:
    """Returns the summed loss of the examples, and each layer's calls on the way there."""
    calls: dict[str, list[Called]] = {name: [] for name in layers}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        # The edge, not the tensor: an in-place ReLU behind the layer would change the tensor.
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if output.requires_grad:
                calls[name].append((inputs[0].detach(), get_gradient_edge(output)))

        return hook

    hooks = [layer.register_forward_hook(watch(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            return losses_of(loss, model(x), y).sum(), calls
    finally:
        for hook in hooks:
            hook.remove()


def _once(total: Tensor, layers: dict[str, nn.Module], calls: dict[str, list[Called]], examples: int) -> bool:
    """Returns true if each layer was called at most once, with one row or image per example, and its parameters had no
    other use."""
    if not any(calls.values()):
        return False
    nodes, uses = _graph(total)
    for name, layer in layers.items():
        trained = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if len(calls[name]) > 1 or any(uses.get(id(parameter), 0) != len(calls[name]) for parameter in trained):
            return False
        for inputs, edge in calls[name]:
            dimensions = 2 if isinstance(layer, nn.Linear) else 4
            if inputs.dim() != dimensions or len(inputs) != examples or edge.node not in nodes:
                return False
    return True


def _graph(total: Tensor) -> tuple[set[Node], dict[int, int]]:
    """Returns the nodes behind `total`, and the number of edges that lead to each leaf tensor (by its id)."""
    uses: dict[int, int] = {}
    start = total.grad_fn
    nodes: set[Node] = set() if start is None else {start}
    todo = list(nodes)
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None:
                continue
            if hasattr(node, "variable"):  # AccumulateGrad, the node of a leaf
                leaf = id(node.variable)
                uses[leaf] = uses.get(leaf, 0) + 1
            elif node not in nodes:
                nodes.add(node)
                todo.append(node)
    return nodes, uses


def _sums(layer: nn.Module, a: Tensor, delta: Tensor, kind: Power) -> Tensors:
    """Returns sums over the examples of |g| or g² for the trainable parameters of one layer.

    `a`: the layer's inputs; `delta`: the gradients of the summed loss at its outputs, one row per example.
    """
    power = POWER[kind]
    sums: Tensors = {}
    if layer.weight.requires_grad:
        if isinstance(layer, nn.Conv2d):
            sums["weight"] = _conv_weight(layer, a, delta, power)
        else:
            sums["weight"] = power(delta).T @ power(a)  # |δᵢ aⱼ| = |δᵢ| |aⱼ|, and likewise squared
    if layer.bias is not None and layer.bias.requires_grad:
        own = delta.flatten(2).sum(2) if delta.dim() == 4 else delta  # (n, out)
        sums["bias"] = power(own).sum(0)
    return sums


def _conv_weight(layer: nn.Conv2d, a: Tensor, delta: Tensor, power: Callable[[Tensor], Tensor]) -> Tensor:
    """Returns the sums for a convolution's weight: an example's gradient is its δ times its unfolded image."""
    inputs, *kernel = layer.weight[0].shape
    outs, length, patch = delta.shape[1], delta[0, 0].numel(), layer.weight[0].numel()
    size = max(1, UNFOLDED // (patch * length + outs * patch))
    total = torch.zeros(outs, patch, dtype=torch.float64, device=a.device)
    for images, some_delta in chunks(a, delta, size):
        g = some_delta.flatten(2) @ _unfolded(layer, images, some_delta.shape[2:])  # (n, outs, patch)
        total += power(g).sum(0)
    return total.view(outs, *kernel, inputs).permute(0, 3, 1, 2)


def _unfolded(layer: nn.Conv2d, images: Tensor, positions: torch.Size) -> Tensor:
    """Returns the patch under the kernel at each of its positions, (n, positions, kernel area * channels).

    As F.unfold, but channels last: 10 times faster.
    """
    vertical, horizontal = cast(tuple[int, int], layer.padding)  # "same" and "valid" do not come here: _plain
    padded = F.pad(images, (horizontal, horizontal, vertical, vertical))
    padded = padded.contiguous(memory_format=torch.channels_last)
    image, channel, row, column = padded.stride()
    windows = padded.as_strided(
        (len(images), *positions, *layer.kernel_size, padded.shape[1]),
        (
            image,
            layer.stride[0] * row,
            layer.stride[1] * column,
            layer.dilation[0] * row,
            layer.dilation[1] * column,
            channel,
        ),
    )
    return windows.reshape(len(images), positions.numel(), layer.weight[0].numel())
