"""Joins the pulls of a stack's devices into one pull with stacked tensors.  A pull adds to a gradient, as a penalty
does (local.Pull)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from algorithms.algorithm import Tensors


def form(pull: Any) -> Hashable:
    """Returns a key that is equal for pulls that can be joined: of one class, with tensors of the same names and
    shapes."""
    if not _coordinatewise(pull):
        return (type(pull),)
    named = [(key, name, value) for key, of in mappings(pull).items() for name, value in of.items()]
    return type(pull), frozenset((key, name, value.shape, value.dtype) for key, name, value in named)


def joined(pulls: Sequence[Any], weights: Tensors, stacked: Callable[[Sequence[Tensor]], Tensor]) -> Any:
    """Returns one pull with stacked tensors in place of these pulls, which are of one form.

    Returns None if they cannot be joined: they differ in more than their tensors' values, do not treat coordinates
    independently, or have tensors of other names or shapes than `weights`, which would broadcast differently.
    """
    first = pulls[0]
    if not _coordinatewise(first) or not all(_alike(others(pull), others(first)) for pull in pulls):
        return None
    named = [(name, value) for of in mappings(first).values() for name, value in of.items()]
    if any(name not in weights or value.shape != weights[name].shape for name, value in named):
        return None
    found = {
        key: {name: stacked([getattr(pull, key)[name] for pull in pulls]) for name in of}
        for key, of in mappings(first).items()
    }
    return replace(first, **found)


def changed(pull: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns a copy of the pull that has `change(t)` in place of each tensor t."""
    of = mappings(pull)
    return replace(pull, **{key: {name: change(value) for name, value in of[key].items()} for key in of})


def mappings(pull: Any) -> dict[str, Tensors]:
    """Returns the pull's fields that are mappings of tensors."""
    return {each.name: value for each in fields(pull) if _tensors(value := getattr(pull, each.name))}


def others(pull: Any) -> list[Any]:
    """Returns the values of the pull's fields that are not mappings of tensors, without fields that are excluded from
    comparison."""
    values = [getattr(pull, each.name) for each in fields(pull) if each.compare]
    return [value for value in values if not _tensors(value)]


def _coordinatewise(pull: Any) -> bool:
    return is_dataclass(pull) and getattr(pull, "coordinatewise", False)


def _tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, Tensor) for each in value.values())


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    try:
        return all(a is b or bool(a == b) for a, b in zip(one, other, strict=True))
    except (RuntimeError, ValueError):  # comparing tensors or arrays gives more than one answer
        return False
