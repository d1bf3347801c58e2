"""A device's half as a course: a generator that yields computations which can be done for many devices together.

So an algorithm is written only once.  A single device does each yielded computation by itself; in a stack (stack.py)
the courses of all devices of a job reach the same point, and the computation is done for all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from algorithms.algorithm import Tensors

if TYPE_CHECKING:
    from torch import nn

Result = TypeVar("Result")


class Computation(Protocol):
    """A computation that a course waits for, such as local.Sgd."""

    @property
    def sort(self) -> Hashable:
        """A key: computations of one class with equal keys can be done together."""

    def alone(self) -> Tensors:
        """Returns the result, computed for this device only."""


Course = Generator[Computation, Tensors, Result]


def structure(model: nn.Module) -> Hashable:
    """Returns a key that is equal for copies of one network, whatever the values of their weights.  Computations on
    such copies can then be done together, on one of the copies."""
    parameters = tuple((name, value.shape, value.requires_grad) for name, value in model.named_parameters())
    return tuple(map(type, model.modules())), parameters


def alone(course: Generator[Any, Tensors, Result]) -> Result:
    """Runs a course on a single device and returns its result."""
    try:
        task = next(course)
        while True:
            task = course.send(task.alone())
    except StopIteration as end:
        result: Result = end.value
        return result
