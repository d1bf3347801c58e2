"""Transfers over TCP, recordings and shared links, in virtual time; every figure by hand.

One link serves most tests: 8 Mbit/s, 40 ms to the device and 10 ms to the server, so a round trip takes 0.1 s and holds
100 kB.  A message of 144800 bytes is 100 segments, 150000 bytes on the wire.  From a window of 10 segments its first
three round trips carry 15, 30 and 60 kB, and the last 45 kB take 45 ms at the link's rate: 0.345 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from devices.device import Device, profiles
from devices.presence import StatedPresence
from emulator.audit.format import EVENTS, MAY_HAVE
from emulator.conversation.traffic import Traffic
from emulator.record.call import Call
from emulator.worlds.interface import Lost
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.links.tcp import Tcp
from network.links.trace import Trace
from network.sharing.flow import SharedLink, Topology
from scenarios.builders import machines, wiring
from scenarios.load import build
from tests.all_of import all_of
from tests.emulator.conversation import transfers
from tests.emulator.conversation.transfers import Main, lines

few = settings(max_examples=10, deadline=None, derandomize=True)
RTT, RISE, FLAT = 0.1, 0.345, 0.15  # s; the message with slow start and without
SERVER = Link(1e9, 1e9, 0.01)
LINK = Link(1e6, 1e6, 0.04, tcp=Tcp())
WIDE = Link(1e15, 1e15, 0.0)
MESSAGE = {"weights": 144_000, "frame": 800}
MB = {"weights": 999_000, "frame": 1_000}
close = pytest.approx


def played(
    folder: Path, links: Mapping[str, Link], main: Main, server: Link = SERVER, place: float = 0.0, **traffic: Any
) -> Any:
    return transfers.played(folder, server, links, main, place=lambda _: place, **traffic)


async def took(world: VirtualWorld, traffic: Traffic, way: Any, device: str = "a", sizes: Any = MESSAGE) -> float:
    """Seconds of one transfer."""
    began = world.now()
    await traffic.launch(way, Call(device, 0), sizes, None).wait()
    return world.now() - began


def exchanged(folder: Path, tcp: Tcp, *ways: str, pause: float = 0.0, link: Link = LINK) -> list[float]:
    """The seconds of one device's transfers, one after the other, with a pause before each but the first."""

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        found = []
        for number, way in enumerate(ways):
            await world.sleep(pause if number else 0.0)
            found.append(await took(world, traffic, way))
        return found

    found: list[float] = played(folder, {"a": replace(link, tcp=tcp)}, main)
    return found


# --- connections


def test_a_first_download_pays_for_tcp_tls_and_its_request_and_then_rises(tmp_path: Path) -> None:
    assert exchanged(tmp_path, Tcp(), "down") == close([3 * RTT + RISE])


def test_a_first_upload_has_no_answer_to_wait_for(tmp_path: Path) -> None:
    assert exchanged(tmp_path, Tcp(), "up") == close([2.5 * RTT + RISE])


@pytest.mark.parametrize(("tls", "trips"), [(0, 2), (1, 3), (2, 4)])
def test_tls_takes_so_many_round_trips(tmp_path: Path, tls: int, trips: int) -> None:
    assert exchanged(tmp_path, Tcp(tls=tls), "down") == close([trips * RTT + RISE])


def test_an_upload_straight_after_a_download_finds_the_connection_open_and_its_own_window_small(tmp_path: Path) -> None:
    """Half a round trip until its first byte is at the server; the device has sent nothing yet, so it rises."""
    assert exchanged(tmp_path, Tcp(), "down", "up") == close([3 * RTT + RISE, RTT / 2 + RISE])


def test_a_second_download_at_once_waits_for_its_poll_and_has_risen(tmp_path: Path) -> None:
    """The next poll is at the server half a round trip after the last byte, and the first byte another half later."""
    assert exchanged(tmp_path, Tcp(), "down", "down")[1] == close(RTT + FLAT)


def test_an_answer_and_a_poll_come_before_what_follows_an_upload(tmp_path: Path) -> None:
    """One round trip until the next poll is there, half a one for the first byte.  The server has not sent before."""
    assert exchanged(tmp_path, Tcp(), "up", "down")[1] == close(1.5 * RTT + RISE)


