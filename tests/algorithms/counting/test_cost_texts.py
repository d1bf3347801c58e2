"""The cost of networks that read texts: FLOPs and floats by hand, and against torch's counter on real tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from algorithms.algorithm import Phase
from algorithms.counting.cost import FloatCounter, Meter
from algorithms.models import build, cross_entropy
from algorithms.training.unfused import twice_differentiable

torch.set_num_threads(1)  # as in a worker

SMALL = ["char-gru-small", "lstm-tiny"]
GATES = {"char-gru-small": 3, "lstm-tiny": 4}
WIDTHS = {"char-gru-small": (32, 64), "lstm-tiny": (32, 32)}  # of the embedding, and of the recurrent layer
V, T = 11, 6


def meter(name: str) -> Meter:
    return Meter(build(name, 0, V), (T,), cross_entropy, torch.long, (T,))


def by_hand(name: str) -> tuple[int, int, int]:
    """FLOPs per example of a forward, of the softmax layer alone, and of the product with the state at one position."""
    embedding, units = WIDTHS[name]
    softmax, state = 2 * T * units * V, 2 * GATES[name] * units * units
    return 2 * T * GATES[name] * units * embedding + T * state + softmax, softmax, state


@pytest.mark.slow  # the first use of the meta device takes two seconds
@pytest.mark.parametrize("name", SMALL)
def test_flops_are_those_of_the_gates_and_of_the_softmax(name: str) -> None:
    forward, softmax, state = by_hand(name)
    it = meter(name)
    assert it.flops(Phase("evaluate", "forward", 5, 5)) == 5 * forward
    # All gradients but that of the first state, which is zeros.
    assert it.flops(Phase("train", "batch", 5, 5)) == 5 * (3 * forward - state)
    assert it.flops(Phase("fisher", "each", 5, 5)) == 5 * (3 * forward - state)
    assert it.flops(Phase("retrain", "batch", 5, 5, backward="softmax.*")) == 5 * (forward + softmax)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_it_agrees_with_the_counter_where_layers_are_not_fused(name: str) -> None:
    """Float64: torch's own steps, which FlopCounterMode sees."""
    model = build(name, 0, V).double()
    x = y = torch.arange(4 * T).view(4, T) % V
    weights = list(model.parameters())
    with FlopCounterMode(display=False) as first:
        torch.autograd.grad(cross_entropy(model(x), y).mean(), weights)
    with FlopCounterMode(display=False) as second, twice_differentiable():
        slopes = torch.autograd.grad(cross_entropy(model(x), y).mean(), weights, create_graph=True)
        torch.autograd.grad(slopes, weights, grad_outputs=[torch.ones_like(slope) for slope in slopes])
    it = meter(name)
    assert it.flops(Phase("train", "batch", 4, 4)) == first.get_total_flops()
    assert it.flops(Phase("reverse", "batch", 0, 4, second_order=4)) == second.get_total_flops()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_texts_with_one_label_cost_nearly_the_same(name: str) -> None:
    one = Meter(build(name, 0, V), (T,), cross_entropy, torch.long)
    forward, _, state = by_hand(name)
    assert one.flops(Phase("train", "batch", 4, 4)) == 4 * (3 * forward - state)
    assert 0 < one.step(Phase("train", "batch", 4, 4)).floats < meter(name).step(Phase("train", "batch", 4, 4)).floats


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_each_text_in_a_batch_of_its_own_reads_all_weights_again(name: str) -> None:
    it = meter(name)
    parameters = sum(p.numel() for p in it.model.parameters())
    one = it.step(Phase("train", "batch", 1, 1)).floats
    # The gradient read and its square written (2); the square read, a float64 sum read and written (1 + 2 + 2).
    assert it.step(Phase("fisher", "each", 8, 8)).floats == 8 * (one + 7 * parameters)


@pytest.mark.parametrize("order", ["forward", "batch", "second"])
def test_two_sizes_of_a_batch_tell_what_every_other_costs(order: str) -> None:
    it = meter("lstm-tiny")
    for batch in (3, 17):
        found, counted = it._count(order, batch, "*"), it._measured(order, batch, "*")
        assert found.recurrent == pytest.approx(counted.recurrent, rel=0.01)  # of Hessian-vector products a share
        assert replace(found, recurrent=0.0) == replace(counted, recurrent=0.0)


def test_a_lookup_moves_its_rows_and_not_the_table() -> None:
    table, words = torch.zeros(1000, 8), torch.zeros(3, T, dtype=torch.long)
    with FloatCounter() as moved:
        nn.functional.embedding(words, table)
    assert moved.floats == 3 * T * 2 + 2 * (3 * T * 8)  # the words, of eight bytes each; rows read, and written


def test_splitting_the_gates_moves_nothing() -> None:
    with FloatCounter() as moved:
        torch.zeros(3, 8).unsafe_chunk(4, 1)
    assert moved.floats == 24  # the zeros, written
