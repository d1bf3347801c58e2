"""Shared links on the way add buffer/C to a round trip when their buffers are full: sums by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from network.links.link import Link
from network.links.tcp import Tcp
from network.links.trace import Direction, Trace
from network.sharing.flow import SharedLink, Topology
from network.sharing.route import routes

KB = 1000.0  # bytes
SERVER = Link(up=4e6, down=2e6, latency=0.0)  # devices download at its up


def queues(topology: Topology, server: Link = SERVER) -> dict[tuple[Direction, str | None], float]:
    return {key: route.queue for key, route in routes(server, topology).items()}


def test_without_buffers_there_are_no_queues() -> None:
    cell = {"cell": SharedLink(1e6)}
    assert set(queues({"down": cell, "up": cell}).values()) == {0.0}


def test_a_buffer_takes_as_long_as_its_own_direction_needs_for_it() -> None:
    """100 kB: 25 ms at the server's 4 MB/s down, 50 ms at its 2 MB/s up."""
    assert queues({}, replace(SERVER, buffer=100 * KB)) == {("down", None): 0.025, ("up", None): 0.05}


def test_of_all_links_on_a_way_the_longest_queue_counts() -> None:
    """The cell's 100 kB take 200 ms at 0.5 MB/s, the line's 100 ms at 1, and the server's 25 at 4."""
    shared = {
        "cell": SharedLink(0.5e6, "line", buffer=100 * KB),
        "line": SharedLink(1e6, buffer=100 * KB),
        "own": SharedLink(1e6),
    }
    found = queues({"down": shared}, replace(SERVER, buffer=100 * KB))
    assert [found["down", via] for via in ("cell", "line", "own", None)] == [0.2, 0.1, 0.025, 0.025]


def test_of_a_recording_the_mean_counts() -> None:
    """2 MB/s for 10 s, then 1 for 10: 150 kB at 1.5 MB/s are 0.1 s, wherever the replay begins."""
    trace = Trace(np.array([0.0, 10.0, 20.0]), np.array([2e6, 1e6]), "down", "capacity")
    for cell in (SharedLink(trace, buffer=150 * KB), SharedLink(trace, buffer=150 * KB).starting(0.7)):
        assert queues({"down": {"cell": cell}})["down", "cell"] == pytest.approx(0.1)


def test_airtime_has_no_queue_and_passes_on_that_of_what_is_behind_it() -> None:
    shared = {"wifi": SharedLink(1.0, "line", airtime=True, buffer=100 * KB), "line": SharedLink(1e6, buffer=50 * KB)}
    assert queues({"up": shared})["up", "wifi"] == 0.05


def test_a_link_that_carries_hardly_anything_has_a_queue_of_finite_seconds() -> None:
    slow = Trace(np.array([0.0, 1.0]), np.array([1e-305]), "up", "capacity")
    found = queues({"up": {"cell": SharedLink(slow, buffer=1e9)}})["up", "cell"]
    assert Link(1e6, 1e6, 0.0, tcp=Tcp()).passage("up", 1, 0.0, queue=found).weight == 1e-3  # of a thousand seconds


def test_bandwidths_are_known_where_the_servers_link_is_simgrids() -> None:
    """From the root on, airtime left out."""
    shared = {"wifi": SharedLink(1.0, "line", airtime=True), "line": SharedLink(1e6)}
    lv08 = replace(SERVER, tcp=Tcp(model="lv08"))
    assert routes(lv08, {"down": shared})["down", "wifi"].bandwidths == (4e6, 1e6)
    assert routes(SERVER, {"down": shared})["down", "wifi"].bandwidths == ()