def test_who_was_silent_for_longer_than_the_timeout_rises_anew(tmp_path: Path) -> None:
    """The timeout is 0.1 + 0.2 s; training takes longer.  Without the reset the window stays what it was."""
    for seconds, reset, first in ((0.2, True, FLAT), (5.0, True, RISE), (5.0, False, FLAT)):
        found = exchanged(tmp_path / f"{seconds}{reset}", Tcp(idle_reset=reset), "down", "down", pause=seconds)
        assert found[1] == close(RTT / 2 + first), (seconds, reset)


def test_without_keep_alive_every_message_opens_a_connection(tmp_path: Path) -> None:
    found = exchanged(tmp_path, Tcp(keep_alive=False), "down", "up", "down")
    assert found == close([3 * RTT + RISE, 2.5 * RTT + RISE, 3 * RTT + RISE])


@pytest.mark.parametrize("why", ["off", "closed"])
def test_a_connection_that_was_cut_opens_anew(tmp_path: Path, why: str) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        first = await took(world, traffic, "down")
        flight = traffic.launch("up", Call("a", 0), MESSAGE, 0)
        await world.sleep(0.2)
        traffic.lose("a") if why == "off" else flight.abort("closed")
        return [first, await took(world, traffic, "down")]

    assert played(tmp_path, {"a": LINK}, main) == close([3 * RTT + RISE] * 2)


def test_a_full_server_is_shared_as_simgrid_would(tmp_path: Path) -> None:
    """The two flights of tests/network/links/test_tcp.py, by hand: 10 Mbit/s at 10 and 100 ms, a server of 1."""
    lv08 = Tcp(model="lv08")
    links = {name: Link(1.25e6, 1.25e6, latency, tcp=lv08) for name, latency in (("near", 0.01), ("far", 0.1))}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[Any]:
        both = (took(world, traffic, "down", name, {"weights": 125_000}) for name in ("near", "far"))
        return await world.together(both)

    server = Link(125_000.0, 125_000.0, 0.0, tcp=lv08)
    assert played(tmp_path, links, main, server=server) == close([1.21257, 2.38347], abs=1e-5)
    longer = {"near": 500_000, "far": 125_000}

    async def unequal(world: VirtualWorld, traffic: Traffic) -> list[Any]:
        both = (took(world, traffic, "down", name, {"weights": nbytes}) for name, nbytes in longer.items())
        return await world.together(both)

    penalty = {name: links[name].latency + 20537 / 1.25e6 + 20537 / 125_000 for name in links}
    far = penalty["near"] / sum(penalty.values()) * 0.97 / 1.05 * 125_000
    assert played(tmp_path / "longer", links, unequal, server=server)[1] == close(1.301 + 125_000 / far, abs=1e-5)


def phone(*off: tuple[float, float], wakeup: float = 0.0) -> dict[str, Device]:
    return {"a": Device("a", replace(profiles()["phone-mid"], wakeup_s=wakeup), StatedPresence(off))}


@pytest.mark.parametrize(("off", "trips"), [((1.0, 2.0), 2.5), ((5.0, 6.0), 0.5)])
def test_who_was_away_between_two_messages_opens_anew(tmp_path: Path, off: tuple[float, float], trips: float) -> None:
    """The second message is sent at second 3, to a server that has heard nothing of the absence."""

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        await took(world, traffic, "down")
        await world.sleep(3.0 - world.now())
        return await took(world, traffic, "up")

    assert played(tmp_path, {"a": LINK}, main, fleet=phone(off)) == close(trips * RTT + RISE)


@pytest.mark.parametrize(("cut", "seconds"), [(0.1, 1.3), (0.5, 1.0)])
def test_a_radio_that_was_cut_while_it_woke_up_has_to_wake_up_again(tmp_path: Path, cut: float, seconds: float) -> None:
    """The radio takes 0.3 s to wake up, and sleeps again after 10 s; the megabyte itself takes one second."""

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        flight = traffic.launch("down", Call("a", 0), MB, None)
        await world.sleep(cut)
        flight.abort("closed")
        await world.sleep(1.0)
        return await took(world, traffic, "down", sizes=MB)

    assert played(tmp_path, {"a": Link(1e6, 1e6, 0.0)}, main, server=WIDE, fleet=phone(wakeup=0.3)) == close(seconds)


