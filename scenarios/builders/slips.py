"""Finds mistakes in a user's class of an algorithm that Python accepts silently, and that are rarely intended."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from algorithms.algorithm import INTERFACE
from scenarios.text.faults import short

NO_OPTIONS = ("downloads", "uploads")


def slips(kind: type[Any]) -> Iterator[str]:
    """Yields each mistake in a user's class, as the rest of a sentence that begins with the class's path."""
    if "__dataclass_fields__" not in vars(kind):
        yield f"is not decorated; write @dataclass(frozen=True) above `class {kind.__name__}`"
    for field in fields(kind):
        if field.name in NO_OPTIONS:
            yield f"makes {field.name} an option; write `{field.name}: ClassVar[Collection[str]] = ...`"
    yield from _misspelt(kind)
    for owner in _own(kind):
        yield from _without_type(owner)


def annotated(name: str, value: Any) -> str:
    """Returns advice on how to turn a class attribute without a type into an option."""
    return f"annotate it: `{name}: {type(value).__name__} = {short(value)}`"


def _own(kind: type[Any]) -> list[type[Any]]:
    """Returns the class and those of its base classes that do not belong to fedlapse."""
    bases = [owner for owner in kind.__mro__ if owner is not object]
    return [owner for owner in bases if not owner.__module__.startswith("algorithms.")]


def _public(owner: type[Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


def _misspelt(kind: type[Any]) -> Iterator[str]:
    """Yields a mistake for each method that fedlapse never calls but whose name resembles that of a method which it
    calls."""
    own = _own(kind)
    called = set(INTERFACE)
    for owner in kind.__mro__:
        if owner not in own:
            called.update(_public(owner))
    written: dict[str, Any] = {}
    for owner in reversed(own):
        written |= _public(owner)
    for name, value in written.items():
        if name in called or not inspect.isfunction(value):
            continue
        for near in get_close_matches(name, called - written.keys(), n=1, cutoff=0.8):
            yield f"has a method {name}(); did you mean {near}()? (if not, let its name begin with _)"


def _without_type(owner: type[Any]) -> Iterator[str]:
    """Yields a mistake for each option of a base class that the class overrides without a type, so that the dataclass
    keeps the base's default."""
    inherited: set[str] = set()
    for base in owner.__mro__[1:]:
        if is_dataclass(base):
            inherited.update(field.name for field in fields(base))
    for name in inherited & vars(owner).keys() - inspect.get_annotations(owner).keys():
        value = vars(owner)[name]
        yield f"sets {name} without a type, which does not change the option; {annotated(name, value)}"
