"""The order of algorithms, predicted beside measured: how often it agrees (benchmarks/testbed/orders.py)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from algorithms.models import build
from benchmarks.testbed import orders
from benchmarks.testbed.orders import PLACES, Cell, agreement, missed, order, table


def cell(predicted: Sequence[Sequence[float]], measured: Sequence[Sequence[float]]) -> Cell:
    both = ([dict(zip("abc", seconds, strict=True)) for seconds in each] for each in (predicted, measured))
    return Cell(PLACES[0], *both)


SAID = [(1.0, 2.0, 3.0)] * 2
CHANGING = cell(SAID, [(1.1, 2.1, 3.1), (2.2, 2.1, 3.1)])  # a and b change places with the second seed


def test_whole_orders_and_pairs_are_counted_and_those_that_no_seed_changes() -> None:
    """Of 2 runs of 3 pairs, one pair of one run is otherwise; 2 pairs are clear in both."""
    assert agreement([CHANGING]) == ("1 of 2", "5 of 6", "4 of 4")
    assert agreement([CHANGING, cell(SAID, [(3.0, 2.0, 1.0)] * 2)]) == ("1 of 4", "5 of 12", "4 of 10")


def test_neighbours_that_change_places_are_told_apart_from_those_that_do_not() -> None:
    """Means of 1.65, 2.1 and 3.1."""
    assert order(CHANGING.measured) == "a ~ b < c"
    assert order(CHANGING.predicted) == "a < b < c"
    assert "| convolutions | narrow | a ~ b < c | a < b < c | 1 of 2 | 5 of 6 | 4 of 4 |" in table([CHANGING])


def test_a_pair_is_missed_if_all_seeds_have_it_so_and_all_predict_it_otherwise() -> None:
    assert missed([CHANGING]) == []
    [fault] = missed([cell(SAID, [(1.0, 3.5, 3.0)] * 2)])
    assert fault == "convolutions, narrow: c was faster than b with each seed, not as predicted"


def test_rates_and_buffers_are_those_of_the_place() -> None:
    narrow, wide = PLACES[:2]
    assert "topology.slow.up_mbit_s=4" in narrow.changes
    assert {"topology.slow.up_mbit_s=16", "server.link.buffer_kb=600"} <= {*wide.changes}
    assert [each.kept.exists() for each in PLACES] == [True] * 4


@pytest.mark.parametrize("network", orders.NETWORKS.values())
def test_both_networks_take_the_digits_and_have_about_the_same_bytes(network: str) -> None:
    """Linear layers of 64, 256, 128 and 10 units: 16,640 + 32,896 + 1,290 parameters; digits-cnn has 53,002."""
    made = build(network, 1)
    assert made(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert sum(each.numel() for each in made.parameters()) == (53_002 if network == "digits-cnn" else 50_826)