def test_who_goes_off_line_while_it_computes_opens_anew(tmp_path: Path) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        await took(world, traffic, "down")
        traffic.lose("a")
        return await took(world, traffic, "up")

    assert played(tmp_path, {"a": LINK}, main) == close(2.5 * RTT + RISE)


def test_each_device_has_a_connection_of_its_own(tmp_path: Path) -> None:
    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return [await took(world, traffic, "down", name) for name in ("a", "b")]

    assert played(tmp_path, {"a": LINK, "b": LINK}, main) == close([3 * RTT + RISE] * 2)


def test_the_latency_of_the_servers_link_is_in_every_round_trip(tmp_path: Path) -> None:
    """Without it a round trip takes 0.08 s and holds 80 kB: windows of 15, 30 and 60 kB, and 45 ms for the rest."""

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        return await took(world, traffic, "down")

    assert played(tmp_path, {"a": LINK}, main, server=replace(SERVER, latency=0.0)) == close(
        3 * 0.08 + 3 * 0.08 + 0.045
    )


# --- bounds


def test_a_window_bounds_a_long_fat_link(tmp_path: Path) -> None:
    """100 segments in flight are 150 kB in each 0.1 s on the wire."""
    tcp = Tcp(window=144_800, initial_window=100, congestion="bbr")
    assert exchanged(tmp_path, tcp, "down", link=replace(LINK, down=1e9)) == close([3 * RTT + 150_000 / 1.5e6])


def test_losses_bound_reno_by_the_square_root(tmp_path: Path) -> None:
    """1.22/sqrt(0.0001) = 122 segments of 1500 bytes in each 0.1 s: 1.83 MB/s."""
    tcp, link = Tcp(congestion="reno", initial_window=1000), replace(LINK, down=1e9, loss=1e-4)
    assert exchanged(tmp_path, tcp, "down", link=link) == close([3 * RTT + 150_000 / 1.83e6])


def test_reno_and_cubic_share_by_round_trip_and_bbr_equally(tmp_path: Path) -> None:
    """Two long downloads through a server of 1 MB/s; one device's round trip is 0.1 s, the other's 0.3 s."""
    shares = {}
    for congestion in ("cubic", "bbr"):
        tcp = Tcp(congestion=congestion, initial_window=10**6)  # type: ignore[arg-type]
        links = {"a": replace(LINK, down=1e9, tcp=tcp), "b": replace(LINK, down=1e9, latency=0.14, tcp=tcp)}

        async def main(world: VirtualWorld, traffic: Traffic) -> float:
            flights = [traffic.launch("down", Call(name, 0), {"weights": 10**9}, None) for name in ("a", "b")]
            await world.sleep(2.0)
            before = [flight.carried() for flight in flights]
            await world.sleep(10.0)
            a, b = (flight.carried() - was for flight, was in zip(flights, before, strict=True))
            return a / b

        shares[congestion] = played(tmp_path / congestion, links, main, server=Link(1e6, 1e6, 0.01))
    assert shares == close({"cubic": 3.0, "bbr": 1.0}, rel=1e-5)


# --- what the record says


def test_the_record_says_set_up_and_wire(tmp_path: Path) -> None:
    """The set-up is what goes before the way itself: of 3 round trips all but the last half."""
    exchanged(tmp_path, Tcp(), "down", "up")
    [down], [up] = lines(tmp_path, "down.start"), lines(tmp_path, "up.start")
    assert (down["setup"], down["wire"]) == (close(2.5 * RTT), 150_000)
    assert up["wire"] == 150_000
    assert "setup" not in up
    for line in (down, up):
        known = EVENTS[line["event"]] | MAY_HAVE[line["event"]]
        assert line.keys() <= known.keys() | {"t", "event", "round"}
        assert all_of(known[key].fits(line[key]) for key in ("setup", "wire") if key in line)


def test_an_ideal_link_has_neither(tmp_path: Path) -> None:
    assert exchanged(tmp_path, Tcp(model="ideal"), "down", "up") == close([0.05 + 0.1448] * 2)
    for way in ("down", "up"):
        [line] = lines(tmp_path, f"{way}.start")
        assert line.keys() == {"t", "event", "round", "device", "bytes", "reply_to"}


