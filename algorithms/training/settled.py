"""Settles a network that was built: fills in its pretrained weights, freezes what is not trained, and marks what stays.

Of a network with `train` only trained parameters travel.  A buffer goes with the smallest part of the network that
holds it and has parameters: it is frozen if none of these is trained.  A frozen BatchNorm normalises with its
statistics also in train mode, and they do not change (as a layer with `trainable = False` does in Keras).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as safetensors
from torch import Tensor, nn

from algorithms.algorithm import Tensors, matches
from algorithms.networks import FROZEN, KEPT, TRAINABLE, Network
from algorithms.training.as_built import STAYS
from algorithms.training.tensors import BATCH_NORMS, staying, travelling

INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
NAMED = 3  # tensors that an error names


def settle(model: nn.Module, said: Network) -> None:
    """Changes a network that was just built as `said` says.

    Raises ValueError for a file of weights that does not fit the network, for a pattern that matches nothing, and if
    nothing is trained or travels.
    """
    if said.weights:
        _fill(model, _read(said.weights, said.digest), said.weights)
    if said.train:
        _freeze(model, said.train)
        vars(model)[STAYS] = dict.fromkeys(_frozen(model), FROZEN)
    if said.keep:
        vars(model)[STAYS] = {**staying(model), **dict.fromkeys(_kept(model, said.keep), KEPT)}
        if not travelling(model):
            raise ValueError(f"keep is {said.keep!r}, and no parameter travels; it must leave at least one")


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: str, digest: str) -> Tensors:
    """Returns the tensors of a safetensors file, or of a state dict that torch.save has written, of which nothing is
    run."""
    data = Path(path).read_bytes()
    if digest and hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{path} has changed since the scenario was read")
    try:
        if data[8:9] == b"{":  # after the length of its header
            return safetensors(data)
        found: Any = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise ValueError(f"{path} is no sound safetensors file: {error}") from None
    except Exception as error:  # of pickle, zipfile and torch, for bytes of any kind
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is neither safetensors nor a state dict of torch.save: {said}") from None
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        held = _listed(found) if isinstance(found, Mapping) else f"a {type(found).__name__}"
        raise ValueError(f"{path} holds {held}; it must be a state dict, tensors by the names of model.state_dict()")
    return dict(found)


def _fill(model: nn.Module, weights: Tensors, path: str) -> None:
    """Loads all weights of a file into the model.  A weight with two names may be in the file once."""
    own = {name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
    if surplus := weights.keys() - own.keys():
        raise ValueError(f"{path} has {_listed(surplus)}, which the model has not")
    given = {id(own[name]) for name in weights}
    if missing := [name for name, value in own.items() if id(value) not in given]:
        raise ValueError(f"{path} lacks {_listed(missing)}, of the model's {len(own)} tensors")
    for name, value in weights.items():
        if value.shape != own[name].shape:
            raise ValueError(f"{path} has {name} of shape {(*value.shape,)}; the model's has {(*own[name].shape,)}")
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)


def _freeze(model: nn.Module, train: str) -> None:
    """Leaves requires_grad only with the parameters that the patterns match, under any of their names."""
    if train != TRAINABLE:
        named = dict(model.named_parameters(remove_duplicate=False))
        _check_patterns("train", train, named)
        chosen = {id(parameter) for name, parameter in named.items() if matches(name, train)}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in chosen)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"train is {train!r}, and no parameter is trained; it must leave at least one")
    for name, layer in model.named_modules():
        if isinstance(layer, BATCH_NORMS + INSTANCE_NORMS) and layer.track_running_stats and _still(model, name):
            layer.train = MethodType(_evaluating, layer)  # type: ignore[method-assign]
            layer.train()


def _kept(model: nn.Module, keep: str) -> list[str]:
    """Returns the names of the tensors that the patterns match, under any of their names, and that are not frozen."""
    tensors = {name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}
    _check_patterns("keep", keep, tensors)
    chosen = {id(value) for name, value in tensors.items() if matches(name, keep)}
    found = [name for name, value in tensors.items() if id(value) in chosen and name not in staying(model)]
    if not found:
        raise ValueError(f"keep is {keep!r}, which matches only tensors that are frozen")
    return found


def _check_patterns(key: str, patterns: str, names: Collection[str]) -> None:
    """Raises ValueError for a pattern that matches none of these names."""
    for pattern in patterns.split():
        if not any(matches(name, pattern.removeprefix("!")) for name in names):
            raise ValueError(f"{key} has {pattern!r}, which matches none of {_listed(names)}")


def _evaluating(layer: nn.Module, mode: bool = True) -> nn.Module:  # noqa: ARG001
    """The train() of a frozen normalisation, which stays in eval mode."""
    return nn.Module.train(layer, False)


def _frozen(model: nn.Module) -> list[str]:
    """Returns the names of all tensors that are not trained, in the order of state_dict()."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return [
        name
        for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor)
        and (not value.requires_grad if name in parameters else _still(model, name.rpartition(".")[0]))
    ]


def _still(model: nn.Module, name: str) -> bool:
    """Returns true if none of the parameters is trained in the smallest part of the network that holds the layer `name`
    and has parameters."""
    while name and not any(True for _ in model.get_submodule(name).parameters()):
        name = name.rpartition(".")[0]
    return not any(parameter.requires_grad for parameter in model.get_submodule(name).parameters())


def _listed(names: Collection[Any]) -> str:
    """Returns the first of the names in words, and how many more there are."""
    some = [*map(str, names)][:NAMED]
    return ", ".join([*some, *([f"and {len(names) - NAMED} more"] if len(names) > NAMED else [])])
