"""Stacks: devices of one round whose courses (course.py) are computed together.

Their tensors begin with the devices' axis; tasks that are not in JOINT are computed for each device separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import OutOfMemoryError

from algorithms.algorithm import Message, Party, Reply, Tensors
from algorithms.course import Computation, Course
from algorithms.importance import stack_importance
from algorithms.importance.importance import BatchSquares, Slope, Summed
from algorithms.training import stack_sgd
from algorithms.training.local import Sgd

# Tasks that are computed for many devices together, if their `sort` is equal.
JOINT: Mapping[type[Computation], Callable[[Sequence[Any]], list[Tensors]]] = {
    Sgd: stack_sgd.sgd,
    Summed: stack_importance.summed,
    BatchSquares: stack_importance.batch_squares,
    Slope: stack_importance.slopes,
}


def train(algorithm: Any, downloads: Sequence[Message], devices: Sequence[Party]) -> list[Reply]:
    """Returns `algorithm.train`'s reply for each of these devices of one round; `algorithm` must be stackable
    (fedavg.py).

    Raises torch.OutOfMemoryError if the stack does not fit into a GPU's memory.
    """
    return together([algorithm.course(*each) for each in zip(downloads, devices, strict=True)])


def together(courses: Sequence[Course[Reply]]) -> list[Reply]:
    """Returns the courses' replies. Tasks of one sort that courses wait for at the same time are computed together."""
    replies: dict[int, Reply] = {}
    answers: Mapping[int, Tensors | None] = dict.fromkeys(range(len(courses)))  # None: starts the course
    while answers:
        waiting: defaultdict[Any, dict[int, Computation]] = defaultdict(dict)
        for k, answer in answers.items():
            try:
                task = courses[k].send(answer)  # type: ignore[arg-type]  # a new course is sent None
                waiting[type(task), task.sort][k] = task
            except StopIteration as end:
                replies[k] = end.value
        answers = {k: answer for tasks in waiting.values() for k, answer in _answered(tasks, courses)}
    return [replies[k] for k in range(len(courses))]


def _answered(tasks: Mapping[int, Computation], courses: Sequence[Course[Reply]]) -> Iterator[tuple[int, Tensors]]:
    """Yields each course's number and the result of its task.

    If the joint computation fails, the tasks are computed one by one, so that the error is raised in the course of the
    device that causes it, which can name the device; if none of them fails alone, in the first course.  An
    out-of-memory error is raised at once, because a smaller stack may fit.
    """
    these = list(tasks.values())
    joint = JOINT.get(type(these[0])) if len(these) > 1 else None
    if joint is None:
        yield from _one_by_one(tasks, courses)
        return
    try:
        found = joint(these)
    except OutOfMemoryError:  # a smaller stack may fit
        raise
    except Exception as error:
        for _ in _one_by_one(tasks, courses):
            pass
        courses[next(iter(tasks))].throw(error)
        raise
    yield from zip(tasks, found, strict=True)


def _one_by_one(tasks: Mapping[int, Computation], courses: Sequence[Course[Reply]]) -> Iterator[tuple[int, Tensors]]:
    for k, task in tasks.items():
        try:
            found = task.alone()
        except Exception as error:
            courses[k].throw(error)
            raise
        yield k, found
