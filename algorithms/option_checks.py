"""Checks of an algorithm's options against their types and ranges, with one-sentence errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check(algorithm: object, **ranges: tuple[float, float]) -> None:
    """Raises ValueError if a field of a Literal type has a word that the type does not list, or if a field is outside
    its range in `ranges`, (least, largest), ends included."""
    for name, hint in get_type_hints(type(algorithm)).items():
        words = get_args(hint) if get_origin(hint) is Literal else ()
        if words and getattr(algorithm, name) not in words:
            raise ValueError(f"{name} is {getattr(algorithm, name)!r}; it must be {either(words)}")
    for name, (low, high) in ranges.items():
        if not low <= getattr(algorithm, name) <= high:
            allowed = f"{low:g} or more" if high == inf else f"from {low:g} to {high:g}"
            raise ValueError(f"{name} is {getattr(algorithm, name)}; it must be {allowed}")


def plain_sgd(training: Any, what: str) -> None:
    """Raises ValueError unless local training is by SGD, perhaps with plain momentum; `what` needs it."""
    for name, value in (("optimizer", "sgd"), ("nesterov", False), ("clip_norm", 0.0)):
        if getattr(training, name) != value:
            raise ValueError(f"{name} is {getattr(training, name)!r}; for {what} it must be {value!r}")


def whole_epochs(training: Any, what: str) -> None:
    """Raises ValueError unless a round of local training is a whole number of epochs; `what` needs it."""
    for name in ("steps", "seconds"):
        if getattr(training, name):
            raise ValueError(f"{name} is {getattr(training, name):g}; for {what} it must be left out")
    if training.epochs % 1:
        raise ValueError(f"epochs is {training.epochs}; for {what} it must be a whole number")


def either(words: Sequence[str]) -> str:
    """Returns the words in quotes, as 'a', 'b' or 'c'."""
    *others, last = map(repr, words)
    return f"{', '.join(others)} or {last}" if others else last


def preset(algorithm: object, name: str, **values: Any) -> None:
    """Sets these fields of a frozen dataclass to the values of the preset called `name`.

    Raises ValueError for a field whose given value is neither the preset's nor its default.
    """
    for field, value in values.items():
        given = getattr(algorithm, field)
        if given not in (value, getattr(type(algorithm), field)):
            raise ValueError(f"{field} is {given!r}; it must be {value!r} with preset {name}, or left out")
        object.__setattr__(algorithm, field, value)
