"""A trace that is written is read again as the same trace."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from network.links.trace import Trace
from network.traces import columns, mahimahi
from network.traces.read import read
from network.traces.trace_text import TraceText


def trace_of(widths, rates, direction="down", kind="capacity", **more) -> Trace:
    return Trace(np.concatenate([[0.0], np.cumsum(widths)]), np.array(rates, dtype=float), direction, kind, **more)


def from_csv(text: str) -> tuple[Trace, ...]:
    return columns.read(TraceText("written.csv", text))


def from_mahimahi(text: str) -> Trace:
    return mahimahi.read(TraceText("written.down", text), "down")


@st.composite
def traces(draw, fastest: float = 1e9) -> Trace:
    n = draw(st.integers(1, 8))
    rates = draw(st.lists(st.one_of(st.just(0.0), st.floats(0.1, fastest)), min_size=n, max_size=n))
    widths = draw(st.lists(st.floats(1e-3, 3.0), min_size=n, max_size=n))
    kind = draw(st.sampled_from(["capacity", "achieved"]))
    return trace_of(widths, rates, draw(st.sampled_from(["down", "up"])), kind)


def test_csv_by_hand() -> None:
    down = trace_of([2, 3], [1e6, 2e6], latency=np.array([0.02, 0.03]), loss=np.array([0, 0.01]))
    up = trace_of([1, 4], [5e5, 0], direction="up")
    assert columns.written([down, up]) == (
        "time_s,down_mbit_s,up_mbit_s,latency_ms,loss\n"
        "0.0,8.0,4.0,20.0,0.0\n"
        "1.0,8.0,0.0,20.0,0.0\n"
        "2.0,16.0,0.0,30.0,0.01\n"
        "5.0,,,,\n"
    )


@pytest.mark.slow
@given(traces())
def test_csv_keeps_edges_rates_kind_and_direction(trace) -> None:
    (again,) = from_csv(columns.written([trace]))
    assert again.edges.tolist() == trace.edges.tolist()
    assert again.rates == pytest.approx(trace.rates, rel=1e-15)
    assert (again.direction, again.kind) == (trace.direction, trace.kind)


@pytest.mark.slow
@given(traces())
def test_csv_of_both_ways_keeps_each(trace) -> None:
    # The other way has edges of its own and the same period.
    other = Trace(trace.edges[[0, -1]] * [0, 1], np.array([7e5]), "up", "capacity")
    trace = Trace(trace.edges, trace.rates, "down", "capacity")
    down, up = from_csv(columns.written([trace, other]))
    assert (down.direction, up.direction) == ("down", "up")
    for t in np.linspace(0, trace.period, 11).tolist():
        assert down.carried(0, t) == pytest.approx(trace.carried(0, t), rel=1e-12)
        assert up.carried(0, t) == pytest.approx(7e5 * t, rel=1e-12)


def test_csv_keeps_latency_and_loss() -> None:
    trace = trace_of([1, 1], [5, 6], latency=np.array([0.0123, 0.3]), loss=np.array([0.25, 0]))
    (again,) = from_csv(columns.written([trace]))
    assert again.latency == pytest.approx(trace.latency, rel=1e-15)
    assert again.loss is not None
    assert again.loss.tolist() == [0.25, 0]


def test_csv_takes_one_trace_each_way_of_one_period_and_kind() -> None:
    down = trace_of([2], [1])
    with pytest.raises(ValueError, match="one is down, one is up"):
        columns.written([down, down])
    with pytest.raises(ValueError, match="differs in period or kind from"):
        columns.written([down, trace_of([3], [1], direction="up")])
    with pytest.raises(ValueError, match="differs in period or kind from"):
        columns.written([down, trace_of([2], [1], direction="up", kind="achieved")])


def test_mahimahi_by_hand() -> None:
    # 6000 bytes: a packet is full after 1.5, 3 and 8.5 ms; the fourth stands at the end, where it is full as well
    assert mahimahi.written(trace_of([0.003, 0.004, 0.003], [1e6, 0, 1e6])) == "2\n3\n9\n10\n"


@pytest.mark.slow
@given(traces(fastest=2e6))
def test_mahimahi_keeps_the_bytes_to_a_packet_and_the_period_to_a_millisecond(trace) -> None:
    assume(trace.mean > 0)
    again = from_mahimahi(mahimahi.written(trace))
    assert abs(again.mean * again.period - trace.mean * trace.period) < 1500
    assert abs(again.period - trace.period) <= 0.0005 + 1e-9
    for t in np.linspace(0, min(again.period, trace.period), 7).tolist()[:-1]:
        # No packet before its bytes, and each within the millisecond (and the packet) in which they are there.
        late = trace.carried(0, t) - again.carried(0, t)
        assert -1501 - trace.peak * 0.001 <= late <= 3001 + trace.peak * 0.001


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_a_mahimahi_file_is_written_as_it_was(stamps) -> None:
    text = "".join(f"{stamp}\n" for stamp in sorted(stamps))
    assert mahimahi.written(from_mahimahi(text)) == text


def test_what_carries_nothing_or_too_much_is_no_mahimahi_file() -> None:
    with pytest.raises(ValueError, match="carries 0 bytes; a Mahimahi file holds 1 to"):
        mahimahi.written(trace_of([1], [0]))
    with pytest.raises(ValueError, match="carries 1e\\+15 bytes"):
        mahimahi.written(trace_of([1e4], [1e11]))


def test_an_offset_is_no_part_of_a_file() -> None:
    trace = trace_of([1, 1], [1e6, 2e6])
    assert columns.written([trace.starting(0.7)]) == columns.written([trace])
    assert mahimahi.written(trace.starting(0.7)) == mahimahi.written(trace)


@pytest.mark.slow
def test_the_real_mahimahi_samples_are_written_as_they_were() -> None:
    root = Path(os.environ.get("FEDLAPSE_DATA") or Path(__file__).parents[3] / "../shared/data").resolve() / "traces"
    if not (root / "mahimahi").is_dir():
        pytest.skip(f"NO REAL TRACES: {root} has no mahimahi; set FEDLAPSE_DATA to a folder that has traces/")
    for path in sorted((root / "mahimahi").iterdir()):
        lines = [int(line) for line in path.read_text().split()]
        (trace,) = read(path)
        # A stamp 0 is one at the last stamp of the period before.
        expected = sorted(stamp or lines[-1] for stamp in lines)
        assert [int(line) for line in mahimahi.written(trace).split()] == expected


def test_no_mahimahi_file_is_written_that_could_not_be_read(monkeypatch) -> None:
    """Three packets in 3 ms are three lines of two bytes."""
    trace = trace_of([0.003], [1.5e6])
    monkeypatch.setattr(mahimahi, "LARGEST", 6)
    assert mahimahi.written(trace) == "1\n2\n3\n"
    monkeypatch.setattr(mahimahi, "LARGEST", 5)
    with pytest.raises(ValueError, match="write it as csv"):
        mahimahi.written(trace)
