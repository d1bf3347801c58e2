"""Where HyStart's trains end slow start, by hand: acknowledgements that follow each other within 2 ms, for longer than
half of the shortest round trip and 0.5 ms (Linux, `hystart_update`).

The kernel's counters (`TCPHystartTrainCwnd`) of real flows at these rates and round trips: 69 or 70, and 243 segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from network.links.rate import Constant
from network.links.tcp import Congestion, Sender, Sending, Tcp, Way
from network.windows import cubic
from network.windows.crowd import Crowd, Newcomer, Queue
from network.windows.state import empty
from tests.network.windows.links import FAST, SEGMENT

RATE = 2e6  # bytes/s: a segment each 0.75 ms


def threshold(rtt: float, t: float, chance: int = 0, congestion: Congestion = "cubic", buffer: float = 4e5) -> float:
    """The slow-start threshold at `t` of a lone flow on a link with a queue in which nothing is lost until then."""
    made = Crowd([Queue(0, Constant(RATE), buffer)], chance)
    sending = Sending(Tcp(congestion=congestion), Way(rtt), Sender(10, float("inf")))
    made.open(0.0, Newcomer("a", 3000.0 * SEGMENT, sending, made._queues[:1], (), FAST, False, rtt / 2))
    made.move(t)
    return float(made._state.flows[0]["ssthresh"])


def test_a_train_is_seen_although_windows_go_in_groups_of_segments() -> None:
    """120 ms: 79 gaps between 80 acknowledgements are 59.25 ms, less than half of 121.75.  In the next round 82 are
    61.5 ms, where groups of five segments (3.75 ms) stand for them."""
    assert 160 + 82 - 5 < threshold(0.12, 0.75) < 160 + 82 + 5


def test_draws_leave_slow_start_at_other_acknowledgements() -> None:
    """40 ms: 28 gaps are 21 ms, just over half of 41.75.  The first acknowledgement may be 0.5 ms late: then 29."""
    windows = [threshold(0.04, 0.3, chance) for chance in range(20)]
    assert {*windows} == {40 + 28, 40 + 29}
    assert [threshold(0.04, 0.3, chance) for chance in range(3)] == windows[:3]


@pytest.mark.parametrize("congestion", ["reno", "bbr"])
def test_others_have_no_trains(congestion: Congestion) -> None:
    assert threshold(0.12, 0.75, congestion=congestion) == float("inf")


@pytest.mark.parametrize(("count", "gap", "ends"), [(1, 1.9e-3, 27), (4, 7.9e-3, 7), (4, 8.1e-3, 0), (1, 2.1e-3, 0)])
def test_acknowledgements_of_a_train_are_2_ms_apart_for_each_segment(count: int, gap: float, ends: int) -> None:
    """A round trip of 100 ms: the first one later than 50.5 ms, or none if a gap broke the train."""
    f: Any = empty(1, 4, 1).flows.view(np.recarray)[0]
    f.cwnd, f.delay, f.ssthresh, f.round_end = 20.0, 0.1, float("inf"), 100
    hystart: Any = cubic.hystart  # not compiled: that would take a second
    found = 0
    for number in range(1, 31):
        hystart.py_func(f, count, 0.1, number * gap)
        found = found or number * int(f.found)
    assert found == ends
