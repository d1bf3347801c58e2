"""A link of windows: the same bytes at the same time as network/links/trace.py says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
