"""Transfers in virtual time, without the rest of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from emulator.conversation.traffic import Traffic
from emulator.lab.links import LinksAtOffsets
from emulator.record.lines import read_lines
from emulator.record.record import Record
from emulator.worlds.virtual import VirtualWorld
from network.links.link import Link
from network.sharing.flow import Topology

Main = Callable[[VirtualWorld, Traffic], Coroutine[Any, Any, Any]]


def played(
    folder: Path,
    server: Link,
    links: Mapping[str, Link],
    main: Main,
    topology: Topology | None = None,
    place: Callable[[str], float] = lambda _: 0.0,
    **traffic: Any,
) -> Any:
    """Returns the result of `main`, in a round that asks the devices of these links."""
    placed = LinksAtOffsets(server, links, topology, place)

    async def conducted() -> Any:
        nobody: Any = None
        world = VirtualWorld(nobody)
        record = Record(folder, world.now)
        record.open(0, sorted(links), "m")
        try:
            return await world.run(main(world, Traffic(world, record, placed, **traffic)))
        finally:
            record.shut()

    return asyncio.run(conducted())


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in read_lines(folder / "events.jsonl") if line["event"] == event]
