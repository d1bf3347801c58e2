"""How much a weight matters: means of |g| or g², g the gradient of one example's loss or of a batch's mean loss.

Gradients are taken in eval mode (docs/design/algorithms.md §9, reading 5, and §15) and on a private copy of the model:
the caller's modes, gradients and hooks stay as they are.  Where they are taken example by example, networks of plain
Linear and Conv2d layers take the fast path, one batched backward for many examples (docs/design/algorithms.md §15: the
gradient of a Linear layer is an outer product, so its squares are an outer product of squares); all others use
`torch.func`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.func import grad, vmap
from torch.nn import functional as F

from algorithms import course
from algorithms.algorithm import Loss, Party, Tensors
from algorithms.course import Course, structure
from algorithms.importance.labels import at_label, drawn, norm
from algorithms.models import twice_differentiable
from algorithms.training.as_built import restore
from algorithms.training.copied import copied
from algorithms.training.seeding import drawing
from algorithms.training.tensors import BATCH_NORMS, call, load

Kind = Literal["abs", "sq", "true", "sampled", "mas", "batch_squared", "tensor_scalar"]
MEANING: dict[str, str] = {
    "abs": "mean |g|",
    "sq": "mean g², the empirical Fisher diagonal",
    "true": "mean over the examples of Σ_c p(c | x) g_c², g_c the gradient were the label c: the Fisher diagonal",
    "sampled": "mean g² with labels drawn from the model, one for each example",
    "mas": "mean |∂‖f(x)‖² / ∂θ|, which needs no labels",
    "batch_squared": "mean over batches of the squared mean gradient of a batch",
    "tensor_scalar": "one number for each parameter: the same squares summed over batches and coordinates, over n",
}

# Constants, never taken from free memory: a sum's last bits depend on where it is cut.
CHUNK = 64  # examples in one batched backward; the last chunk is shorter
VMAP_CHUNK = 8  # examples whose whole gradients are held at once: 53 MB for 1.66 M float32 parameters
UNFOLDED = 1 << 20  # floats of unfolded images and gradients held at once in a Conv2d layer: 4 MB in float32

Called = tuple[Tensor, GradientEdge]  # a layer's inputs, and where the gradient of its outputs is to be had

POWER: dict[str, Callable[[Tensor], Tensor]] = {"abs": torch.abs, "sq": torch.square}


def importance(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, *, seed: int = 0, batch: int = 64
) -> Tensors:
    """How much each trainable parameter matters for these examples, in one of the ways of MEANING.

    "abs" is FedCL's Ω (Yao & Sun, Eq. 1-2, read coordinate-wise: docs/design/algorithms.md §9, reading 1),
    "tensor_scalar" that of its authors' code (§4 there), "mas" that of Aljundi et al. 2018, Eq. 3; "sq" is the Fisher
    diagonal of EWC and FedCurv (reading 9), and "true", "sampled" and "batch_squared" are other readings of it.
    `seed`: of the labels drawn; `batch`: examples whose mean gradient is squared, in the order given, the last batch
    may be shorter. Summed in float64; the means are in each parameter's own type and shape ("tensor_scalar": ()).
    Memory does not grow with the number of examples.
    Raises ValueError for another kind, for no examples, for a loss that is not one number per example, for
    several labels per example ("true"), and for a model whose examples see each other.
    """
    return course.alone(_mean(copied(model).eval(), loss, x, y, kind, seed, batch))


def estimating(device: Party, weights: Tensors, kind: Kind, seed: int = 0, batch: int = 64) -> Course[Tensors]:
    """`importance` of a party's examples at these weights, as a course (course.py)."""
    restore(device.model)
    private = copied(device.model)
    load(private, weights)
    return _mean(private.eval(), device.loss, device.x, device.y, kind, seed, batch)