def test_the_set_up_counts_the_latency_that_a_trace_has_recorded(tmp_path: Path) -> None:
    """The file says 40 ms where the scenario says nothing: everything is as on the link of 40 ms."""
    rate = Trace(np.array([0.0, 10.0]), np.array([1e6]), "down", "capacity", latency=np.array([0.04]))
    link = Link(rate, rate, 0.0, tcp=Tcp())
    assert exchanged(tmp_path, Tcp(), "down", link=link) == close([3 * RTT + RISE])
    assert lines(tmp_path, "down.start")[0]["setup"] == close(2.5 * RTT)


@pytest.mark.parametrize(
    ("at", "wire"), [(0.1, 0), (0.2999, 0), (0.361, 9_150), (0.4505, 15_000 + 15_150), (0.62, 105_000 + 20_000)]
)
def test_the_bytes_of_a_cut_are_the_messages_own_whole_ones(tmp_path: Path, at: float, wire: int) -> None:
    """Of 1500 bytes on the wire 1448 belong to the message; none of them flows before the set-up is over."""

    async def main(world: VirtualWorld, traffic: Traffic) -> None:
        flight = traffic.launch("down", Call("a", 0), MESSAGE, None)
        await world.sleep(at)
        flight.abort("closed")
        with pytest.raises(Lost):
            await flight.wait()

    played(tmp_path, {"a": LINK}, main)
    [cut] = lines(tmp_path, "down.cut")
    assert cut["t"] == at
    assert cut["bytes"] == wire * 1448 // 1500


# --- recordings


def on_and_off(kind: Any = "capacity") -> Trace:
    """1 MB/s for a second, then nothing for two."""
    return Trace(np.array([0.0, 1.0, 3.0]), np.array([1e6, 0.0]), "down", kind)


@pytest.mark.parametrize(("place", "seconds"), [(0.0, 3.5), (0.5, 5.0), (1 / 6, 3.5)])
def test_a_recording_is_replayed_from_its_place_and_loops(tmp_path: Path, place: float, seconds: float) -> None:
    """1.5 MB: one second on, two off, half a one on.  From 1.5 s on 1.5 s off come first; from 0.5 s, half a second
    is left at first and a whole one is needed after the outage."""
    sizes = {"weights": 1_500_000}

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        return await took(world, traffic, "down", sizes=sizes)

    assert played(tmp_path, {"a": Link(1e6, on_and_off(), 0.0)}, main, server=WIDE, place=place) == close(seconds)


@few
@given(
    steps=st.lists(st.tuples(st.floats(0.01, 5), st.sampled_from([0.0, 1e4, 1e5, 3e6])), min_size=1, max_size=6).filter(
        lambda steps: any(rate for _, rate in steps)
    ),
    nbytes=st.integers(1, 10**6),
    place=st.floats(0, 0.999),
    at=st.floats(0, 20),
)
def test_a_transfer_on_a_recording_ends_when_its_integral_says(
    tmp_path_factory: pytest.TempPathFactory, steps: Any, nbytes: int, place: float, at: float
) -> None:
    edges = np.cumsum([0.0, *(length for length, _ in steps)])
    trace = Trace(edges, np.array([rate for _, rate in steps]), "down", "capacity")

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        await world.sleep(at)
        return at + await took(world, traffic, "down", sizes={"weights": nbytes})

    found = played(tmp_path_factory.mktemp("trace"), {"a": Link(1e6, trace, 0.0)}, main, server=WIDE, place=place)
    assert found == close(trace.starting(place * trace.period).finish(at, nbytes), rel=1e-9, abs=1e-9)


def test_achieved_throughput_contains_headers_and_slow_start_but_no_hand_shake(tmp_path: Path) -> None:
    steady = Trace(np.array([0.0, 9.0]), np.array([1e6]), "down", "achieved")
    assert exchanged(tmp_path, Tcp(), "down", link=replace(LINK, down=steady)) == close([3 * RTT + 0.1448])
    assert "wire" not in lines(tmp_path, "down.start")[0]


# --- what devices share


