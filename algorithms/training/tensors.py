"""A network's tensors by name, each once: a weight with two names is one parameter.

Messages, means, penalties and prices use the first of its names, which is that of named_parameters(); state_dict() has
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from algorithms.algorithm import Tensors
from algorithms.networks import FROZEN, KEPT
from algorithms.training.as_built import STAYS, restore

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def as_input(x: Tensor) -> Tensor:
    """Returns examples as a network takes them: uint8 pixels as float32 from 0 to 1, others unchanged."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x


def mapped(change: Callable[..., Any], *said: Any) -> Any:
    """Returns `change(*tensors)` in place of each tensor of a network's outputs: a tensor, a tuple or a dict of them.
    Several outputs of one form go together."""
    if isinstance(said[0], Mapping):
        return {key: mapped(change, *(each[key] for each in said)) for key in said[0]}
    if isinstance(said[0], tuple | list):
        return tuple(mapped(change, *each) for each in zip(*said, strict=True))
    return change(*said)


def joined(said: Sequence[Any]) -> Any:
    """Returns the outputs for several batches as one, in their order."""
    return mapped(lambda *each: torch.cat(each), *said)


def tensors_of(model: nn.Module) -> Tensors:
    """Returns the parameters and buffers that travel, in the form of messages, in the order of state_dict(); they share
    the model's memory."""
    own, _ = _saved(model)
    apart = {*_second_names(model, own), *staying(model)}
    return {name: value.detach() for name, value in own.items() if name not in apart}


def frozen_of(model: nn.Module) -> Tensors:
    """Returns the tensors that never change, in the form of messages; they share the model's memory."""
    return _that_stay(model, FROZEN)


def kept_of(model: nn.Module) -> Tensors:
    """Returns the tensors of which each device has values of its own, in the form of messages; they share the model's
    memory."""
    return _that_stay(model, KEPT)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that are trained, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def travelling(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that are trained and travel, by name."""
    stay = staying(model)
    return {name: parameter for name, parameter in trainable(model).items() if name not in stay}


def staying(model: nn.Module) -> Mapping[str, str]:
    """Returns the names of all tensors that are in no message between server and devices, each with the reason."""
    found: Mapping[str, str] = vars(model).get(STAYS, {})
    return found


def second_names(model: nn.Module) -> dict[str, str]:
    """Returns each further name that state_dict() has for a tensor that travels, with the first name of that tensor."""
    stay = staying(model)
    return {name: first for name, first in _second_names(model, _saved(model)[0]).items() if first not in stay}


def load(model: nn.Module, weights: Tensors) -> None:
    """Loads these weights into the model, after restoring everything else to its state after construction; no trace of
    earlier use remains.

    Call it before train(), eval() and hooks, which it undoes.  Frozen tensors need not be among the weights; kept ones
    must be.  Raises RuntimeError if the weights do not fit the model.
    """
    restore(model)
    own, further = _saved(model)
    again = {name: weights[first] for name, first in _second_names(model, own).items() if first in weights}
    found = model.load_state_dict({**further, **weights, **again}, strict=not staying(model))
    lacking = [name for name in found.missing_keys if staying(model).get(name) != FROZEN]
    if unfit := [*lacking, *found.unexpected_keys]:
        raise RuntimeError(f"the weights do not fit the model: {unfit[0]!r} is missing, or is not in it")


def call(model: nn.Module, weights: Tensors, x: Tensor) -> Any:
    """Returns the outputs for x with these weights instead of the model's own.

    torch.func.functional_call alone would leave the given weights in a layer that has two names.
    """
    first = {id(value): name for name, value in model.named_parameters()}
    given = {}
    for prefix, layer in model.named_modules():  # each layer once
        parts = layer.named_parameters(prefix, False, False), layer.named_buffers(prefix, False, False)
        for name, value in chain(*parts):
            known = first.setdefault(id(value), name)
            if known in weights:
                given[name] = weights[known]
    return functional_call(model, given, (x,), tie_weights=False)


def overlap(model: nn.Module) -> tuple[str, str] | None:
    """Returns the names of two different tensors that share memory; None if there are none."""
    own = {name: value for name, value in tensors_of(model).items() if value.numel()}
    places = []
    for name, value in own.items():
        last = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
        places.append((value.data_ptr(), value.data_ptr() + value.element_size() * (1 + last), name))
    places.sort()
    return next(((one[2], other[2]) for one, other in pairwise(places) if other[0] < one[1]), None)


def retied(moved: nn.Module, model: nn.Module) -> nn.Module:
    """Returns `moved`, a network like `model` that Module.to() has moved and that has therefore lost its buffers'
    second names: gives them back, as they are in `model`."""
    buffers = dict(moved.named_buffers(remove_duplicate=False))
    for name, first in _second_names(model, dict(model.named_buffers(remove_duplicate=False))).items():
        owner, _, own = name.rpartition(".")
        setattr(moved.get_submodule(owner), own, buffers[first])
    return moved


def _that_stay(model: nn.Module, why: str) -> Tensors:
    """Returns the tensors that are in no message for this reason, each under its first name."""
    own, _ = _saved(model)
    second = _second_names(model, own)
    names = [name for name, each in staying(model).items() if each == why and name not in second]
    return {name: own[name].detach() for name in names}


def _saved(model: nn.Module) -> tuple[Tensors, dict[str, Any]]:
    """Returns the parameters and buffers themselves that the model saves, under all their names, and everything else
    that it saves."""
    saved: dict[str, Any] = model.state_dict(keep_vars=True)
    own = {name: value for name, value in saved.items() if isinstance(value, Tensor)}
    return own, {name: value for name, value in saved.items() if name not in own}


def _second_names(model: nn.Module, own: Mapping[str, Tensor]) -> dict[str, str]:
    first = {id(value): name for name, value in model.named_parameters()}
    return {name: known for name, value in own.items() if (known := first.setdefault(id(value), name)) != name}