def _mean(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, seed: int, batch: int) -> Course[Tensors]:
    if kind not in MEANING:
        told = ", ".join(f"{known!r} ({meaning})" for known, meaning in MEANING.items())
        raise ValueError(f"kind is {kind!r}; an importance is {told}")
    if len(x) == 0 or len(x) != len(y):
        raise ValueError(f"x has {len(x)} examples and y has {len(y)}; both need the same number, at least one")
    for name, module in model.named_modules():
        if isinstance(module, BATCH_NORMS) and module.running_mean is None:
            raise ValueError(
                f"layer {name!r} normalises over the batch even in eval mode: no example has its own gradient"
            )
    types = {name: parameter.dtype for name, parameter in trainable(model).items()}
    if not types:
        return {}
    count = ceil(len(x) / batch) if kind == "batch_squared" else len(x)
    sums = yield from _sums_of(model, loss, x, y, kind, seed, batch)
    return {name: (total / count).to(types[name]) for name, total in sums.items()}


@dataclass(frozen=True)
class Summed:
    """Sums of |g| ("abs") or g² ("sq") over the examples, in float64, that a course waits for.

    `label`: the one that the loss is taken with (labels.at_label); None: `y`.  The model is in eval mode.
    """

    model: nn.Module
    loss: Loss
    x: Tensor
    y: Tensor
    kind: Kind
    label: int | None = None

    @property
    def sort(self) -> Hashable:
        return self.kind, self.label, id(self.loss), structure(self.model)

    @property
    def weighed(self) -> Loss:
        """The loss that is differentiated."""
        return self.loss if self.label is None else at_label(self.loss, self.label)

    def alone(self) -> Tensors:
        """The sums of each trainable parameter."""
        given = self.model, self.weighed, self.x, self.y, self.kind
        with drawing(0):  # some networks draw in eval mode, too
            sums = _fast(*given)
            return _slow(*given) if sums is None else sums


@dataclass(frozen=True)
class BatchSquares:
    """Sums over batches, in the order given, of the squared gradient of a batch's mean loss, in float64."""

    model: nn.Module
    loss: Loss
    x: Tensor
    y: Tensor
    batch: int

    @property
    def sort(self) -> Hashable:
        return self.batch, id(self.loss), structure(self.model)

    def alone(self) -> Tensors:
        """The sums of each trainable parameter."""
        sums = _zeros(self.model)
        with drawing(0):
            for _, gradient in gradients(self.model, self.loss, self.x, self.y, self.batch):
                for name, g in gradient.items():
                    sums[name].addcmul_(g, g)  # in float64
        return sums


def _sums_of(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind, seed: int, batch: int) -> Course[Tensors]:
    """What `importance` is the mean of, in float64."""
    if kind == "batch_squared":
        return (yield BatchSquares(model, loss, x, y, batch))
    if kind == "tensor_scalar":
        squares = yield BatchSquares(model, loss, x, y, batch)
        return {name: value.sum() for name, value in squares.items()}
    if kind == "true":
        return (yield from _expected(model, loss, x, y))
    if kind == "sampled":
        return (yield Summed(model, loss, x, drawn(model, x, y, seed), "sq"))
    if kind == "mas":
        return (yield Summed(model, norm, x, y, "abs"))
    return (yield Summed(model, loss, x, y, kind))


def gradients(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, batch: int) -> Iterator[tuple[int, Tensors]]:
    """For each batch, in the order given: how many examples it has, and the gradient of its mean loss."""
    weights = trainable(model)
    for some_x, some_y in _chunks(x, y, batch):
        mean = _losses(loss, model(some_x), some_y).mean()
        found = torch.autograd.grad(mean, list(weights.values()), allow_unused=True, materialize_grads=True)
        yield len(some_y), dict(zip(weights, found, strict=True))


