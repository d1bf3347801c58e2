"""A user's own networks: their construction, and the reading of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from math import prod
from pkgutil import resolve_name
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from algorithms.training.copied import copied
from algorithms.training.stack_layers import takes_stacks
from algorithms.training.tensors import tensors_of

Inputs = tuple[tuple[str, tuple[int, ...], str], ...]  # of several inputs: name, shape and dtype of each

_MADE: WeakSet[nn.Module] = WeakSet()  # networks that functions have returned: each must be a new one


def maker(path: str) -> Callable[..., nn.Module]:
    """Returns a function that makes the network at `package.module:thing`: a function or class, or a network, which it
    copies.

    If its outputs have `logits`, by attribute or by key, the network returns these.
    """
    found = resolve_name(path)
    if isinstance(found, nn.Module):
        return lambda: _of_logits(copied(found))

    @wraps(found)
    def made(**chosen: Any) -> nn.Module:
        network = found(**chosen)
        if isinstance(network, nn.Module):
            if network in _MADE:
                raise ValueError(f"{path} returned the same network twice; it must make a new one at each call")
            _MADE.add(network)
        return _of_logits(network)

    return made


def _of_logits(network: nn.Module) -> nn.Module:
    # A hook, so that every caller of the network gets logits. A plain sequence of layers returns only tensors.
    if isinstance(network, nn.Module) and not takes_stacks(network):
        network.register_forward_hook(_logits)
    return network


def _logits(_network: nn.Module, _inputs: Any, outputs: Any) -> Any:
    """Returns the logits of outputs that have them, for a forward hook; None leaves the outputs unchanged."""
    if isinstance(outputs, Tensor):
        return None
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    return getattr(outputs, "logits", None)


def taking(network: nn.Module, inputs: Inputs) -> None:
    """Makes a network with several inputs take one tensor (n, numbers), in which they lie one after another.

    `inputs`: name, shape and dtype of each.  Those with names are its keyword arguments, or a dict if it has no
    arguments of these names; others are its positional arguments.
    """
    sizes = [prod(shape) for _, shape, _ in inputs]
    names = [name for name, _, _ in inputs]
    known = signature(network.forward).parameters
    by_keyword = any(each.kind is each.VAR_KEYWORD for each in known.values()) or {*names} <= known.keys()

    def apart(_network: nn.Module, args: tuple[Any, ...], _options: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        pieces = args[0].split(sizes, 1)
        given = [
            (piece.long() if dtype == "int64" else piece).reshape(len(piece), *shape)
            for piece, (_, shape, dtype) in zip(pieces, inputs, strict=True)
        ]
        if not all(names):
            return tuple(given), {}
        named = dict(zip(names, given, strict=True))
        return ((), named) if by_keyword else ((named,), {})

    network.register_forward_pre_hook(apart, with_kwargs=True)


def unsendable(network: nn.Module, dtypes: Collection[str]) -> str | None:
    """Returns a description of the network's first tensor whose dtype is not among these; None if all can be sent."""
    for name, tensor in tensors_of(network).items():
        if (dtype := str(tensor.dtype).removeprefix("torch.")) not in dtypes:
            return f"{name} is {dtype}; it must be one of {', '.join(dtypes)}"
    return None


def fault(outputs: Any) -> str | None:
    """Returns a description of the network's output if it is not a tensor; None otherwise."""
    match outputs:
        case Tensor():
            return None
        case Mapping():
            return f"a {type(outputs).__name__} of {', '.join(map(str, outputs))}"
        case tuple() | list():
            return f"a {type(outputs).__name__} of {len(outputs)}"
        case _:
            return "nothing" if outputs is None else f"a {type(outputs).__name__}"


def probabilities(outputs: Tensor) -> bool:
    """Returns true if each example's outputs (..., classes) are >= 0 and sum to 1, as after a softmax."""
    sums = outputs.double().sum(-1)
    return bool((outputs >= 0).all() and torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-3))
