"""The steps of stacks: on a GPU each sort of step is recorded once as a CUDA graph, and then replayed.

Starting the kernels of a CNN's step one by one took Python and torch 4 to 10 ms with an H200; replaying them takes 0.01
ms.  A graph uses the same memory each time, so a round's initial tensors are copied there.  Python does not run again,
so a network must not count or draw itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from algorithms.algorithm import Tensors
from algorithms.training.stack_step import Stack, StackBatch

MOST = 8  # sorts of stacks with cached graphs
SEEN = 2  # steps of one shape before a graph pays

_kept: dict[Hashable, Recorder] = {}  # in order of use, the latest last


class StackSteps(Protocol):
    def __call__(self, batch: StackBatch) -> Tensor:
        """Takes one step, as Stack.step does, and returns the devices' losses (k, B)."""

    def weights(self) -> Tensors:
        """Returns the weights after all steps so far."""


def steps_of(stack: Stack) -> StackSteps:
    """Returns an object that takes the steps of a round from this initial stack."""
    if not recordable(stack):
        return _Directly(stack)
    own = _with_tensors(stack)
    sort = _sort(own)
    recorder = _kept.pop(sort, None) or Recorder(own)
    recorder.begin(own)
    _kept[sort] = recorder
    while len(_kept) > MOST:
        del _kept[next(iter(_kept))]
    return recorder


def recordable(stack: Stack) -> bool:
    """Returns true if the stack is on a GPU and its steps differ in tensors only."""
    on_a_gpu = all(value.is_cuda for value in stack.weights.values())
    return on_a_gpu and stack.descent.recordable and all(pull.recordable for pull in stack.pulls)


def forget() -> None:
    """Frees the memory of all graphs."""
    _kept.clear()


def _with_tensors(stack: Stack) -> Stack:
    """Returns the stack with its rate as a tensor, because a graph keeps recorded numbers, and the rate changes each
    round."""
    descent = stack.descent.mapped(lambda tensor: tensor)
    descent.rate = torch.tensor(float(descent.rate), device=next(iter(stack.weights.values())).device)
    descent.begin({name: stack.weights[name] for name in stack.names})
    return replace(stack, descent=descent)


def _sort(stack: Stack) -> Hashable:
    """Returns a key that is equal for stacks that differ only in the values of their tensors; recorded steps can then
    serve both."""
    forms = tuple((tensor.shape, tensor.dtype, _shared(tensor)) for tensor in stack.tensors())
    pulls = tuple(pull.sort for pull in stack.pulls)
    return stack.model, stack.loss, stack.descent.training, tuple(stack.weights), tuple(stack.names), pulls, forms


def _shared(tensor: Tensor) -> bool:
    """Returns true if all devices share one tensor in memory."""
    return tensor.dim() > 0 and len(tensor) > 1 and tensor.stride(0) == 0


def _once(tensor: Tensor) -> Tensor:
    return tensor[:1] if _shared(tensor) else tensor


def _copied(tensor: Tensor) -> Tensor:
    found = _once(tensor).clone()
    return found.expand_as(tensor) if _shared(tensor) else found


class Recorder:
    """The steps of stacks of one sort, on its own copy of their tensors: it records a step as a CUDA graph once the
    step's shapes have been seen often enough."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack.mapped(_copied)
        self.seen = Counter[Hashable]()
        self.graphs: dict[Hashable, Callable[[StackBatch], Tensor] | None] = {}  # None: cannot be recorded
        self.pool = torch.cuda.graph_pool_handle()

    def begin(self, stack: Stack) -> None:
        """Starts a round: copies the tensors of this stack into the recorder's own."""
        for own, given in zip(self.stack.tensors(), stack.tensors(), strict=True):
            _once(own).copy_(_once(given))

    def weights(self) -> Tensors:
        """Returns copies of the weights; the next round does not change them."""
        return {name: value.clone() for name, value in self.stack.weights.items()}

    def __call__(self, batch: StackBatch) -> Tensor:
        shapes = batch.counted is None, *(tensor.shape for tensor in batch.tensors())
        self.seen[shapes] += 1
        if self.seen[shapes] > SEEN and shapes not in self.graphs:
            self.graphs[shapes] = self._recorded(batch)
        replay = self.graphs.get(shapes)
        return replay(batch) if replay else self.stack.step(batch)

    def _recorded(self, batch: StackBatch) -> Callable[[StackBatch], Tensor] | None:
        own = batch.made_of([tensor.clone() for tensor in batch.tensors()])
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                losses = self.stack.step(own)
        except RuntimeError:  # a user's network may wait for a value, or there may be too little memory
            torch.cuda.set_stream(stream)  # torch does not restore it in that case
            return None

        def replay(batch: StackBatch) -> Tensor:
            for place, given in zip(own.tensors(), batch.tensors(), strict=True):
                place.copy_(given)
            graph.replay()
            return losses.clone()

        return replay


class _Directly:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    def __call__(self, batch: StackBatch) -> Tensor:
        return self.stack.step(batch)

    def weights(self) -> Tensors:
        return self.stack.weights