def _expected(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Course[Tensors]:
    """Sums over the examples of Σ_c p(c | x) g_c²."""
    if y.dim() != 1:
        raise ValueError(f"y has shape {tuple(y.shape)}; the exact sum over labels needs one label per example, (n,)")
    with torch.no_grad():
        classes = model(x[:1]).shape[-1]
    sums = _zeros(model)
    for label in range(classes):
        found = yield Summed(model, loss, x, y, "sq", label)
        for name, total in found.items():
            sums[name] += total
    return sums


def trainable(model: nn.Module) -> Tensors:
    """The model's trainable parameters, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _zeros(model: nn.Module) -> Tensors:
    return {n: torch.zeros(p.shape, dtype=torch.float64, device=p.device) for n, p in trainable(model).items()}


def _chunks(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(x, size), torch.split(y, size), strict=True)


def _losses(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    losses = loss(outputs, y)
    if losses.shape != y.shape[:1]:
        raise ValueError(f"the loss has shape {tuple(losses.shape)}; it must be one number per example, ({len(y)},)")
    return losses


# ---- the fast path


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """The modules that own trainable parameters, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    }


def _plain(model: nn.Module) -> bool:
    """Whether every trainable parameter sits in a Linear or Conv2d layer of the kinds written out below, as its weight
    or its bias: weight_norm and spectral_norm leave others there."""
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


def _fast(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind) -> Tensors | None:
    """Sums of |g| or g² over the examples, or None if there is no fast path."""
    sums = _zeros(model)
    for parameter in model.parameters():
        if parameter.dim() == 4:  # channels last: a fifth less time for convolutions and pools, as in local.sgd
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    for some_x, some_y in _chunks(x, y, CHUNK):
        chunk = chunk_sums(model, loss, some_x, some_y, kind)
        if chunk is None:
            return None
        for name, total in chunk.items():
            sums[name] += total
    return sums


def chunk_sums(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind) -> Tensors | None:
    """Sums of |g| or g² over the examples of one chunk, from one batched backward; None if that cannot be done.

    Needs trainable layers that are Linear or Conv2d, each used once or not at all; `model` is in
    the mode it is to be run in.  cost.py counts what this moves.
    """
    if not _plain(model):
        return None
    layers = layers_of(model)
    total, calls = _watched(model, layers, loss, x, y)
    if not _once(total, layers, calls, len(x)):
        return None
    called = {name: call[0] for name, call in calls.items() if call}
    sums = _of_calls(total, layers, called, kind)
    for name, parameter in trainable(model).items():
        if name not in sums:  # the loss does not reach it
            sums[name] = torch.zeros_like(parameter)
    return sums


def _of_calls(
    total: Tensor,
    layers: Mapping[str, nn.Module],
    called: Mapping[str, Called],
    kind: Kind,
) -> Tensors:
    """Those of the parameters of all layers that were called, by the parameters' names."""
    sums: Tensors = {}
    deltas = torch.autograd.grad(total, [edge for _, edge in called.values()])
    for (name, (inputs, _)), delta in zip(called.items(), deltas, strict=True):
        for part, value in _sums(layers[name], inputs, delta, kind).items():
            sums[f"{name}.{part}" if name else part] = value
    return sums


