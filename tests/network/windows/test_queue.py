"""A link of windows: the same bytes at the same time as network/links/trace.py says."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.links.rate import Constant
from network.links.trace import Trace
from network.windows import queue
from network.windows.crowd import Crowd, Queue

RATES = st.lists(st.sampled_from([0.0, 1e3, 2.5e5, 1e6]), min_size=1, max_size=6).filter(any)


@given(rates=RATES, offset=st.floats(0, 20), begin=st.floats(0, 100), nbytes=st.integers(1, 10**7))
@settings(max_examples=60, deadline=None)
def test_bytes_go_through_a_trace_as_everywhere(rates: list[float], offset: float, begin: float, nbytes: int) -> None:
    trace = Trace(np.arange(len(rates) + 1.0), np.array(rates), "down", "capacity").starting(offset)
    state = Crowd([Queue(0, trace, 1e5)])._state
    link = state.links[0]
    assert queue.finish(state, link, begin, float(nbytes)) == pytest.approx(trace.finish(begin, nbytes), rel=1e-9)
    until = begin + nbytes / 1e5
    carried = queue.carried(state, link, until) - queue.carried(state, link, begin)
    assert carried == pytest.approx(trace.carried(begin, until), rel=1e-9, abs=1e-3)


@given(
    steps=st.lists(st.sampled_from([0.0, 0.5, 1.0, 4.0]), min_size=1, max_size=40),
    near=st.integers(0, 39),
    value=st.floats(-1, 100),
    first=st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_a_piece_is_found_from_wherever_the_search_begins(
    steps: list[float], near: int, value: float, first: int
) -> None:
    """The standard library's bisect is the reference; values before the trace's own belong to another one."""
    values = np.concatenate([np.full(first, 1e9), np.cumsum(steps), [-1e9]])
    link = Crowd([Queue(0, Constant(1.0), 1e5)])._state.links[0]
    link["first"], link["pieces"], link["near"] = first, len(steps), near % len(steps)
    expected = max(0, bisect_right(np.cumsum(steps).tolist(), value) - 1)
    assert queue._piece(values, link, value) == first + expected
    assert link["near"] == expected