def test_a_cell_is_shared_by_the_two_behind_it_and_by_nobody_else(tmp_path: Path) -> None:
    links = {name: replace(WIDE, via=via) for name, via in (("a", "cell"), ("b", "cell"), ("c", None))}
    topology: Topology = {"down": {"cell": SharedLink(1e6)}, "up": {"cell": SharedLink(0.5e6)}}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        down = await world.together(took(world, traffic, "down", name, MB) for name in links)
        return down + await world.together(took(world, traffic, "up", name, MB) for name in links)

    found = played(tmp_path, links, main, server=Link(4e6, 4e6, 0.0), topology=topology)
    # the server's link carries 4 MB/s, of which the cell takes its own and the third device the rest
    assert found == close([2.0, 2.0, 1 / 3, 4.0, 4.0, 1 / 3.5])


def test_devices_on_one_wi_fi_share_its_time_and_not_its_rate(tmp_path: Path) -> None:
    """Half the time each: 2 and 0.5 MB/s.  The fast one ends at 0.5 s; the slow one's other 750 kB take 0.75 s."""
    links = {"a": Link(4e6, 4e6, 0.0, via="ap"), "b": Link(1e6, 1e6, 0.0, via="ap")}
    topology: Topology = {"down": {"ap": SharedLink(1.0, None, True)}}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together(took(world, traffic, "down", name, MB) for name in links)

    assert played(tmp_path, links, main, server=WIDE, topology=topology) == close([0.5, 1.25])