def _watched(
    model: nn.Module, layers: dict[str, nn.Module], loss: Loss, x: Tensor, y: Tensor
) -> tuple[Tensor, dict[str, list[Called]]]:
    """The summed loss of the examples, and each layer's calls on the way there."""
    calls: dict[str, list[Called]] = {name: [] for name in layers}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        # The edge, not the tensor: an in-place ReLU behind the layer would change what the tensor stands for.
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if output.requires_grad:
                calls[name].append((inputs[0].detach(), get_gradient_edge(output)))

        return hook

    hooks = [layer.register_forward_hook(watch(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            return _losses(loss, model(x), y).sum(), calls
    finally:
        for hook in hooks:
            hook.remove()


def _once(total: Tensor, layers: dict[str, nn.Module], calls: dict[str, list[Called]], examples: int) -> bool:
    """Whether each layer was called once at most, one row or image per example, and no parameter was used besides."""
    if not any(calls.values()):
        return False
    nodes, uses = _graph(total)
    for name, layer in layers.items():
        of_layer = calls[name]
        if len(of_layer) > 1:
            return False
        if of_layer and not _one_each(layer, *of_layer[0], examples, nodes):
            return False
        if not _used_by_calls_alone(layer, uses, len(of_layer)):
            return False
    return True


def _used_by_calls_alone(layer: nn.Module, uses: Mapping[int, int], calls: int) -> bool:
    trained = [p for p in layer.parameters(recurse=False) if p.requires_grad]
    return all(uses.get(id(parameter), 0) == calls for parameter in trained)


def _one_each(layer: nn.Module, inputs: Tensor, edge: GradientEdge, examples: int, nodes: set[Node]) -> bool:
    """Whether a call had one row or image per example, and the loss depends on it."""
    dimensions = 2 if isinstance(layer, nn.Linear) else 4
    return inputs.dim() == dimensions and len(inputs) == examples and edge.node in nodes


def _graph(total: Tensor) -> tuple[set[Node], dict[int, int]]:
    """The nodes behind `total`, and how many edges lead to each leaf tensor (by its id)."""
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


def _sums(layer: nn.Module, a: Tensor, delta: Tensor, kind: Kind) -> Tensors:
    """Sums over the examples of |g| or g² for the trainable parameters of one layer.

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
    """The same for a convolution's weight: an example's gradient is its δ times its unfolded image."""
    inputs, *kernel = layer.weight[0].shape
    outs, length, patch = delta.shape[1], delta[0, 0].numel(), layer.weight[0].numel()
    size = max(1, UNFOLDED // (patch * length + outs * patch))
    total = torch.zeros(outs, patch, dtype=torch.float64, device=a.device)
    for images, some_delta in _chunks(a, delta, size):
        g = some_delta.flatten(2) @ _unfolded(layer, images, some_delta.shape[2:])  # (n, outs, patch)
        total += power(g).sum(0)
    return total.view(outs, *kernel, inputs).permute(0, 3, 1, 2)


def _unfolded(layer: nn.Conv2d, images: Tensor, positions: torch.Size) -> Tensor:
    """What the kernel sees at each of its positions, (n, positions, kernel area * channels).

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


# ---- the general path


def alone(model: nn.Module) -> bool:
    """Whether each example's gradient takes a backward of its own, as in networks with recurrent layers.

    torch.func cannot map over a GRU or LSTM whose first state is the default one, and where it can it is slower
    than a loop: 0.96 s an example, not 0.18 (character GRU of 4 M parameters, 80 characters, 1 thread).
    """
    return any(isinstance(module, nn.RNNBase) for module in model.modules())


def _looped(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind) -> Tensors:
    """Sums of |g| or g² over the examples, one after the other."""
    sums = _zeros(model)
    with twice_differentiable():
        for _, gradient in gradients(model, loss, x, y, batch=1):
            for name, g in gradient.items():
                sums[name] += POWER[kind](g)
    return sums


def _slow(model: nn.Module, loss: Loss, x: Tensor, y: Tensor, kind: Kind) -> Tensors:
    """Sums of |g| or g² over the examples, from whole gradients of VMAP_CHUNK examples at a time."""
    if alone(model):
        return _looped(model, loss, x, y, kind)
    power = POWER[kind]
    weights = {name: parameter.detach() for name, parameter in trainable(model).items()}

    def one(weights: Tensors, some_x: Tensor, some_y: Tensor) -> Tensor:
        outputs = call(model, weights, some_x[None])
        return _losses(loss, outputs, some_y[None]).sum()

    gradients = vmap(grad(one), in_dims=(None, 0, 0))
    sums = _zeros(model)
    for some_x, some_y in _chunks(x, y, VMAP_CHUNK):
        for name, g in gradients(weights, some_x, some_y).items():  # (n, *parameter)
            sums[name] += power(g).sum(0)
    return sums
