"""Copies of models: with their values, or on torch's meta device, where tensors have no values and nothing is
computed."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from algorithms.training.tensors import BATCH_NORMS

COMPILER = "torch._dynamo"  # operators on the meta device import it, a second and 40 MB, only to disable it
TAKE_LENGTHS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "_pack_padded_sequence", "_pad_packed_sequence"})


def copied(model: nn.Module, instead: Mapping[int, Any] | None = None) -> nn.Module:
    """Returns a deep copy.  `instead`: replacements of objects, by id.

    A derived tensor, such as the weight that torch.nn.utils.spectral_norm and weight_norm leave in a layer, is copied
    by value, because torch refuses to copy its history.  Raises ValueError for a view of a weight, which would be a
    constant in the copy.
    """
    with _ByValue(
        {parameter.untyped_storage().data_ptr() for parameter in model.parameters() if not is_lazy(parameter)}
    ):
        return copy.deepcopy(model, dict(instead or {}))


def on_meta(model: nn.Module) -> nn.Module:
    """Returns a copy of the model without values.  Shared parameters stay shared, which Module.to does not
    guarantee."""
    known: dict[int, Any] = {}
    for parameter in model.parameters():
        empty = torch.empty_like(parameter, device="meta")
        known[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        known[id(buffer)] = torch.empty_like(buffer, device="meta")
    valueless = copied(model, known)
    for layer in valueless.modules():
        if isinstance(layer, BATCH_NORMS) and layer.momentum is None:
            layer.momentum = 1.0  # None: it would read its number of batches, which has no value here
    return valueless


@contextmanager
def shapes() -> Iterator[None]:
    """A context in which a model on the meta device also accepts constants that its code makes, or has kept, on the
    CPU.

    Errors inside become a ValueError with this explanation.
    """
    try:
        with without_compiler(), torch.device("meta"), _Constants():
            yield
    except Exception as error:  # a user's own code may raise anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"the model cannot be priced on torch's meta device, where tensors have shapes and no values: {said}"
        ) from error


class _ByValue(TorchFunctionMode):
    """A mode of torch in which a deep copy copies non-leaf tensors by value; `weights`: the addresses of the
    parameters' storages."""

    def __init__(self, weights: Collection[int]) -> None:
        super().__init__()
        self.weights = weights

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            if not args[0].is_meta and args[0].untyped_storage().data_ptr() in self.weights:
                raise ValueError("the model keeps a view of one of its weights; forward() must take it anew each time")
            return args[0].detach().clone()
        return func(*args, **(kwargs or {}))


class _Constants(TorchFunctionMode):
    """A mode of torch in which an operation with some arguments on the meta device has its other tensors moved there,
    except lengths of sequences, whose values torch reads."""

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, given = getattr(func, "__name__", ""), [*args, *(kwargs or {}).values()]
        if name == "_pack_padded_sequence" and args[1].is_meta:  # each as long as possible
            lengths = torch.full(args[1].shape, args[0].shape[1 if args[2] else 0], device="cpu")
            return func(args[0], lengths, *args[2:])
        if {tensor.is_meta for tensor in _tensors(given)} == {True, False}:
            lengths_stay = name in TAKE_LENGTHS
            return func(
                *(_moved(each, lengths_stay) for each in args),
                **{key: _moved(each, lengths_stay) for key, each in (kwargs or {}).items()},
            )
        return func(*args, **(kwargs or {}))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (tuple, list):
            yield from _tensors(value)


def _moved(value: Any, lengths_stay: bool) -> Any:
    """Returns the value with its tensors, also those in tuples and lists, on the meta device; with `lengths_stay` int64
    tensors stay where they are."""
    if isinstance(value, Tensor):
        stays = value.is_meta or (lengths_stay and value.dtype == torch.int64)
        return value if stays else torch.empty_like(value, device="meta")
    if type(value) in (tuple, list):
        return type(value)(_moved(each, lengths_stay) for each in value)
    return value


@contextmanager
def without_compiler() -> Iterator[None]:
    """A context in which torch's compiler is not imported by code that only disables it for a function; any other use
    of it imports it."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in = _StandIn(COMPILER)
    sys.modules[COMPILER] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(COMPILER) is stand_in:
            del sys.modules[COMPILER]


class _StandIn(ModuleType):
    """A module in the place of torch's compiler, which imports the compiler at the first use of anything but
    `disable`."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
        return function

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
        return getattr(importlib.import_module(COMPILER), name)
