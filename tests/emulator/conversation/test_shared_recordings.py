"""A recorded cell or backhaul that devices share: seconds by hand (`capacity: cell`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from emulator.conversation.traffic import Traffic
from emulator.lab.links import LinksAtOffsets
from emulator.record.call import Call
from emulator.record.record import Record
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.links.trace import Direction, Trace
from network.sharing.flow import SharedLink

MB = 1_000_000  # bytes
WIDE = Link(1e9, 1e9, 0.0)


def halving(way: Direction = "down") -> Trace:
    """2 MB/s for 10 s, then 1 MB/s for 10 s."""
    return Trace(np.array([0.0, 10.0, 20.0]), np.array([2e6, 1e6]), way, "capacity", "here/cell.csv")


def ends(
    folder: Path,
    way: Direction,
    sizes: Mapping[str, int],
    server: Link = WIDE,
    place: Mapping[str, float] | None = None,
    cell: Trace | None = None,
) -> tuple[dict[str, float], Traffic]:
    """When the message of each device that is sent at 0 has arrived; phones carry 1.5 MB/s at most."""
    links = {name: Link(1.5e6, 1.5e6, 0.0, via="cell" if cell else None) for name in sizes}
    shared = {"cell": SharedLink(cell)} if cell else {}

    async def send(world: VirtualWorld, traffic: Traffic, name: str) -> float:
        await traffic.launch(way, Call(name, 0), {"weights": sizes[name]}, None).wait()
        return world.now()

    async def conducted() -> tuple[dict[str, float], Traffic]:
        world = VirtualWorld(None)  # type: ignore[arg-type]  # nobody trains
        record = Record(folder, world.now)
        record.open(0, sorted(sizes), "m")
        placed = LinksAtOffsets(
            server, links, {"down": shared, "up": shared}, lambda name: (place or {}).get(name, 0.0)
        )
        traffic = Traffic(world, record, placed)
        try:
            found = await world.run(world.together(send(world, traffic, name) for name in sizes))
        finally:
            record.shut()
        return dict(zip(sizes, found, strict=True)), traffic

    return asyncio.run(conducted())


@pytest.mark.parametrize("way", ["down", "up"])
def test_two_phones_share_what_was_recorded_of_their_cell(tmp_path: Path, way: Direction) -> None:
    """1 MB/s each, so b has its 5 MB at 5 s.  Then a has its radio's 1.5 MB/s: 2.5 of its 15 MB are left when the cell
    falls to 1 MB/s at 10 s, and arrive at 12.5 s."""
    found, _ = ends(tmp_path, way, {"a": 15 * MB, "b": 5 * MB}, cell=halving(way))
    assert found == {"a": pytest.approx(12.5), "b": pytest.approx(5.0)}


def test_a_cell_begins_at_its_own_place_and_starts_over(tmp_path: Path) -> None:
    """From 15 s on: 0.5 MB/s each for 5 s, then it starts over, and 1 MB/s each: 7.5 MB take 5 + 5 s."""
    found, traffic = ends(
        tmp_path, "down", {"a": 7_500_000, "b": 7_500_000}, cell=halving(), place={"cell": 0.75, "a": 0.1}
    )
    assert found == {"a": pytest.approx(10.0), "b": pytest.approx(10.0)}
    assert traffic.placed.loops.most(10.0) == (1, "cell.csv")
    assert traffic.placed.loops.most(25.1) == (2, "cell.csv")


def test_the_servers_link_may_be_recorded(tmp_path: Path) -> None:
    """The server sends at its up: 1 MB/s each until 10 s, then half of it: 12 MB take 10 + 4 s."""
    server = Link(halving("up"), 1e9, 0.0)
    found, traffic = ends(tmp_path, "down", {"a": 12 * MB, "b": 12 * MB}, server)
    assert found == {"a": pytest.approx(14.0), "b": pytest.approx(14.0)}
    assert traffic.placed.loops.most(20.0) == (1, "cell.csv")


def test_an_outage_of_the_cell_keeps_all_waiting(tmp_path: Path) -> None:
    """2 MB/s for 1 s, nothing for 4 s: two of 1.5 MB each have 0.5 MB left at 1 s, and end at 5.5 s."""
    outage = Trace(np.array([0.0, 1.0, 5.0]), np.array([2e6, 0.0]), "down", "capacity", "cell")
    found, _ = ends(tmp_path, "down", {"a": 1_500_000, "b": 1_500_000}, cell=outage)
    assert found == {"a": pytest.approx(5.5), "b": pytest.approx(5.5)}