def test_downloads_and_uploads_on_one_wi_fi_take_turns(tmp_path: Path) -> None:
    """5 MB at 20 Mbit/s are 2 s; one down and one up on one air are 4 s, and on air of their own 2 s each."""
    links = {name: Link(2.5e6, 2.5e6, 0.0, via=via) for name, via in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"))}
    air = {name: SharedLink(1.0, None, True) for name in "xyz"}
    ways = {"a": "down", "b": "up", "c": "down", "d": "up"}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        size = {"weights": 5_000_000}
        return await world.together(took(world, traffic, ways[name], name, size) for name in links)

    found = played(tmp_path, links, main, server=WIDE, topology={"down": air, "up": air})
    assert found == close([4.0, 4.0, 2.0, 2.0])


def test_what_a_cut_upload_leaves_of_the_air_the_download_has(tmp_path: Path) -> None:
    """1 MB at 1 MB/s down; an upload has half of the air from the start, and goes off at 0.5 s: 0.25 + 0.75 s."""
    links = {name: Link(1e6, 1e6, 0.0, via="ap") for name in "ab"}
    air = {"ap": SharedLink(1.0, None, True)}

    async def cut(world: VirtualWorld, traffic: Traffic) -> float:
        flight = traffic.launch("up", Call("b", 0), MB, None)
        await world.sleep(0.5)
        moved = flight.carried()
        traffic.lose("b")
        with pytest.raises(Lost):
            await flight.wait()
        return moved

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together([took(world, traffic, "down", "a", MB), cut(world, traffic)])

    found = played(tmp_path, links, main, server=WIDE, topology={"down": air, "up": air})
    assert found == close([1.25, 250_000])


def test_simgrids_factors_are_those_of_wires_and_not_of_air(tmp_path: Path) -> None:
    """Both ways at 1 MB/s on one air take 2 s by it; with a line of 0.4 MB/s behind, as alone, 1/(0.4 x 0.97/1.05)."""
    tcp = Tcp(model="lv08")
    links = {
        name: Link(1e6, 1e6, 0.0, tcp=Tcp(model="ideal"), via=via) for name, via in zip("abcd", "xxyy", strict=True)
    }
    shared = {"x": SharedLink(1.0, None, True), "y": SharedLink(1.0, "line", True), "line": SharedLink(0.4e6)}
    ways = {"a": "down", "b": "up", "c": "down", "d": "up"}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together(took(world, traffic, ways[name], name, MB) for name in links)

    server = replace(WIDE, tcp=tcp)
    found = played(tmp_path, links, main, server=server, topology={"down": shared, "up": shared})
    assert found == close([2.0, 2.0, 2.5 / tcp.part, 2.5 / tcp.part])


def test_a_window_that_bounds_a_flow_takes_no_more_of_the_air(tmp_path: Path) -> None:
    """1.5 MB/s by its window on a radio of 3 MB/s is half the time; the other half is the neighbour's 0.5 MB/s.

    The first is there from 0.2 to 1.2 s; the neighbour has the air to itself before, and after for its last 300 kB.
    """
    tcp = Tcp(tls=0, congestion="bbr", window=144_800, initial_window=1000)
    links = {"a": Link(3e6, 3e6, 0.05, tcp=tcp, via="ap"), "b": Link(1e6, 1e6, 0.0, via="ap")}
    topology: Topology = {"down": {"ap": SharedLink(1.0, None, True)}}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        sizes = {"a": {"weights": 1_448_000}, "b": MB}
        return await world.together(took(world, traffic, "down", name, sizes[name]) for name in links)

    assert played(tmp_path, links, main, server=WIDE, topology=topology) == close([1.2, 1.5])


def test_links_behind_links_are_all_shared(tmp_path: Path) -> None:
    """Two cells of 1 MB/s behind a line of 1.2: one device in the first and three in the second, 1 MB each.

    The line is the bottleneck of all four, so each has 0.3 MB/s.
    """
    links = {f"{cell}{n}": replace(WIDE, via=cell) for cell, count in (("x", 1), ("y", 3)) for n in range(count)}
    shared = {"x": SharedLink(1e6, "line"), "y": SharedLink(1e6, "line"), "line": SharedLink(1.2e6)}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return await world.together(took(world, traffic, "up", name, MB) for name in links)

    assert played(tmp_path, links, main, server=WIDE, topology={"up": shared}) == close([1 / 0.3] * 4)


# --- other models


def test_simgrids_documented_transfer_takes_its_time_from_a_scenario_on(tmp_path: Path) -> None:
    """100 kB over 10 ms and 1 Mbit/s: 0.01 x 13.01 + 8e5/(0.97e6/1.05) = 0.996079 s."""
    scenario = build(
        {
            "name": "simgrid",
            "network": {"model": "lv08"},
            "server": {"link": {"up_mbit_s": 1000, "down_mbit_s": 1000, "latency_ms": 0}},
            "fleet": [{"profile": "pi-4", "link": {"up_mbit_s": 1, "down_mbit_s": 1, "latency_ms": 10}}],
        }
    )
    links, (_, server) = machines.fleet(scenario)[1], machines.server(scenario)

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        return [await took(world, traffic, way, "pi-4-0", {"weights": 100_000}) for way in ("down", "up")]

    found = played(tmp_path, links, main, server, topology=wiring.topology(scenario))
    assert found == close([0.996079] * 2, abs=5e-7)


@pytest.mark.parametrize("latency", [0.0, 1e-9, 900.0, 5000.0])
def test_lv08_takes_any_latency(tmp_path: Path, latency: float) -> None:
    """Its penalty grows with the latency; flows alone do not notice.  Windows of 4 MiB over 2 latencies bound them."""

    async def main(world: VirtualWorld, traffic: Traffic) -> float:
        return await took(world, traffic, "down", sizes=MB)

    rate = min(1e6 * 0.97 / 1.05, 4194304 / (2 * latency) if latency else 1e6)
    link = Link(1e6, 1e6, latency, tcp=Tcp(model="lv08"))
    assert played(tmp_path, {"a": link}, main, server=WIDE) == close(13.01 * latency + 1e6 / rate)


@settings(max_examples=40, deadline=None, derandomize=True)
@example(start=0.001721451173333333, latency=0.05, nbytes=424_761)
@given(start=st.floats(0, 0.01), latency=st.floats(0.01, 0.1), nbytes=st.integers(1, 500_000))
def test_a_clock_that_rounds_to_just_before_the_end_comes_back_for_it(
    tmp_path_factory: pytest.TempPathFactory, start: float, latency: float, nbytes: int
) -> None:
    """From now on a wait of `end - now` may end a bit before `end`, in floats: the transfer must not hang."""
    links = {name: Link(5e6, 5e6, latency, tcp=Tcp(), via="ap") for name in ("a", "b")}
    topology: Topology = {"down": {"ap": SharedLink(1.0, None, True)}}

    async def main(world: VirtualWorld, traffic: Traffic) -> list[float]:
        await world.sleep(start)
        return await world.together(took(world, traffic, "down", name, {"weights": nbytes}) for name in links)

    one, other = played(tmp_path_factory.mktemp("ulp"), links, main, server=SERVER, topology=topology)
    assert one == other
