"""Facts about a device's link."""

from __future__ import annotations

import math

import numpy as np
import pytest

from network.links.link import Link
from network.links.tcp import Connection, Sender, Tcp
from network.links.trace import Trace


def test_eight_megabits_a_second_are_a_million_bytes_a_second() -> None:
    assert Link.of(up_mbit_s=8, down_mbit_s=16, latency_ms=20) == Link(up=1e6, down=2e6, latency=0.02)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_must_be_positive_and_finite(rate: float) -> None:
    with pytest.raises(ValueError, match=f"^up is {rate} bytes/s"):
        Link(up=rate, down=1.0, latency=0.0)
    with pytest.raises(ValueError, match=f"^down is {rate} bytes/s"):
        Link(up=1.0, down=rate, latency=0.0)


@pytest.mark.parametrize("latency", [-0.001, math.inf, math.nan])
def test_a_latency_must_be_finite_and_not_negative(latency: float) -> None:
    with pytest.raises(ValueError, match=f"^latency is {latency} s"):
        Link(up=1.0, down=1.0, latency=latency)


@pytest.mark.parametrize("buffer", [-1.0, math.inf, math.nan])
def test_a_buffer_must_be_finite_and_not_negative(buffer: float) -> None:
    with pytest.raises(ValueError, match=f"^buffer is {buffer} bytes"):
        Link(up=1.0, down=1.0, latency=0.0, buffer=buffer)


def test_a_queue_is_in_a_flows_weight_and_in_nothing_else() -> None:
    """1/(0.1 + 0.05) for 1/0.1."""
    link = Link(1e6, 1e6, 0.05, tcp=Tcp())
    flights = [link.passage("down", 10**6, 0.0, queue=queue) for queue in (0.0, 0.05)]
    assert [flight.weight for flight in flights] == pytest.approx([10.0, 1 / 0.15])
    assert flights[1]._replace(weight=flights[0].weight, sending=None) == flights[0]._replace(sending=None)


def test_no_latency_is_a_latency() -> None:
    assert Link(up=1.0, down=1.0, latency=0.0).latency == 0.0


# --- recorded links

EDGES = np.array([0.0, 1.0, 4.0])


def trace(
    latency: list[float] | None = None, loss: list[float] | None = None, name: str = "t", period: float = 4
) -> Trace:
    """1 MB/s for a quarter of the time, then 3 MB/s."""
    recorded = [None if values is None else np.array(values) for values in (latency, loss)]
    return Trace(EDGES * period / 4, np.array([1e6, 3e6]), "down", "capacity", name, *recorded)


def test_the_means_of_a_recording_are_over_time() -> None:
    link = Link(2e6, trace([0.1, 0.02]), 0.5)
    assert (link.mean("down"), link.mean("up")) == (2.5e6, 2e6)
    assert link.mean_latency == pytest.approx(0.04)  # (0.1 + 3 x 0.02) / 4
    assert Link(2e6, trace(), 0.5).mean_latency == 0.5


def test_a_link_repeats_with_its_shorter_recording() -> None:
    assert Link(trace(period=2), trace(), 0.0).repeats == 2.0
    assert Link(1.0, trace(), 0.0).repeats == 4.0


def test_a_latency_that_is_said_replaces_recorded_ones_and_nothing_else() -> None:
    link = Link(trace([0.1, 0.2]), trace([0.1, 0.2], [0.5, 0.5]), 0.0)
    made = link.at(0.03)
    assert [made.passage(way, 1, t).delay for way in ("down", "up") for t in (0.0, 2.0)] == [0.03] * 4
    assert (made.down.rates == link.down.rates).all()
    assert made.down.loss is not None
    assert link.at(0.03).down is made.down  # a thousand devices share it


@pytest.mark.parametrize(
    ("up", "seconds"), [(1e6, [0.1, 0.02]), (trace([0.3, 0.2]), [0.3, 0.2]), (trace(), [0.1, 0.02])]
)
def test_an_upload_has_the_latency_that_was_recorded_of_downloads_unless_it_has_its_own(up, seconds) -> None:
    """The path is one: a ping goes both ways (ucc.py halves it)."""
    link = Link(up, trace([0.1, 0.02]), 0.0)
    assert [link.passage("up", 1, t).delay for t in (0.0, 2.0)] == seconds
    open_ = Connection(0.0, Sender(1e9, 0.0), Sender(1e9, 0.0))
    assert link.at_best("up", 1, 0.0, open_).delay == min(seconds)


def test_a_link_with_a_latency_recorded_up_alone_has_it_down_too() -> None:
    link = Link(trace([0.1, 0.02]), 1e6, 0.5)
    assert [link.passage("down", 1, t).delay for t in (0.0, 2.0)] == [0.1, 0.02]
    assert link.mean_latency == pytest.approx(0.04)


def test_at_best_a_recorded_latency_and_loss_are_the_least() -> None:
    """Rises to 3 MB/s, 0.02 s: warm, half a round trip, and no bound by losses."""
    open_ = Connection(0.0, Sender(1e9, 0.0), Sender(1e9, 0.0))
    link = Link(1e6, trace([0.2, 0.02], [0.3, 0.0]), 0.0, tcp=Tcp())
    best = link.at_best("down", 1448, 0.01, open_)
    assert best.delay == pytest.approx(0.03)
    assert best.link.peak == 3e6
    assert link.passage("down", 1448, 0.0, 0.01, open_).delay == pytest.approx(0.21)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.999])
def test_both_directions_start_at_the_same_share(share: float) -> None:
    link = Link(trace(period=8), trace(), 0.0).starting(share)
    assert (link.up.offset, link.down.offset) == (8 * share, 4 * share)
    assert Link(1.0, 1.0, 0.0).starting(share) == Link(1.0, 1.0, 0.0)
