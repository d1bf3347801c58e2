"""Flows of 20 and 100 ms share a link by their round trips and its full queue: finishes by hand.

Each message is 1000 segments, 1.5 MB on the wire, and the shared link carries 1 MB/s.  A window of as many segments
leaves no slow start, and each begins so much before 0.3 s that its first byte flows then.  With shares of x and 1 - x
the one with more is there 1.5/x s later, and the last, as the link is never idle, after 3 s.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.conversation.traffic import Traffic
from emulator.record.call import Call
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.links.tcp import Congestion, Tcp
from network.links.trace import Direction, Trace
from network.sharing.flow import SharedLink, Topology
from scenarios.builders import machines, wiring
from scenarios.load import build
from tests.emulator.conversation.transfers import played

BEGIN, KB = 0.3, 1000.0
MESSAGE = {"weights": 1_448_000}
TRIPS: dict[Direction, float] = {"down": 2.0, "up": 1.5}  # before the first byte: TCP's, and the request's or half
SERVER = Link(1e6, 1e6, 0.0)
WIDE = Link(1e9, 1e9, 0.0)
RTT = {"near": 0.02, "far": 0.1}


def tcp(congestion: Congestion = "cubic") -> Tcp:
    return Tcp(congestion=congestion, tls=0, initial_window=1000, window=10**8)


def ends(
    folder: Path,
    way: Direction = "down",
    server: Link = SERVER,
    congestion: Congestion = "cubic",
    via: str | None = None,
    **traffic: Any,
) -> list[float]:
    """When the near and the far one have ended, after BEGIN."""
    links = {name: Link(10e6, 10e6, rtt / 2, tcp=tcp(congestion), via=via) for name, rtt in RTT.items()}
    return sent(folder, way, server, links, **traffic)


def sent(folder: Path, way: Direction, server: Link, links: Any, **traffic: Any) -> list[float]:
    async def one(world: VirtualWorld, traffic: Traffic, name: str, rtt: float) -> float:
        await world.sleep(BEGIN - TRIPS[way] * rtt)
        await traffic.launch(way, Call(name, 0), MESSAGE, None).wait()
        return world.now() - BEGIN

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        rtts = zip(sorted(links, reverse=True), RTT.values(), strict=True)
        return await world.together(one(world, traffic, name, rtt) for name, rtt in rtts)

    found: list[float] = played(folder, server, links, main, **traffic)
    return found


def shared(x: float, rate: float = 1.0) -> Any:
    """The finishes where the near one has a share of x and the link carries so many MB/s."""
    return pytest.approx([1.5 / (x * rate), 3 / rate], rel=1e-9)


@pytest.mark.parametrize("congestion", ["cubic", "reno"])
@pytest.mark.parametrize("way", ["down", "up"])
def test_a_queue_of_100_ms_makes_5_to_1_out_of_it_1_and_two_thirds_to_1(
    tmp_path: Path, way: Direction, congestion: Congestion
) -> None:
    """1/0.02 : 1/0.1, and 1/0.12 : 1/0.2 = 5 : 3."""
    assert ends(tmp_path / "none", way, SERVER, congestion) == shared(5 / 6)
    assert ends(tmp_path / "full", way, replace(SERVER, buffer=100 * KB), congestion) == shared(5 / 8)


def test_flows_of_bbr_share_equally_with_a_buffer_and_without(tmp_path: Path) -> None:
    for number, buffer in enumerate((0.0, 100 * KB)):
        found = ends(tmp_path / str(number), server=replace(SERVER, buffer=buffer), congestion="bbr")
        assert found == pytest.approx([3.0, 3.0])


def test_each_direction_has_its_own_queue(tmp_path: Path) -> None:
    """100 kB are 50 ms at the 2 MB/s that the server sends: 1/0.07 : 1/0.15 = 15 : 7."""
    server = Link(2e6, 1e6, 0.0, buffer=100 * KB)
    assert ends(tmp_path / "down", "down", server) == shared(15 / 22, rate=2.0)
    assert ends(tmp_path / "up", "up", server) == shared(5 / 8)


def test_behind_several_links_the_longest_queue_counts(tmp_path: Path) -> None:
    """The line's 100 ms, and not the cell's 10 or the server's 1."""
    chain = {"cell": SharedLink(2e6, "line", buffer=20 * KB), "line": SharedLink(1e6, buffer=100 * KB)}
    found = ends(tmp_path, server=replace(WIDE, buffer=1e6), via="cell", topology={"down": chain})
    assert found == shared(5 / 8)


def test_a_recorded_cell_has_the_queue_of_its_mean(tmp_path: Path) -> None:
    """1 MB/s for 10 s, then 3: 200 kB are 0.1 s at the 2 MB/s of its mean."""
    trace = Trace(np.array([0.0, 10.0, 20.0]), np.array([1e6, 3e6]), "down", "capacity")
    topology: Topology = {"down": {"cell": SharedLink(trace, buffer=200 * KB)}}
    assert ends(tmp_path, server=WIDE, via="cell", topology=topology) == shared(5 / 8)


@pytest.mark.parametrize("line", [0.0, 100 * KB])
def test_on_one_air_all_have_equal_time_whatever_waits_behind_it(tmp_path: Path, line: float) -> None:
    """Radios of 10 MB/s, half the time each: 0.3 s; and behind a line of 1 MB/s each has half of that: 3 s."""
    for number, (rate, seconds) in enumerate([(1e9, 0.3), (1e6, 3.0)]):
        topology: Topology = {
            "down": {"ap": SharedLink(1.0, "line", airtime=True), "line": SharedLink(rate, buffer=line)}
        }
        found = ends(tmp_path / str(number), server=WIDE, via="ap", topology=topology)
        assert found == pytest.approx([seconds] * 2)


@pytest.mark.parametrize(
    ("server", "cell", "x"), [({}, {}, 5 / 6), ({"buffer_kb": 100}, {}, 5 / 8), ({}, {"buffer_kb": 100}, 5 / 8)]
)
def test_a_scenario_says_what_may_wait(tmp_path: Path, server: Any, cell: Any, x: float) -> None:
    rates = {"up_mbit_s": 8, "down_mbit_s": 8}
    link = {"up_mbit_s": 80, "down_mbit_s": 80, "via": "cell"}
    scenario = build(
        {
            "name": "buffers",
            "network": {"model": "tcp", "tls": 0, "initial_window": 1000, "window_mb": 100},
            "server": {"link": {**rates, **server}},
            "topology": {"cell": {**rates, **cell}},
            "fleet": [
                {"name": "near", "profile": "pi-4", "link": {**link, "latency_ms": 10}},
                {"name": "far", "profile": "pi-4", "link": {**link, "latency_ms": 50}},
            ],
        }
    )
    links, (_, ours) = machines.fleet(scenario)[1], machines.server(scenario)
    for way in TRIPS:
        assert sent(tmp_path / way, way, ours, links, topology=wiring.topology(scenario)) == shared(x)
